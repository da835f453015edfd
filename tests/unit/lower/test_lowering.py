"""Programs of small graphs under plans: what each rank calls, has and moves."""

import pytest
import torch
from torch import nn

from graphwright.capture import bind, capture
from graphwright.errors import InvalidStrategy
from graphwright.ir import CONSTANT_OP, GraphBuilder, Phase, Role, TensorType
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel, layers, replicate
from graphwright.plans import (
    Call,
    Exchange,
    Mesh,
    Sharding,
    Strategy,
    make_plan,
    on_one,
    whole_mesh,
)
from graphwright.rewrite import rejoin
from graphwright.simulate import CostModel
from programs import check_programs, kinds_of, shared
from random_plans import zoo_graph
from threads import largest_difference, run_together

COSTS = CostModel(measured=False)
TWO, THREE, FOUR = (cluster(f"local:{n}") for n in (2, 3, 4))
MATRIX = TensorType((6, 6), "float64")


def product(update=True):
    """y = x @ w, and w + y in its place."""
    build = GraphBuilder()
    build.add_input("x", MATRIX)
    build.add_input("w", MATRIX, Role.PARAMETER)
    build.add("aten.mm", ["x", "w"], {}, MATRIX, names="y")
    if not update:
        return build.build(["y"])
    change = {"phase": Phase.UPDATE, "role": Role.PARAMETER, "of": "w"}
    build.add("aten.add.Tensor", ["w", "y"], {"alpha": 1}, MATRIX, names="w.new", **change)
    return build.build(["y", "w.new"], {"w": "w.new"})


def values_of(graph):
    torch.manual_seed(0)
    shapes = {name: graph.tensors[name].type.shape for name in graph.inputs}
    return {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def programs(graph, plan):
    return check_programs(lower(graph, plan, costs=COSTS))


def apart(graph, plan, values=None):
    return largest_difference(graph, plan, values or values_of(graph), costs=COSTS)[0]


# -- what is called ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "lenet", "rnnlm-2", "dlrm", "gpt2"])
def test_a_replicated_plan_moves_nothing(name):
    graph = zoo_graph(name)
    for program in programs(graph, replicate(graph, FOUR)):
        assert not shared(program)
        kinds = kinds_of(program)
        kinds[CONSTANT_OP] += kinds.pop("constant", 0)
        wanted = {op: n for op, n in kinds.items() if n}
        counted = {}
        for node in rejoin(graph, replicate(graph, FOUR))[0].nodes:
            counted[node.op] = counted.get(node.op, 0) + 1
        assert wanted == counted
        assert program.updates.keys() == graph.updates.keys()
        assert set(graph.outputs[:1]) <= program.results.keys()


def test_one_rank_does_everything():
    graph = zoo_graph("mlp")
    (program,) = programs(graph, replicate(graph, cluster("local:1")))
    joined, _ = rejoin(graph, replicate(graph, cluster("local:1")))
    assert len(program.instructions) == len(joined.nodes)
    assert lower(graph, replicate(graph, cluster("local:1")), costs=COSTS).groups == ()


def test_data_parallel_adds_every_gradient_up_once():
    graph = zoo_graph("mlp")
    parameters = [n for n in graph.inputs if graph.tensors[n].role is Role.PARAMETER]
    lowered = lower(graph, data_parallel(graph, TWO), costs=COSTS)
    assert lowered.groups == ((0, 1),)
    for program in check_programs(lowered):
        summed = [i.tensor for i in shared(program) if i.kind.reduces]
        assert len(set(summed)) == len(summed)
        of_parameters = [t for t in summed if graph.tensors[t].role is Role.GRADIENT]
        assert len(of_parameters) == len(parameters)
        assert not kinds_of(program)["exchange"]


def test_layers_call_every_node_once():
    graph = zoo_graph("mlp")
    found = programs(graph, layers(graph, THREE))
    called = [i.node for p in found for i in p.instructions if not shared_or_cut(i)]
    joined, _ = rejoin(graph, layers(graph, THREE))
    assert sorted(called) == sorted(node.name for node in joined.nodes)
    assert all(any(not shared_or_cut(i) for i in p.instructions) for p in found)


def shared_or_cut(instruction):
    return not hasattr(instruction, "node")


# -- parts -------------------------------------------------------------------------------------------


def test_rows_of_a_product():
    graph = product(update=False)
    plan = make_plan(graph, THREE, {"y": "i"})
    for rank, program in enumerate(programs(graph, plan)):
        assert program.homes["x"] == ((2 * rank, 2 * rank + 2), (0, 6))
        assert program.homes["w"] == ((0, 6), (0, 6))
        rows = f"{2 * rank}:{2 * rank + 2}"
        assert [*map(str, program.instructions)] == [f"%2 = aten.mm(%0, %1)  # y[{rows}, 0:6]"]
        assert program.results == {"y": 2}
    assert apart(graph, plan) == 0


def test_terms_of_a_product_are_added_up_for_the_result():
    graph = product(update=False)
    plan = make_plan(graph, THREE, {"y": "k"})
    for program in programs(graph, plan):
        assert kinds_of(program) == {"aten.mm": 1, "all_reduce": 1}
    assert apart(graph, plan) < 1e-14


def test_uneven_parts():
    graph = product()
    on = FOUR  # 6 rows in 4 parts: 1, 2, 1, 2
    plan = make_plan(graph, on, {"y": "i i", "w.new": "i0 i0"})
    found = programs(graph, plan)
    assert [p.homes["x"][0] for p in found] == [(0, 1), (1, 3), (3, 4), (4, 6)]
    assert apart(graph, plan) < 1e-14


def test_a_new_value_goes_where_the_old_one_lives():
    graph = product()
    home = Sharding(whole_mesh(TWO), ("S1",))
    plan = make_plan(graph, TWO, {"y": "i", "w.new": "i0"}, inputs={"w": home})
    lowered = lower(graph, plan, costs=COSTS)
    assert lowered.shardings["w"] == home
    for rank, program in enumerate(check_programs(lowered)):
        assert program.homes["w"] == ((0, 6), (3 * rank, 3 * rank + 3))
    assert apart(graph, plan) < 1e-14


def test_constants_and_scalars():
    build = GraphBuilder()
    scalar = TensorType((), "float64")
    build.add_input("x", MATRIX)
    build.add(CONSTANT_OP, [], {"value": 2.5}, scalar, names="c")
    build.add("aten.mul.Tensor", ["x", "c"], {}, MATRIX, names="y")
    graph = build.build(["y"])
    plan = make_plan(graph, TWO, {"y": "i0"})
    assert "constant(float64[]; 2.5)" in str(programs(graph, plan)[0])
    assert apart(graph, plan) == 0


# -- halos and tables --------------------------------------------------------------------------------


def step_of(model, batch, loss_fn=nn.functional.mse_loss):
    torch.manual_seed(0)
    model = model.double()
    graph = capture(model, loss_fn, batch, optimizer=torch.optim.SGD)
    return graph, bind(graph, model, batch, optimizer=torch.optim.SGD)


def test_rows_of_an_image_need_a_halo():
    torch.manual_seed(0)
    image = torch.randn(2, 2, 600, 128, dtype=torch.float64)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 2, 3, padding=1))
    graph, values = step_of(model, (image, image))
    along = {n.name: "y0" for n in graph.nodes if n.op == "aten.convolution"}
    plan = make_plan(graph, THREE, along)
    found = programs(graph, plan)
    halos = [i for p in found for i in p.instructions if isinstance(i, Exchange) and i.receives]
    assert halos
    calls = [i for i in found[0].instructions if isinstance(i, Call) and i.op == "aten.convolution"]
    first = calls[0].inputs[0]
    assert first.region[2][0] < 0  # the padding above
    assert first.fills[2] == 0
    assert apart(graph, plan, values) < 1e-13


def test_what_has_gaps_is_not_all_that_is_kept():
    """A convolution with strides reads columns [0, 3) and [4, 7) of 8: the rest cannot be brought back from that."""
    torch.manual_seed(0)
    image = torch.randn(2, 2, 8, 8, dtype=torch.float64)
    model = nn.Sequential(nn.ReLU(), nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 1, stride=2))
    graph, values = step_of(model, (image, image[:, :, ::2, ::2].contiguous()))
    strided = [n for n in graph.nodes if n.op == "aten.convolution"][1]
    (read,) = [n for n in strided.inputs if n is not None and n in {o.name for o in graph.nodes}]
    strategies = {read: "i2", strided.name: "y1"}
    plan = make_plan(graph, TWO, strategies, keep={read: "after"})
    lowered = lower(graph, plan, costs=COSTS)
    needed = [lowered.expansion.placed[lowered.expansion.facts.position[strided.name]].inputs[0]]
    assert [dict(n.pieces)[3] for n in needed] == [((0, 3), (4, 7))]
    check_programs(lowered)
    assert lowered.expansion.kept(read) is None
    assert apart(graph, plan, values) < 1e-13


def looked_up(negated):
    """Rows of a table of truth values, as a mask, inverted or as numbers."""
    build = GraphBuilder()
    build.add_input("table", TensorType((7, 3), "bool"), Role.BUFFER)
    build.add_input("index", TensorType((5,), "int64"))
    found = TensorType((5, 3), "bool")
    build.add("aten.index_select", ["table", "index"], {"dim": 0}, found, names="found")
    if negated:
        build.add("aten.bitwise_not", ["found"], {}, found, names="made")
    else:
        numbers = TensorType((5, 3), "float64")
        build.add("aten._to_copy", ["found"], {"dtype": "float64"}, numbers, names="made")
    return build.build(["found", "made"])


@pytest.mark.parametrize("negated", [True, False])
def test_rows_of_a_table_of_truth_values(negated):
    graph = looked_up(negated)
    generator = torch.Generator().manual_seed(0)
    values = {
        "table": torch.rand(7, 3, generator=generator) < 0.5,
        "index": torch.randint(7, (5,), generator=generator),
    }
    plan = make_plan(graph, THREE, {"found": "x.0"})
    assert apart(graph, plan, values) == 0
    with pytest.raises(InvalidStrategy, match="not linear"):
        programs(graph, make_plan(graph, THREE, {"found": "x.0", "made": "+0"}))


def test_only_the_gradients_that_are_asked_for():
    """A kernel that is asked for its second and third result has nothing in the place of the first."""
    build = GraphBuilder()
    rows, scale, column = (TensorType(s, "float64") for s in ((4, 6), (6,), (4, 1)))
    given = {"g": rows, "x": rows, "mean": column, "rstd": column, "weight": scale, "bias": scale}
    for name, type in given.items():
        build.add_input(name, type)
    attrs = {"normalized_shape": (6,), "output_mask": (False, True, True)}
    op = "aten.native_layer_norm_backward"
    build.add(op, list(given), attrs, [scale, scale], names=["for_weight", "for_bias"])
    graph = build.build(["for_weight", "for_bias"])
    (node,) = graph.nodes
    for strategy in ({node.name: "b0"}, {}):
        plan = make_plan(graph, TWO, strategy)
        assert apart(graph, plan) < 1e-13


def test_rows_of_a_table():
    table = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4))
    index = torch.tensor([[0, 6, 3], [2, 2, 5]])
    torch.manual_seed(0)
    graph, values = step_of(table, (index, torch.randn(2, 3, 4, dtype=torch.float64)))
    (lookup,) = [n.name for n in graph.nodes if n.op == "aten.embedding"]
    plan = make_plan(graph, THREE, {lookup: "w.0"})
    rows = []
    for program in programs(graph, plan):
        (call,) = [i for i in program.instructions if getattr(i, "node", "") == lookup]
        rows += [(call.rows[0].low, call.rows[0].end)]
    assert rows == [(0, 2), (2, 4), (4, 7)]
    assert apart(graph, plan, values) < 1e-14
    (given,) = [n for n, v in values.items() if torch.equal(v, index)]
    for wrong in (7, -1):  # in no rank's part, as on one device
        with pytest.raises(RuntimeError, match="index out of range: the table has 7 rows"):
            run_together(graph, plan, values | {given: torch.full_like(index, wrong)})


# -- some of the ranks -------------------------------------------------------------------------------


def test_a_node_on_one_rank():
    graph = product(update=False)
    everywhere = Sharding(whole_mesh(TWO), ("S0",))
    plan = make_plan(graph, TWO, {"y": on_one(1)}, inputs={"x": everywhere})
    first, second = programs(graph, plan)
    assert first.inputs.keys() == {"x"}
    assert second.inputs.keys() == {"x", "w"}
    sent = "_ = exchange(%0; x, float64[6, 6], tag 0, [0:3, 0:6] to 1)"
    assert str(first.instructions[0]) == sent
    assert [type(i).__name__ for i in first.instructions] == ["Exchange"]
    assert first.results == {}
    assert second.results.keys() == {"y"}
    assert apart(graph, plan) == 0


def test_a_subset_that_takes_turns():
    """y on ranks 2 and 3, its reader on 0 and 1: neither pair knows of the other's calls."""
    build = GraphBuilder()
    build.add_input("x", MATRIX)
    build.add("aten.relu", ["x"], {}, MATRIX, names="y")
    build.add("aten.neg", ["y"], {}, MATRIX, names="z")
    graph = build.build(["z"])
    strategies = {
        "y": Strategy(("i0",), Mesh((2, 3), (2,))),
        "z": Strategy(("i1",), Mesh((0, 1), (2,))),
    }
    plan = make_plan(graph, FOUR, strategies)
    called = [{i.op for i in p.instructions if isinstance(i, Call)} for p in programs(graph, plan)]
    assert called == [{"aten.neg"}, {"aten.neg"}, {"aten.relu"}, {"aten.relu"}]
    assert [p.inputs.keys() for p in programs(graph, plan)] == [set(), set(), {"x"}, {"x"}]
    assert apart(graph, plan) == 0


# -- what is kept ------------------------------------------------------------------------------------


def there_and_back():
    """w is read by a forward and by a late node; y, made by a forward one, too."""
    build = GraphBuilder()
    build.add_input("x", MATRIX)
    build.add_input("w", MATRIX, Role.PARAMETER)
    build.add("aten.mm", ["x", "w"], {}, MATRIX, names="y")
    build.add("aten.relu", ["y"], {}, MATRIX, names="z")
    build.add("aten.mm", ["z", "w"], {}, MATRIX, names="g", phase=Phase.BACKWARD)
    build.add("aten.mul.Tensor", ["g", "y"], {}, MATRIX, names="h", phase=Phase.BACKWARD)
    return build.build(["h"])


def moved(program, tensor):
    return [i for i in shared(program) if i.tensor == tensor]


@pytest.mark.parametrize(("keep", "count"), [({}, 1), ({"w": "before"}, 2)])
def test_a_parameter_is_gathered_again(keep, count):
    graph = there_and_back()
    home = {"w": Sharding(whole_mesh(TWO), ("S0",))}
    plan = make_plan(graph, TWO, {}, inputs=home, keep=keep)
    for program in programs(graph, plan):
        assert [i.kind.name for i in moved(program, "w")] == ["all_gather"] * count
    assert apart(graph, plan) == 0


@pytest.mark.parametrize(("keep", "count"), [({}, 1), ({"y": "before"}, 1), ({"y": "after"}, 2)])
def test_what_was_dropped_is_brought_back(keep, count):
    """y is made in rows, needed whole by z, and in rows again by h."""
    graph = there_and_back()
    strategies = {"y": "i", "z": "-", "g": "i", "h": "i0"}
    if keep == {"y": "before"}:
        strategies["h"] = "-"
        count = 2
    plan = make_plan(graph, TWO, strategies, keep=keep)
    for program in programs(graph, plan):
        cuts = kinds_of(program)["cut"]
        assert len(moved(program, "y")) + (keep == {"y": "after"}) * min(cuts, 1) == count
    assert apart(graph, plan) < 1e-14


def test_a_view_is_made_again_from_what_is_kept():
    build = GraphBuilder()
    build.add_input("x", MATRIX)
    build.add_input("w", MATRIX, Role.PARAMETER)
    build.add("aten.permute", ["w"], {"dims": (1, 0)}, MATRIX, names="turned")
    build.add("aten.mm", ["x", "turned"], {}, MATRIX, names="y")
    build.add("aten.mm", ["y", "turned"], {}, MATRIX, names="g", phase=Phase.BACKWARD)
    graph = build.build(["g"])
    home = {"w": Sharding(whole_mesh(TWO), ("S0",))}
    plan = make_plan(graph, TWO, {}, inputs=home, keep={"w": "before"})
    for program in programs(graph, plan):
        kinds = kinds_of(program)
        assert kinds["aten.permute"] == 2
        assert kinds["all_gather"] == 2
    assert apart(graph, plan) == 0


# -- words -------------------------------------------------------------------------------------------


def test_a_program_in_words():
    graph = product()
    plan = make_plan(graph, TWO, {"y": "k", "w.new": "i0"})
    program = lower(graph, plan, costs=COSTS).program(1)
    assert str(program) == EXPECTED
    assert repr(program) == f"Program(rank 1, {len(program.instructions)} instructions)"


EXPECTED = """\
%0 = take x[0:6, 3:6]
%1 = take w[3:6, 0:6]
%2 = aten.mm(%0, %1)  # y[0:6, 0:6]
%3 = reduce_scatter(%2; y, sum, dim 0 in parts of 3, 3, ranks 0, 1)
%4 = all_reduce(%2; y, sum, ranks 0, 1)
%5 = aten.add.Tensor(%1, %3; alpha=1), over argument 0, 1  # w.new[3:6, 0:6]
w <- %5
return y = %4"""


def test_results_of_every_step():
    graph = product()
    plan = make_plan(graph, TWO, {"y": "i", "w.new": "i1"})
    _, ranks = run_together(graph, plan, values_of(graph), steps=3, costs=COSTS)
    for _, results in ranks:
        assert len(results) == 3
        assert not torch.equal(results[0]["y"], results[2]["y"])
