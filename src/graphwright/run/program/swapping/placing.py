"""One operator with its operands and the places of its results in the arena, ready to be called.

    into memory    the operator's variant with `out=`, where PyTorch has a kernel for it: results
                   are written to their places, nothing is allocated
    over operands  its variant that changes them in place, where results lie exactly there: updates
    beside it      the operator as it is; what it makes is copied to its places and freed

Which of them serves is found out from PyTorch's schemas and dispatcher, not from a list: a variant
that allocates and copies by itself (`CompositeExplicitAutograd`) is none. The layouts of what is
written into memory are those that the operator gives on the meta device; those of anything else are
only known after it ran for the first time.

A result may lie where an operand is (`over`), or where one was: an operator writes there directly
if it works element by element on just that memory, or if no operand is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from graphwright.aten import call_kernel, join_arguments, overload_of
from graphwright.ir import Attr
from graphwright.run.program.overwriting import (
    find_in_place,
    find_into_memory,
    shares_memory,
    written_by,
)

Call = Callable[[], object]
_Inputs = Sequence[Tensor | None]
_Into = Callable[[_Inputs, Mapping[str, Attr], Tensor], Call | None]


def _bernoulli(inputs: _Inputs, attrs: Mapping[str, Attr], out: Tensor) -> Call:
    return partial(out.bernoulli_, attrs["p"])


def _copy(inputs: _Inputs, attrs: Mapping[str, Attr], out: Tensor) -> Call:
    (given,) = inputs
    assert given is not None
    return partial(out.copy_, given)


def _relu(inputs: _Inputs, attrs: Mapping[str, Attr], out: Tensor) -> Call:
    return partial(torch.ops.aten.clamp_min.out, inputs[0], 0, out=out)


_SPECIAL: dict[str, _Into] = {
    "aten.bernoulli.p": _bernoulli,
    "aten.clone": _copy,
    "aten._to_copy": _copy,
    "aten.relu": _relu,
}
"""Operators that PyTorch itself makes of these calls."""


def layouts_made(op: str, inputs: _Inputs, attrs: Mapping[str, Attr]) -> list[Tensor] | None:
    """What an operator that writes into memory makes, on the meta device; None for others."""
    if op not in _SPECIAL and find_into_memory(overload_of(op)) is None:
        return None
    meta = torch.device("meta")
    like = [
        None if t is None else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=meta)
        for t in inputs
    ]
    try:
        made = call_kernel(op, like, attrs, meta)
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    return [torch.empty_like(t) for t in made]  # without gaps


def write_into(
    op: str, inputs: _Inputs, attrs: Mapping[str, Attr], outs: Sequence[Tensor], by_element: bool
) -> Call | None:
    """The call that writes what an operator makes to `outs`; None where it cannot."""
    for t in inputs:
        for out in outs:
            if t is not None and _meet(t, out) and not (by_element and _same(t, out)):
                return None
    if (special := _SPECIAL.get(op)) is not None:
        return special(inputs, attrs, outs[0])
    overload = overload_of(op)
    found = find_into_memory(overload)
    if found is None or len(found[1]) != len(outs):
        return None
    variant, names = found
    device = outs[0].device
    args, kwargs = join_arguments(overload, len(inputs), attrs)(inputs, device)
    return partial(variant, *args, **kwargs, **dict(zip(names, outs, strict=True)))


def write_over(
    op: str, inputs: _Inputs, attrs: Mapping[str, Attr], outs: Sequence[Tensor]
) -> Call | None:
    """The call that changes operands in place; None unless what it makes is to lie just there."""
    variant = None if shares_memory(op) else find_in_place(overload_of(op))
    if variant is None:
        return None
    operands = [inputs[place] for place in written_by(variant)]
    if len(operands) != len(outs) or not all(
        operand is not None and _same(operand, out)
        for operand, out in zip(operands, outs, strict=True)
    ):
        return None
    args, kwargs = join_arguments(overload_of(op), len(inputs), attrs)(inputs, outs[0].device)
    return partial(variant, *args, **kwargs)


def write_updates(op: str, inputs: _Inputs, attrs: Mapping[str, Attr]) -> Call | None:
    """The call that changes all operands that an operator's variant in place writes over."""
    variant = None if shares_memory(op) else find_in_place(overload_of(op))
    if variant is None:
        return None
    outs = [operand for place in written_by(variant) if (operand := inputs[place]) is not None]
    return write_over(op, inputs, attrs, outs)


def copy_results(results: Sequence[Tensor], outs: Sequence[Tensor], poison: Call | None) -> None:
    """Copy what an operator has made to its places."""
    if any(_meet(result, out) for result in results for out in outs):
        results = [result.clone() for result in results]  # a kernel may return what it was given
    if poison is not None:
        poison()
    for out, result in zip(outs, results, strict=True):
        out.copy_(result)


def _meet(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have memory in common, or between their ends."""
    if not a.numel() or not b.numel():
        return False
    return a.data_ptr() < b.data_ptr() + _extent(b) and b.data_ptr() < a.data_ptr() + _extent(a)


def _extent(t: Tensor) -> int:
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return (last + 1) * t.element_size()


def _same(a: Tensor, b: Tensor) -> bool:
    return (
        a.data_ptr() == b.data_ptr()
        and a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
    )
