"""Common operators over a range of sizes: calls to calibrate by when there is no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphwright.aten import complete_call, infer_types
from graphwright.ir import Attr, TensorType
from graphwright.run.measure.calls.operators import Call

Shapes = list[tuple[int, ...]]


def standard_calls(dtype: str = "float32") -> list[Call]:
    """Products, convolutions, element-wise operators, reductions and normalisations."""
    calls: list[Call] = []
    for op, attrs, shapes in _sizes():
        inputs = [TensorType(shape, dtype) for shape in shapes]
        known, given = complete_call(op, attrs, inputs)
        calls.append((op, known, infer_types(op, given, known)))
    return calls


def _sizes() -> Iterator[tuple[str, Mapping[str, Attr], Shapes]]:
    for n in (64, 128, 256, 512, 1024, 2048):
        yield "aten.mm", {}, [(n, n), (n, n)]
        yield "aten.bmm", {}, [(8, n // 2, 64), (8, 64, n // 2)]
        yield "aten.matmul", {}, [(8, n // 2, 64), (64, n)]
    window: dict[str, Attr] = {
        "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1),
        "transposed": False, "output_padding": (0, 0), "groups": 1,
    }  # fmt: skip
    for channels, size in ((16, 56), (64, 56), (128, 28), (256, 14), (512, 7)):
        yield "aten.convolution", window, [(8, channels, size, size), (channels, channels, 3, 3)]
    for exponent in range(10, 25, 2):
        columns = 2 ** (exponent // 2)
        shape = (columns, columns)
        yield "aten.add.Tensor", {}, [shape, shape]
        yield "aten.gelu", {}, [shape]
        yield "aten.sum.dim_IntList", {"dim": (1,)}, [shape]
        yield "aten._softmax", {"dim": 1, "half_to_float": False}, [shape]
        layer: dict[str, Attr] = {"normalized_shape": (columns,), "eps": 1e-5}
        yield "aten.native_layer_norm", layer, [shape, (columns,), (columns,)]
