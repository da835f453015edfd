"""ONNX files as modules: weights, sizes that are known, functions, branches, external data."""

from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import graphwright as gw
from graphwright.capture import read_onnx
from graphwright.capture.onnx.wire import encoded, fields, signed
from graphwright.errors import InvalidBatch
from graphwright.pipeline import load_optimized
from onnx_files import graph, node, tensor, write

FLOAT, INT = torch.float32, torch.int64
X = ("x", FLOAT, (1, 4, 6, 6))
PRICES = {"prices": "roofline", "budget": 20}


def ints(*values):
    return torch.tensor(values, dtype=INT)


@given(
    st.lists(
        st.tuples(st.integers(1, 2**20), st.integers(-(2**63), 2**63 - 1) | st.binary()), max_size=6
    )
)
def test_fields_are_read_as_they_were_written(wanted):
    data = b"".join(encoded(number, value) for number, value in wanted)
    made = [
        (number, signed(value) if isinstance(value, int) else bytes(value))
        for number, _, value in fields(memoryview(data))
    ]
    assert made == wanted


def two_branches(path, **options):
    torch.manual_seed(0)
    weights = {
        "a.w": torch.randn(3, 4, 1, 1),
        "a.b": torch.randn(3),
        "b.w": torch.randn(5, 4, 1, 1),
    }
    norm = {n: torch.rand(3) + 0.5 for n in ("scale", "bias", "mean", "var")}
    nodes = [
        node("Conv", ["x", "a.w", "a.b"], ["a"], kernel_shape=[1, 1]),
        node("BatchNormalization", ["a", *norm], ["n"], epsilon=1e-3),
        node("Relu", ["n"], ["na"]),
        node("Conv", ["x", "b.w"], ["b"]),
        node("Relu", ["b"], ["rb"]),
        node("Concat", ["na", "rb"], ["y"], axis=1),
    ]

    def wanted(x):
        a = F.conv2d(x, weights["a.w"], weights["a.b"])
        a = F.batch_norm(a, norm["mean"], norm["var"], norm["scale"], norm["bias"], eps=1e-3)
        return torch.cat([a.relu(), F.conv2d(x, weights["b.w"]).relu()], 1)

    return write(path, nodes, [X], ["y"], {**weights, **norm}, **options), wanted


def test_a_file_is_optimised_like_a_module(tmp_path):
    path, wanted = two_branches(tmp_path / "model.onnx")
    fast = gw.optimize(path, **PRICES)
    x = torch.randn(1, 4, 6, 6)
    torch.testing.assert_close(fast(x), wanted(x), rtol=1e-4, atol=1e-5)
    assert fast.report.kernels_after < fast.report.kernels_before
    assert fast.report.applied and not fast.report.unsupported
    compiled = torch.export.export(fast, (x,)).module()
    torch.testing.assert_close(compiled(x), fast(x))
    fast.save(tmp_path / "model.pt")
    torch.testing.assert_close(load_optimized(tmp_path / "model.pt")(x), fast(x))
    fast.save(tmp_path / "model.pt2")
    assert (tmp_path / "model.pt2").exists()


def test_sizes_and_what_follows_from_them_are_computed_once(tmp_path):
    """The usual chain of an exporter: Shape, Gather, Concat, Reshape."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "minus"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": torch.tensor(0), "axis": ints(0), "minus": ints(-1)}
    path = write(tmp_path / "m.onnx", nodes, [("x", FLOAT, ("batch", 2, 3))], ["y"], weights)
    module = read_onnx(path, shapes={"batch": 4})
    assert [step.op for step in module.steps] == ["Reshape"]
    x = torch.randn(4, 2, 3)
    torch.testing.assert_close(module(x), x.reshape(4, 6))


def test_examples_are_given_by_name_or_in_order(tmp_path):
    inputs = [("a", FLOAT, ("n",)), ("b", FLOAT, ("n",))]
    path = write(tmp_path / "m.onnx", [node("Sub", ["a", "b"], ["y"])], inputs, ["y"])
    a, b = torch.arange(3.0), torch.ones(3)
    for example in ((a, b), {"b": b, "a": a}):
        module = read_onnx(path, example)
        torch.testing.assert_close(module(*module.example), a - b)


def test_indices_are_drawn_that_a_table_has(tmp_path):
    table = {"table": torch.randn(1, 5)}
    nodes = [node("Gather", ["table", "i"], ["y"])]
    module = read_onnx(write(tmp_path / "m.onnx", nodes, [("i", INT, (2,))], ["y"], table))
    assert module.example[0].tolist() == [0, 0]


def test_negative_indices_count_from_the_end(tmp_path):
    table = {"table": torch.randn(3, 5)}
    nodes = [node("Gather", ["table", "i"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [("i", INT, (2,))], ["y"], table)
    i = torch.tensor([-1, 1])
    torch.testing.assert_close(read_onnx(path, i)(i), table["table"][i])


def test_the_branch_that_is_known_is_read(tmp_path):
    then = graph([node("Relu", ["x"], ["t"])], [], [encoded(1, "t")])
    other = graph([node("Neg", ["x"], ["e"])], [], [encoded(1, "e")])
    nodes = [node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    x = torch.tensor([-1.0, 2.0])
    for flag, wanted in ((True, x.relu()), (False, -x)):
        weights = {"flag": torch.tensor(flag)}
        path = write(tmp_path / "m.onnx", nodes, [("x", FLOAT, (2,))], ["y"], weights)
        torch.testing.assert_close(read_onnx(path, x)(x), wanted)


def test_functions_of_the_file_are_read_with_their_attributes(tmp_path):
    leaky = node("LeakyRelu", ["v"], ["w"])
    leaky += encoded(5, encoded(1, "alpha") + encoded(21, "slope") + encoded(20, 1))
    function = encoded(1, "Mine") + encoded(10, "own") + encoded(4, "v") + encoded(5, "u")
    function += encoded(7, leaky) + encoded(7, node("Neg", ["w"], ["u"]))
    nodes = [
        node("Mine", ["x"], ["h"], "own", slope=0.5),
        node("Mine", ["h"], ["y"], "own", slope=0.25),
    ]
    path = write(
        tmp_path / "m.onnx", nodes, [("x", FLOAT, (2,))], ["y"], functions=[function], more=["own"]
    )
    x = torch.tensor([-1.0, 2.0])
    wanted = -F.leaky_relu(-F.leaky_relu(x, 0.5), 0.25)
    torch.testing.assert_close(read_onnx(path, x)(x), wanted)


def test_a_function_uses_its_own_versions_of_operators(tmp_path):
    """Before version 13, a softmax is over an axis and all that follow."""
    function = encoded(1, "Mine") + encoded(10, "own") + encoded(4, "v") + encoded(5, "u")
    function += encoded(7, node("Softmax", ["v"], ["u"], axis=1)) + encoded(9, encoded(2, 11))
    nodes, x = [node("Mine", ["x"], ["y"], "own")], torch.randn(2, 3, 4)
    given = [("x", FLOAT, (2, 3, 4))]
    path = write(tmp_path / "m.onnx", nodes, given, ["y"], functions=[function], more=["own"])
    torch.testing.assert_close(read_onnx(path, x)(x), x.flatten(1).softmax(1).view(2, 3, 4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float64, torch.float32])
def test_a_range_has_the_type_of_its_limits(tmp_path, dtype):
    limits = {name: torch.tensor(n, dtype=dtype) for name, n in (("a", 1), ("b", 7), ("c", 2))}
    nodes = [node("Range", [*limits], ["r"]), node("Add", ["x", "r"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [("x", dtype, (3,))], ["y"], limits)
    made = read_onnx(path)(torch.zeros(3, dtype=dtype))
    assert made.dtype == dtype and made.tolist() == [1, 3, 5]


def test_inputs_of_other_shapes_are_refused(tmp_path):
    """The sizes of a reshape are those of the example."""
    nodes = [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [("x", FLOAT, ("n", 4))], ["y"])
    module = read_onnx(path, torch.randn(2, 4))
    with pytest.raises(InvalidBatch, match=r"'x' has shape \[8, 1\], but \[2, 4\] in the example"):
        module(torch.randn(8, 1))


def test_weights_are_read_from_a_file_beside_the_model(tmp_path):
    values = torch.randn(2, 3)
    (tmp_path / "weights.bin").write_bytes(b"12345678" + values.numpy().tobytes())
    outside = b"".join(
        encoded(13, encoded(1, key) + encoded(2, value))
        for key, value in (("location", "weights.bin"), ("offset", "8"), ("length", "24"))
    )
    stored = (
        encoded(1, 2) + encoded(1, 3) + encoded(2, 1) + encoded(8, "w") + outside + encoded(14, 1)
    )
    inner = graph([node("MatMul", ["x", "w"], ["y"])], [declare("x", (1, 2))], [encoded(1, "y")])
    path = tmp_path / "m.onnx"
    path.write_bytes(encoded(8, encoded(2, 17)) + encoded(7, inner + encoded(5, stored)))
    x = torch.randn(1, 2)
    torch.testing.assert_close(read_onnx(path)(x), x @ values)


def declare(name, dims):
    from onnx_files import declared

    return declared(name, FLOAT, dims)


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_nodes_that_are_not_read_run_by_onnxruntime(tmp_path):
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4)
    order = [0, 3, 1, 2]  # ONNX: input, output, forget, cell; PyTorch: input, forget, cell, output

    def gates(w):
        return w.reshape(4, 4, -1)[order].reshape(1, 16, -1)

    weights = {
        "w": gates(lstm.weight_ih_l0.detach()),
        "r": gates(lstm.weight_hh_l0.detach()),
        "b": torch.cat([gates(lstm.bias_ih_l0.detach()), gates(lstm.bias_hh_l0.detach())], 1)[
            ..., 0
        ],
        "axis": ints(1),
    }
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["h"], hidden_size=4),
        node("Squeeze", ["h", "axis"], ["s"]),
        node("Relu", ["s"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, [("x", FLOAT, (5, 2, 3))], ["y"], weights)
    fast = gw.optimize(path, **PRICES)
    assert fast.report.unsupported == {"LSTM": 1} and fast.report.compared_with == "onnxruntime"
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(fast(x), lstm(x)[0].relu(), rtol=1e-4, atol=1e-5)
    fast.save(tmp_path / "model.pt")
    torch.testing.assert_close(load_optimized(tmp_path / "model.pt")(x), fast(x))
    if find_spec("onnxscript"):
        import onnxruntime

        fast.save(tmp_path / "again.onnx")
        made = onnxruntime.InferenceSession(tmp_path / "again.onnx").run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(made[0]), fast(x), rtol=1e-4, atol=1e-5)


def test_tensors_of_every_way_to_write_them(tmp_path):
    half = (
        encoded(1, 2) + encoded(2, 10) + encoded(5, 0x3C00) + encoded(5, 0xC000) + encoded(8, "h")
    )
    inner = graph(
        [node("Cast", ["h"], ["f"], to=1), node("Mul", ["x", "f"], ["y"])],
        [declare("x", (2,))],
        [encoded(1, "y")],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(encoded(8, encoded(2, 17)) + encoded(7, inner + encoded(5, half)))
    x = torch.tensor([3.0, 5.0])
    torch.testing.assert_close(read_onnx(path)(x), x * torch.tensor([1.0, -2.0]))
    assert tensor(x)
