"""Every operator that is read, against results of onnxruntime, which are kept in a golden file.

`python tests/unit/capture/onnx/test_onnx_operators.py`, with onnxruntime and tests/ in PYTHONPATH, writes it again.
"""

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from graphwright.aten import dtype_name, to_dtype
from graphwright.capture import read_onnx, reference
from graphwright.capture.onnx.operators import OPERATORS
from onnx_files import node, write

I64 = torch.int64


def ints(*values):
    return torch.tensor(values, dtype=I64)


def rand(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(len(shape))) * 1.6 - 0.8


IMAGE, ROWS = rand(1, 4, 6, 6), rand(2, 5, 4)
I32 = torch.tensor([[1, -2, 3], [3, 1, -1]], dtype=torch.int32)
ONE = [*["Abs", "Neg", "Exp", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Erf"],
       *["Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "HardSwish", "IsNaN", "Identity", "Log", "HardSigmoid", "Elu", "Celu", "Selu", "LeakyRelu"],
       *["ThresholdedRelu", "GlobalAveragePool", "GlobalMaxPool", "Flatten", "Softmax", "LogSoftmax", "Transpose", "ArgMax", "ArgMin"]]  # fmt: skip
REDUCTIONS = [name for name in OPERATORS if name.startswith("Reduce")]
CASES = {
    **{name: (name, [IMAGE], {}, {}) for name in ONE},
    **{name: (name, [ROWS], {}, {}) for name in REDUCTIONS if name != "ReduceLogSum"},
    **{f"{n} old": (n, [ROWS], {}, {"axes": [1], "keepdims": 0, "opset": 11}) for n in REDUCTIONS if n != "ReduceLogSum"},
    "ReduceLogSum": ("ReduceLogSum", [ROWS.abs()], {}, {}),
    "ReduceSum axes": ("ReduceSum", [ROWS], {"a": ints(-1)}, {"keepdims": 0}),
    "ReduceMean axes": ("ReduceMean", [ROWS], {"a": ints(0, 2)}, {"opset": 18}),
    **{n: (n, [ROWS, rand(5, 4)], {}, {}) for n in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", "PRelu")},
    **{n: (n, [ROWS > 0, ROWS < 0.3], {}, {}) for n in ("And", "Or", "Xor")},
    "Mish": ("Mish", [IMAGE], {}, {"opset": 18}),
    "Acosh": ("Acosh", [ROWS.abs() + 1], {}, {}),
    "Not": ("Not", [ROWS > 0], {}, {}),
    "BitwiseAnd": ("BitwiseAnd", [ints(6, 5), ints(3, 4)], {}, {"opset": 18}),
    "Gelu": ("Gelu", [ROWS], {}, {"approximate": "tanh", "opset": 20}),
    "Div whole": ("Div", [ints(-7, 7), ints(2, -2)], {}, {}),
    "Mod": ("Mod", [ints(-7, 7), ints(3, -3)], {}, {}),
    "Mod f": ("Mod", [rand(3), rand(3).abs() + 1], {}, {"fmod": 1}),
    "Pow": ("Pow", [ROWS], {"e": torch.tensor(2.0)}, {}),
    "Pow each": ("Pow", [ROWS.abs()], {"e": rand(4)}, {}),
    "Clip": ("Clip", [ROWS], {"lo": torch.tensor(-0.2), "hi": torch.tensor(0.3)}, {}),
    "Clip old": ("Clip", [ROWS], {}, {"min": 0.0, "max": 0.5, "opset": 10}),
    "Where": ("Where", [ROWS > 0, ROWS, rand(4)], {}, {}),
    "Cast": ("Cast", [ROWS * 3], {}, {"to": 7}),
    "CastLike": ("CastLike", [ROWS, ints(1)], {}, {}),
    "Dropout": ("Dropout", [ROWS], {}, {}),
    "Reshape": ("Reshape", [ROWS], {"s": ints(0, -1)}, {}),
    "Flatten 0": ("Flatten", [ROWS], {}, {"axis": 2}),
    "Flatten from the end": ("Flatten", [ROWS], {}, {"axis": -1}),
    "Transpose perm": ("Transpose", [ROWS], {}, {"perm": [2, 0, 1]}),
    "Squeeze": ("Squeeze", [rand(1, 3, 1)], {"a": ints(-1)}, {}),
    "Squeeze old": ("Squeeze", [rand(1, 3, 1)], {}, {"opset": 11}),
    "Unsqueeze": ("Unsqueeze", [ROWS], {"a": ints(-1, 0)}, {}),
    "Unsqueeze old": ("Unsqueeze", [ROWS], {}, {"axes": [1], "opset": 11}),
    "Concat": ("Concat", [ROWS, ROWS], {}, {"axis": -1}),
    "Slice": ("Slice", [ROWS], {"s": ints(1, -1), "e": ints(2**63 - 1, -(2**63)), "a": ints(1, -1), "t": ints(2, -1)}, {}),
    "Slice ends": ("Slice", [ROWS], {"s": ints(-3), "e": ints(-1), "a": ints(1)}, {}),
    "Slice from before the first": ("Slice", [ROWS], {"s": ints(-9, 1), "e": ints(-(2**63), -(2**63)), "a": ints(1, 2), "t": ints(-1, 1)}, {}),
    "Slice old": ("Slice", [ROWS], {}, {"starts": [1], "ends": [4], "axes": [1], "opset": 9}),
    "Expand": ("Expand", [rand(5, 1)], {"s": ints(2, 1, 3)}, {}),
    "Tile": ("Tile", [rand(2, 3)], {"r": ints(2, 2)}, {}),
    "Gather": ("Gather", [ROWS, ints(1, -2)], {}, {"axis": 1}),
    "Gather one": ("Gather", [ROWS], {"i": torch.tensor(-1)}, {"axis": 1}),
    "Gather known": ("Gather", [ROWS], {"i": ints(0, 0)}, {"axis": 2}),
    "GatherElements": ("GatherElements", [rand(3, 4), torch.tensor([[0, -1, 2, 1]])], {}, {}),
    "GatherND": ("GatherND", [ROWS, torch.tensor([[0, 1], [1, 4]])], {}, {}),
    "ScatterND": ("ScatterND", [ROWS, torch.tensor([[0, 1], [1, 4]]), rand(2, 4)], {}, {}),
    "Pad": ("Pad", [ROWS], {"p": ints(0, 1, -1, 2, 0, 1), "v": torch.tensor(0.5)}, {}),
    "Pad reflect": ("Pad", [IMAGE], {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)}, {"mode": "reflect"}),
    "Pad edge": ("Pad", [IMAGE], {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)}, {"mode": "edge"}),
    "OneHot": ("OneHot", [ints(0, -1, 2)], {"d": torch.tensor(4), "v": torch.tensor([0.5, 2.0])}, {}),
    "OneHot outside": ("OneHot", [ints(0, -5, 4, -4)], {"d": torch.tensor(4), "v": ints(1, 3)}, {}),
    "Trilu": ("Trilu", [ROWS], {"k": torch.tensor(1)}, {"upper": 0}),
    "DepthToSpace": ("DepthToSpace", [IMAGE], {}, {"blocksize": 2}),
    "DepthToSpace CRD": ("DepthToSpace", [IMAGE], {}, {"blocksize": 2, "mode": "CRD"}),
    "SpaceToDepth": ("SpaceToDepth", [IMAGE], {}, {"blocksize": 2}),
    "Resize": ("Resize", [IMAGE], {"": None, "f": torch.tensor([1.0, 1.0, 2.0, 2.0])}, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    "Resize half": ("Resize", [IMAGE], {"": None, "f": torch.tensor([1.0, 1.0, 2.0, 3.0])}, {}),
    "Resize by a fraction": ("Resize", [IMAGE], {"": None, "f": torch.tensor([1.0, 1.0, 2.3, 2.3])}, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    "Resize linear": ("Resize", [IMAGE], {"": None, "f": torch.tensor([1.0, 1.0, 1.5, 2.5])}, {"mode": "linear"}),
    "Resize corners": ("Resize", [IMAGE], {"": None, " ": None, "s": ints(1, 4, 9, 11)}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "Resize cubic": ("Resize", [IMAGE], {"": None, " ": None, "s": ints(1, 4, 9, 12)}, {"mode": "cubic"}),
    "Resize shrinks": ("Resize", [IMAGE], {"": None, " ": None, "s": ints(1, 4, 4, 3)}, {"mode": "linear"}),
    "Resize kept": ("Resize", [IMAGE], {"": None, " ": None, "s": ints(1, 4, 4, 3)}, {}),
    "Upsample": ("Upsample", [IMAGE], {"f": torch.tensor([1.0, 1.0, 2.0, 2.0])}, {"opset": 9}),
    "MatMul": ("MatMul", [ROWS, rand(2, 4, 3)], {}, {}),
    "MatMul matrix": ("MatMul", [ROWS], {"w": rand(4, 3)}, {}),
    "Gemm": ("Gemm", [rand(3, 4)], {"w": rand(5, 4), "b": rand(5)}, {"transB": 1}),
    "Gemm factors": ("Gemm", [rand(4, 3)], {"w": rand(4, 5), "b": rand(3, 1)}, {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    "Einsum": ("Einsum", [ROWS, ROWS], {}, {"equation": "bij,bkj->bik"}),
    "Conv": ("Conv", [IMAGE], {"w": rand(6, 2, 3, 3), "b": rand(6)}, {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [1, 2]}),
    "Conv uneven": ("Conv", [IMAGE], {"w": rand(6, 4, 3, 3)}, {"pads": [0, 1, 2, 1]}),
    "Conv same": ("Conv", [IMAGE], {"w": rand(6, 4, 2, 3)}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "Conv 1d": ("Conv", [ROWS], {"w": rand(6, 5, 3)}, {}),
    "ConvTranspose": ("ConvTranspose", [IMAGE], {"w": rand(4, 3, 3, 3)}, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
    "MaxPool": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "MaxPool ceil": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "MaxPool uneven": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 3], "pads": [0, 0, 1, 2]}),
    "MaxPool wide": ("MaxPool", [IMAGE], {}, {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}),
    "AveragePool": ("AveragePool", [IMAGE], {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "AveragePool counts": ("AveragePool", [IMAGE], {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "AveragePool uneven": ("AveragePool", [IMAGE], {}, {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "BatchNormalization": ("BatchNormalization", [IMAGE], {n: rand(4).abs() for n in "abcd"}, {"epsilon": 1e-3}),
    "InstanceNormalization": ("InstanceNormalization", [IMAGE], {"a": rand(4), "b": rand(4)}, {}),
    "LayerNormalization": ("LayerNormalization", [ROWS], {"a": rand(4), "b": rand(4)}, {}),
    "LayerNormalization 1": ("LayerNormalization", [ROWS], {"a": rand(5, 4), "b": rand(5, 4)}, {"axis": 1}),
    "LayerNormalization spread": ("LayerNormalization", [ROWS], {"a": rand(4), "b": rand(4)}, {"axis": 1}),
    "GroupNormalization": ("GroupNormalization", [IMAGE], {"a": rand(4), "b": rand(4)}, {"num_groups": 2, "opset": 21}),
    "LpNormalization": ("LpNormalization", [ROWS], {}, {}),
    "LRN": ("LRN", [IMAGE], {}, {"size": 3}),
    "LpNormalization of zeros": ("LpNormalization", [ROWS * 0], {}, {}),
    "ReduceL1 whole": ("ReduceL1", [I32], {}, {}),
    "ReduceSumSquare whole": ("ReduceSumSquare", [I32], {}, {}),
    "ReduceProd whole": ("ReduceProd", [I32], {}, {}),
    "MaxPool same, dilated": ("MaxPool", [ROWS], {}, {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_UPPER"}),
    "Softmax old": ("Softmax", [ROWS], {}, {"opset": 11}),
    "Softmax axis": ("Softmax", [ROWS], {}, {"axis": 1}),
    "ArgMax flat": ("ArgMax", [ROWS], {}, {"axis": -1, "keepdims": 0}),
    "CumSum": ("CumSum", [ROWS], {"a": torch.tensor(1)}, {}),
}  # fmt: skip


GOLDEN = Path(__file__).parents[3] / "golden/files/onnx_operators.json"
KEPT = (
    "MaxPool same, dilated",
    "Resize by a fraction",
    "Pow each",
    "Resize kept",
    "LayerNormalization spread",
)
HAS_RUNTIME = find_spec("onnxruntime") is not None


def written(name, folder):
    """The file of a case and its inputs."""
    op, tensors, weights, attrs = CASES[name]
    attrs = dict(attrs)
    opset = attrs.pop("opset", 17)
    inputs = [(f"x{n}", t.dtype, t.shape) for n, t in enumerate(tensors)]
    names = [each[0] for each in inputs] + [name.strip() for name in weights]
    held = {n: w for n, w in weights.items() if w is not None}
    path = folder / "m.onnx"
    return write(path, [node(op, names, ["y"], **attrs)], inputs, ["y"], held, opset=opset), tensors


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_what_onnxruntime_gives(name, tmp_path):
    if name in KEPT and not HAS_RUNTIME:
        pytest.skip("onnxruntime is not installed")
    path, tensors = written(name, tmp_path)
    module = read_onnx(path, tuple(tensors))
    made = module(*tensors)
    dtype, shape, values = json.loads(GOLDEN.read_text())[name]
    wanted = torch.tensor(values, dtype=to_dtype(dtype)).reshape(shape)
    for other in (wanted, reference(module)(*tensors)):
        assert made.dtype == other.dtype
        torch.testing.assert_close(made, other, rtol=1e-5, atol=2e-6, equal_nan=True)
    assert bool(module.kept) == (name in KEPT)


def test_several_outputs(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    x = torch.tensor([[0, 1, 1, 0, 1, 2, 0], [1, 1, 0, 0, 2, 2, 2], [1, 1, 1, 1, 1, 1, 1]])
    for op, held, attrs, opset in (
        ("Split", {"s": ints(3, 4)}, {"axis": 1}, 17),
        ("Split", {}, {"axis": 1, "num_outputs": 2}, 18),
        ("TopK", {"k": ints(3)}, {"largest": 0}, 17),
        ("TopK", {"k": ints(3)}, {"axis": 0}, 17),
    ):
        path = tmp_path / "m.onnx"
        nodes = [node(op, ["x", *held], ["a", "b"], **attrs)]
        write(path, nodes, [("x", x.dtype, x.shape)], ["a", "b"], held, opset=opset)
        module = read_onnx(path, x)
        for made, wanted in zip(module(x), reference(module)(x), strict=True):
            torch.testing.assert_close(made, wanted)


@pytest.mark.parametrize(
    ("op", "held", "attrs", "opset"),
    [
        ("Slice", {"s": ints(3), "e": ints(2**63 - 1), "a": ints(1), "t": ints(-1)}, {}, 17),
        ("ReduceL1", {"a": ints()}, {"noop_with_empty_axes": 1}, 18),
        ("MaxPool", {}, {"kernel_shape": [4], "pads": [3, 3], "strides": [2], "ceil_mode": 1}, 17),
    ],
)
def test_edges_are_those_of_onnxruntime(tmp_path, op, held, attrs, opset):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    nodes, given = [node(op, ["x", *held], ["y"], **attrs)], [("x", ROWS.dtype, ROWS.shape)]
    module = read_onnx(write(tmp_path / "m.onnx", nodes, given, ["y"], held, opset=opset), ROWS)
    torch.testing.assert_close(module(ROWS), reference(module)(ROWS))


def main():
    """Write the golden file."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            path, tensors = written(name, Path(folder))
            made = reference(read_onnx(path, tuple(tensors)))(*tensors)
            values = [
                float(f"{v:.8g}") if made.is_floating_point() else v
                for v in made.flatten().tolist()
            ]
            results[name] = [dtype_name(made.dtype), list(made.shape), values]
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in results.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
