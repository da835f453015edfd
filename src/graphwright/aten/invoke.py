"""Call an operator's kernel by its name in a graph, and ask whose memory its results lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

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
    return tensors_made(bind_kernel(op, inputs, attrs, device)())


def bind_kernel(
    op: str,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Attr],
    device: torch.device | None = None,
) -> Callable[[], Any]:
    """What runs `op` on real tensors, as a program does: all but the call is done before."""
    special = _SPECIAL.get(op)
    if special is not None:
        x = inputs[0]
        assert x is not None
        return partial(special, x, attrs)
    device = next((t.device for t in inputs if t is not None), device or _CPU)
    overload = on_device(overload_of(op), attrs, device)
    arrange = join_arguments(overload, len(inputs), attrs)
    args, kwargs = arrange(inputs, device)

    if all(t is None or t.is_contiguous() for t in inputs):
        return partial(overload, *args, **kwargs)

    def call() -> Any:
        try:
            return overload(*args, **kwargs)
        except RuntimeError as error:  # nor does it say which kernels want their inputs in order
            if "contiguous" not in str(error):
                raise
        dense = [None if t is None else t.contiguous() for t in inputs]
        args_in_order, others = arrange(dense, device)
        return overload(*args_in_order, **others)

    return call


def tensors_made(made: Any) -> tuple[torch.Tensor, ...]:
    """The tensors among what a kernel returns."""
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
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[TensorType | None],
    *,
    channels_last: bool = False,
    device: torch.device = _CPU,
) -> bool | None:
    """Whether no result of a call lies in the memory of an input; None where PyTorch can't tell.

    It is asked with tensors without values, of one layout.
    """
    given, made = _without_values(op, Attrs(attrs), tuple(inputs), channels_last, device)
    held = {t.untyped_storage()._cdata for t in given if t is not None}
    return None if made is None else all(t.untyped_storage()._cdata not in held for t in made)


def keeps_channels_last(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[TensorType | None],
    device: torch.device = _CPU,
) -> bool:
    """Whether results have their channels last in memory if images that are read have."""
    _, made = _without_values(op, Attrs(attrs), tuple(inputs), True, device)
    images = [t for t in made or () if t.dim() == 4]
    return bool(images) and all(t.stride(1) < min(t.stride()[2:]) for t in images)


Tensors = Sequence[torch.Tensor | None]


@lru_cache(maxsize=65536)
def _without_values(
    op: str,
    attrs: Attrs,
    inputs: tuple[TensorType | None, ...],
    channels_last: bool,
    device: torch.device,
) -> tuple[Tensors, tuple[torch.Tensor, ...] | None]:
    """A call on tensors without values: inputs and results, None where it has no such kernel."""
    with FakeTensorMode(allow_fallback_kernels=False):  # meta tensors don't have a device's strides
        given = [
            None if t is None else torch.empty(t.shape, dtype=to_dtype(t.dtype), device=device)
            for t in inputs
        ]
        if channels_last:
            given = [None if t is None else laid_out(t, torch.channels_last) for t in given]
        try:
            return given, call_kernel(op, given, attrs, device)
        except Exception:  # whatever its kernel raises
            return given, None


def laid_out(tensor: torch.Tensor, layout: torch.memory_format) -> torch.Tensor:
    """A tensor of four dims in a layout, any other as it is."""
    return tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor
