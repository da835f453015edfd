"""Call an operator's kernel by its name in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

from graphwright.aten.kernels import on_device
from graphwright.aten.schema import join_arguments
from graphwright.errors import UnknownOperator
from graphwright.ir import Attr

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
