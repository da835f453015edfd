"""The constants of substitutions as ATen calls, written as capture writes them.

    C_pool(k), I_ewmul     aten.full
    I_matmul               aten.eye; of a batch, expanded
    I_conv(k)              aten.eye as a 1 x 1 kernel, with zeros around it

Unlike their descriptions these are of a dtype, so an entry of C_pool is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir import Attr
from graphwright.rewrite.substitutions.graphs import Call, Term


def constant_calls(term: Term, sizes: tuple[int, ...], dtype: str) -> Iterator[Call]:
    """The calls that make a constant, each of what the one before it made."""
    match term.op:
        case "C_pool":
            yield _full(sizes, 1 / (sizes[2] * sizes[3]), dtype)
        case "I_ewmul":
            yield _full(sizes, 1.0, dtype)
        case "I_matmul":
            yield _eye(sizes[-1], dtype)
            if len(sizes) > 2:
                attrs: dict[str, Attr] = {"size": sizes, "implicit": False}
                yield Call(op="aten.expand", inputs=(0,), attrs=attrs, shapes=(sizes,))
        case _:
            yield _eye(sizes[0], dtype)
            point = (*sizes[:2], 1, 1)
            yield Call(op="aten.view", inputs=(0,), attrs={"size": point}, shapes=(point,))
            if sizes != point:
                pad = (sizes[3] // 2,) * 2 + (sizes[2] // 2,) * 2
                yield Call(
                    op="aten.constant_pad_nd",
                    inputs=(1,),
                    attrs={"pad": pad, "value": 0.0},
                    shapes=(sizes,),
                )


def _full(sizes: tuple[int, ...], value: float, dtype: str) -> Call:
    attrs: dict[str, Attr] = {"size": sizes, "fill_value": value, "dtype": dtype}
    return Call(op="aten.full", inputs=(), attrs=attrs, shapes=(sizes,))


def _eye(size: int, dtype: str) -> Call:
    return Call(op="aten.eye", inputs=(), attrs={"n": size, "dtype": dtype}, shapes=((size, size),))
