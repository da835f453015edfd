"""Call an operator's kernel by its name in a graph, and ask whose memory its results lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import torch

from graphwright.aten.kernels import on_device
from graphwright.aten.schema import join_arguments
from graphwright.aten.types import to_dtype
from graphwright.errors import UnknownOperator
from graphwright.ir import Attr, Attrs, TensorType

_CPU = torch.device("cpu")


@cache
def overload_of(op: str) -> torch._ops.OpOverload:
    """The PyTorch operator that a node's `op` names: ``aten.mm``, ``aten.sum.dim_IntList``."""
    namespace, _, rest = op.partition(".")
    name, _, version = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name else None
    overload = getattr(packet, version or "default", None)
    if not isinstance(overload, torch._ops.OpOverload):
        raise UnknownOperator(f"PyTorch {torch.__version__} has no operator {op}")
    return overload


_SPECIAL: dict[str, Callable[[torch.Tensor, Mapping[str, Any]], torch.Tensor]] = {
    # a graph has no strides, so a view may have to copy
    "aten.view": lambda x, attrs: x.reshape(attrs["size"]),
    # dropout's draw: eager fills in the order of memory
    "aten.bernoulli.p": lambda x, attrs: torch.empty_like(x).bernoulli_(attrs["p"]),
}


def call_kernel(
    op: str,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Attr],
    device: torch.device | None = None,
) -> tuple[torch.Tensor, ...]:
    """Run `op` on real tensors; a tuple of outputs. `device` is for operators without inputs."""
    special = _SPECIAL.get(op)
    if special is not None:
        x = inputs[0]
        assert x is not None
        return (special(x, attrs),)
    device = next((t.device for t in inputs if t is not None), device or _CPU)
    overload = on_device(overload_of(op), attrs, device)
    arrange = join_arguments(overload, len(inputs), attrs)
    try:
        args, kwargs = arrange(inputs, device)
        made = overload(*args, **kwargs)
    except RuntimeError as error:  # nor does it say which kernels want their inputs in order
        if "contiguous" not in str(error):
            raise
        args, kwargs = arrange([None if t is None else t.contiguous() for t in inputs], device)
        made = overload(*args, **kwargs)
    results = made if isinstance(made, tuple | list) else (made,)
    return tuple(item for item in results if isinstance(item, torch.Tensor))


@cache
def in_place_of(op: str) -> str | None:
    """The operator that does the same and writes over its first argument: aten.add_.Tensor."""
    namespace, _, rest = op.partition(".")
    name, dot, version = rest.partition(".")
    written = f"{namespace}.{name}_{dot}{version}"
    try:
        own, others = (overload_of(each)._schema.arguments for each in (written, op))
    except UnknownOperator:
        return None
    first = own[0].alias_info if own else None
    same = [(a.name, str(a.type)) for a in own] == [(a.name, str(a.type)) for a in others]
    return written if same and first is not None and first.is_write else None


def in_own_memory(
    op: str, attrs: Mapping[str, Attr], inputs: Sequence[TensorType | None]
) -> bool | None:
    """Whether no result of a call lies in the memory of an input; None where PyTorch can't tell.

    Its kernels for tensors without values (meta) are asked, with inputs that are contiguous.
    """
    return _in_own_memory(op, Attrs(attrs), tuple(inputs))


@lru_cache(maxsize=65536)
def _in_own_memory(op: str, attrs: Attrs, inputs: tuple[TensorType | None, ...]) -> bool | None:
    given = [
        None if t is None else torch.empty(t.shape, dtype=to_dtype(t.dtype), device="meta")
        for t in inputs
    ]
    try:
        made = call_kernel(op, given, attrs, torch.device("meta"))
    except Exception:  # whatever its kernel raises
        return None
    held = {t.untyped_storage()._cdata for t in given if t is not None}
    return all(t.untyped_storage()._cdata not in held for t in made)
