"""Message passing: built-ins and functions of one's own agree, on all edges, on some, in an order."""

import gc
import weakref

import pytest
import torch

import graphwright.gnn as dgl
import graphwright.gnn.function as fn
from graphwright.gnn.function.builtin import binary_names
from graphwright.gnn.storage import FeatureMismatch, InvalidFunction, MissingFeature


@pytest.fixture
def g():
    torch.manual_seed(0)
    made = dgl.graph(([0, 0, 1, 2, 0, 3, 1], [1, 2, 2, 2, 1, 0, 3]), num_nodes=5)
    made.ndata["x"] = torch.randn(5, 3)
    made.ndata["y"] = torch.rand(5, 3) + 1
    made.edata["w"] = torch.rand(7, 3) + 1
    return made


PYTHON = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "dot": lambda a, b: (a * b).sum(-1, keepdim=True),
}  # fmt: skip


def of(edges, end):
    return {"u": edges.src, "v": edges.dst, "e": edges.data}[end]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("name", binary_names())
def test_a_built_in_pair_is_the_function_of_the_same_meaning(g, name, reduce):
    a, op, b = name.split("_")
    fields = {"u": "x", "v": "y", "e": "w"}
    g.update_all(getattr(fn, name)(fields[a], fields[b], "m"), getattr(fn, reduce)("m", "fused"))

    def message(edges):
        return {"m": PYTHON[op](of(edges, a)[fields[a]], of(edges, b)[fields[b]])}

    def reducer(nodes):
        mail = nodes.mailbox["m"]
        made = getattr(mail, reduce)(1)
        return {"own": made.values if reduce in ("max", "min") else made}

    g.update_all(message, reducer)
    torch.testing.assert_close(g.ndata["fused"], g.ndata["own"])
    g.update_all(message, getattr(fn, reduce)("m", "mixed"))
    torch.testing.assert_close(g.ndata["fused"], g.ndata["mixed"])
    assert g.ndata["fused"][4].abs().sum() == 0  # no in-edges
    g.apply_edges(getattr(fn, name)(fields[a], fields[b], "z"))
    g.apply_edges(lambda edges: {"own": message(edges)["m"]})
    torch.testing.assert_close(g.edata["z"], g.edata["own"])


def test_an_lstm_may_reduce(g):
    lstm = torch.nn.LSTM(3, 4, batch_first=True)
    seen = []

    def reducer(nodes):
        seen.append(tuple(nodes.mailbox["m"].shape))
        return {"h": lstm(nodes.mailbox["m"])[1][0][0]}

    g.update_all(fn.copy_u("x", "m"), reducer)
    assert seen == [(2, 1, 3), (1, 2, 3), (1, 3, 3)]  # nodes 0 and 3; 1; 2
    alone = lstm(g.ndata["x"][[0, 1, 2]][None])[1][0][0][0]
    torch.testing.assert_close(g.ndata["h"][2], alone)
    g.ndata["h"].sum().backward()
    assert lstm.weight_ih_l0.grad.abs().sum() > 0


def test_padding_makes_few_buckets_of_many_degrees():
    torch.manual_seed(0)
    degrees = list(range(1, 41))
    src = torch.cat([torch.arange(degree) for degree in degrees])
    dst = torch.repeat_interleave(torch.arange(40), torch.tensor(degrees))
    g = dgl.graph((src, dst), num_nodes=40)
    g.ndata["x"] = torch.randn(40, 2, requires_grad=True)
    calls = []

    @dgl.padded
    def softmax_mean(nodes):
        calls.append(nodes.mask)
        mail = nodes.mailbox["m"]
        score = mail.sum(-1, keepdim=True)
        if nodes.mask is not None:
            score = score.masked_fill(~nodes.mask[..., None], -torch.inf)
        return {"h": (score.softmax(1) * mail).sum(1)}

    g.update_all(fn.copy_u("x", "m"), softmax_mean)
    padded = g.ndata["h"]
    assert len(calls) == 7  # 1, 2, 4, 8, 16, 32, 64
    calls.clear()
    g.update_all(fn.copy_u("x", "m"), lambda nodes: softmax_mean(nodes))
    assert len(calls) == 40
    torch.testing.assert_close(padded, g.ndata["h"])


def test_rounds_over_some_edges_leave_others_alone(g):
    g.ndata["h"] = torch.full((5, 3), 7.0)
    g.send_and_recv([0, 5], fn.copy_u("x", "m"), fn.sum("m", "h"))
    x, h = g.ndata["x"], g.ndata["h"]
    torch.testing.assert_close(h[[0, 1]], x[[3, 0]])
    assert (h[[2, 3, 4]] == 7).all()
    g.pull([2, 4], fn.copy_u("x", "m"), fn.sum("m", "h"), lambda nodes: {"h": nodes.data["h"] * 2})
    torch.testing.assert_close(g.ndata["h"][2], 2 * (x[0] + x[1] + x[2]))
    assert g.ndata["h"][4].abs().sum() == 0
    g.push(
        [3], fn.copy_u("x", "m"), lambda nodes: {"h": nodes.mailbox["m"].sum(1) + nodes.data["y"]}
    )
    torch.testing.assert_close(g.ndata["h"][0], x[3] + g.ndata["y"][0])
    ids = []
    g.send_and_recv(
        ([0, 1], [2, 3]), lambda edges: ids.append(edges.edges()) or {"m": edges.src["x"]},
        fn.sum("m", "z"),
    )  # fmt: skip
    assert [part.tolist() for part in ids[0]] == [[0, 1], [2, 3], [1, 6]]


def test_propagation_follows_an_order():
    chain = dgl.graph(([0, 1, 2], [1, 2, 3]))
    chain.ndata["h"] = torch.tensor([[1.0], [1], [1], [1]])
    add = lambda nodes: {"h": nodes.data["h"] + nodes.mailbox["m"].sum(1)}
    chain.prop_nodes([[1], [2], [3]], fn.copy_u("h", "m"), add)
    assert chain.ndata["h"].flatten().tolist() == [1, 2, 3, 4]
    chain.prop_edges([[2], [1], [0]], fn.copy_u("h", "m"), add)
    assert chain.ndata["h"].flatten().tolist() == [1, 3, 5, 7]


def test_types_are_reduced_one_by_one_and_across():
    g = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "plays", "game"): ([0, 2, 2], [0, 0, 1]),
            ("dev", "makes", "game"): ([0], [1]),
        }
    )
    g.nodes["user"].data["h"] = torch.tensor([[1.0], [2], [4]])
    g.nodes["dev"].data["h"] = torch.tensor([[-8.0]])
    pair = (fn.copy_u("h", "m"), fn.sum("m", "out"))
    for cross, expected in [
        ("sum", [5, -4]),
        ("max", [5, 4]),
        ("min", [0, -8]),
        ("mean", [2.5, -2]),
    ]:
        g.multi_update_all({"plays": pair, "makes": pair}, cross)
        assert g.nodes["game"].data["out"].flatten().tolist() == expected
    g.multi_update_all({"plays": pair, "makes": pair}, "stack")
    assert g.nodes["game"].data["out"].shape == (2, 2, 1)
    g.multi_update_all({"plays": pair, "makes": pair}, lambda parts: parts[0] * 10)
    assert g.nodes["game"].data["out"].flatten().tolist() == [50, 40]
    g.update_all(*pair)
    assert g.nodes["game"].data["out"].flatten().tolist() == [5, -4]
    g.update_all(*pair, etype="follows")
    assert g.nodes["user"].data["out"].flatten().tolist() == [0, 1, 2]
    with pytest.raises(dgl.DGLError, match="multi_update_all"):
        g.update_all(fn.copy_u("h", "m"), fn.max("m", "out"))


def test_filters_and_groups(g):
    g.ndata["k"] = torch.arange(5)
    assert g.filter_nodes(lambda nodes: nodes.data["k"] % 2 == 1).tolist() == [1, 3]
    assert g.filter_nodes(lambda nodes: nodes.data["k"] > 1, [1, 2]).tolist() == [2]
    assert g.filter_edges(lambda edges: edges.src["k"] == edges.dst["k"]).tolist() == [3]

    def normalise(edges):
        return {"n": edges.data["w"] / edges.data["w"].sum(1, keepdim=True)}

    g.group_apply_edges("dst", normalise)
    g.update_all(fn.copy_e("n", "m"), fn.sum("m", "one"))
    torch.testing.assert_close(g.ndata["one"][:4], torch.ones(4, 3))
    g.group_apply_edges(
        "src",
        lambda edges: {"n": edges.dst["k"].sum(1, keepdim=True) + 0 * edges.dst["k"]},
        etype="_E",
    )
    assert g.edata["n"].tolist() == [4, 4, 5, 2, 4, 0, 5]


def test_blocks_pass_messages_from_side_to_side():
    block = dgl.create_block(([0, 1, 2, 3], [0, 0, 1, 1]), num_src_nodes=4, num_dst_nodes=2)
    block.srcdata["h"] = torch.tensor([[1.0], [2], [3], [4]])
    block.dstdata["h"] = torch.tensor([[10.0], [20]])
    block.update_all(fn.u_mul_v("h", "h", "m"), fn.sum("m", "out"))
    assert block.dstdata["out"].flatten().tolist() == [30, 140]
    assert "out" not in block.srcdata
    block.apply_edges(fn.u_add_v("h", "h", "s"))
    assert block.edata["s"].flatten().tolist() == [11, 12, 23, 24]


def test_nothing_holds_the_graph_or_messages_after_backward():
    g = dgl.graph((torch.randint(50, (400,)), torch.randint(50, (400,))), num_nodes=50)
    x = torch.randn(50, 4, requires_grad=True)
    with g.local_scope():
        g.ndata["x"] = x
        g.update_all(fn.copy_u("x", "m"), fn.mean("m", "h"))
        out = g.ndata["h"]
    ghost = weakref.ref(g)
    del g
    gc.collect()
    assert ghost() is None  # the result alone does not hold it
    out.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.update_all(fn.copy_u("q", "m"), fn.sum("m", "h")), MissingFeature, r"no node feature 'q'; the fields are \['x', 'y'\]"),
        (lambda g: g.update_all(fn.copy_u("x", "m"), fn.sum("n", "h")), MissingFeature, r"reads message 'n', but the messages are \['m'\]"),
        (lambda g: g.update_all(lambda e: e.src["x"], fn.sum("m", "h")), InvalidFunction, "has to return a dictionary"),
        (lambda g: g.update_all(lambda e: {"m": e.src["x"][:2]}, fn.sum("m", "h")), InvalidFunction, r"'m' of shape \[2, 3\], but its batch has 7 rows"),
        (lambda g: g.update_all(fn.copy_u("x", "m"), lambda n: {"h": n.mailbox["m"][0]}), InvalidFunction, "reduce function <lambda> returned field 'h'"),
        (lambda g: g.update_all(fn.copy_u("x", "m"), lambda n: {"h": n.mailbox["m"].sum(1).to(torch.float64 if len(n) > 1 else torch.float32)}), InvalidFunction, "types and shapes have to be the same"),
        (lambda g: g.pull([0], fn.copy_u("x", "m"), lambda n: {"x": n.mailbox["m"].sum(1).double()}), FeatureMismatch, "feature 'x' of type torch.float32 with values of type torch.float64"),
        (lambda g: g.update_all(fn.u_mul_e("x", "long", "m"), fn.sum("m", "h")), FeatureMismatch, r"cannot be broadcast: \[3\] and \[4\]"),
        (lambda g: g.apply_nodes(fn.copy_u("x", "h")), InvalidFunction, "not a built-in"),
        (lambda g: g.update_all("copy", fn.sum("m", "h")), InvalidFunction, "message function has to be a built-in"),
        (lambda g: g.filter_nodes(lambda n: torch.ones(2)), InvalidFunction, "one truth value for each of 5"),
        (lambda g: g.pull([9], fn.copy_u("x", "m"), fn.sum("m", "h")), dgl.DGLError, "has id 9, but ids go from 0 to 4"),
        (lambda g: g.update_all(fn.u_dot_e("x", "long", "m"), fn.sum("m", "h")), FeatureMismatch, r"cannot be broadcast|dot product"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(g, call, error, message):
    g.edata["long"] = torch.ones(7, 4)
    with pytest.raises(error, match=message):
        call(g)


def test_a_message_that_is_not_in_the_mailbox_is_named():
    g = dgl.graph(([0, 1], [1, 0]))
    g.ndata["h"] = torch.ones(2, 1)
    with pytest.raises(
        dgl.DGLError, match=r"no message 'q' in the mailbox; the messages are \['m'\]"
    ):
        g.update_all(fn.copy_u("h", "m"), lambda nodes: {"h": nodes.mailbox["q"].sum(1)})


def test_ids_are_of_32_or_64_bits():
    with pytest.raises(
        dgl.DGLError, match=r"idtype has to be torch.int32 or torch.int64. Got torch.int16"
    ):
        dgl.graph(([0], [1]), idtype=torch.int16)


def test_what_is_no_graph_is_not_batched():
    with pytest.raises(dgl.DGLError, match=r"Expect graphs. Got int"):
        dgl.batch([dgl.graph(([0], [1])), 3])


def test_propagation_along_traversals():
    g = dgl.graph(([0, 0, 1, 2], [1, 2, 3, 3]))  # a diamond
    pair = fn.copy_u("h", "m"), fn.sum("m", "h")
    orders = dgl.topological_nodes_generator(g)
    ways = (
        (lambda: dgl.prop_nodes_topo(g, *pair), lambda: g.prop_nodes(orders, *pair)),
        (lambda: dgl.prop_nodes(g, orders[1:], *pair), lambda: g.prop_nodes(orders[1:], *pair)),
        (lambda: dgl.prop_nodes_bfs(g, 0, *pair), lambda: g.prop_nodes(orders, *pair)),
        (lambda: dgl.prop_edges(g, ([0, 1], [2, 3]), *pair), lambda: g.prop_nodes(orders[1:], *pair)),
        (lambda: dgl.prop_edges_dfs(g, 0, *pair), lambda: g.prop_edges(dgl.dfs_edges_generator(g, 0), *pair)),
    )  # fmt: skip
    for ours, expected in ways:
        found = []
        for way in (ours, expected):
            g.ndata["h"] = torch.tensor([[1.0], [5.0], [7.0], [0.0]])
            way()
            found.append(g.ndata["h"].reshape(-1).tolist())
        assert found[0] == found[1]
    g.ndata["h"] = torch.tensor([[1.0], [5.0], [7.0], [0.0]])
    dgl.prop_nodes(g, orders[1:], *pair)
    assert g.ndata["h"].reshape(-1).tolist() == [1, 1, 1, 2]
