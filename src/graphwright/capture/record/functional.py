"""Tensors without side effects, and a model that runs on them and is left as it was.

    real or meta tensor -> FakeTensor (type only) -> FunctionalTensor (nothing is in place)

PyTorch's functionalisation replaces every in-place call by a pure one and rebuilds the views of
what was written. The recorder sits below it and sees pure calls on fake tensors; each fake tensor
carries the `Value` that it stands for. The model keeps its own modules: their parameters and
buffers are replaced for the time of the capture, and put back with everything else that the step
may have left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

from graphwright.aten import aten
from graphwright.capture.record.restore import Generators, Snapshot
from graphwright.capture.record.tape import Value
from graphwright.errors import MismatchedTypes, MutatedGlobal

VALUE = "_graphwright_value"


def stamp(fake: torch.Tensor, value: Value) -> None:
    """Say which value a fake tensor stands for."""
    setattr(fake, VALUE, value)


def stamped(fake: torch.Tensor) -> Value:
    """Return the value that a fake tensor stands for."""
    value: Value = getattr(fake, VALUE)
    return value


def value_of(tensor: torch.Tensor) -> Value:
    """Return the value that a functional tensor holds now."""
    if isinstance(tensor, FunctionalTensor):
        tensor = tensor.from_functional()
    return stamped(tensor)


def functional(fake: torch.Tensor, *, requires_grad: bool = False) -> torch.Tensor:
    """Wrap a stamped fake tensor; functional mode has to be on."""
    wrapped = FunctionalTensor.to_functional(fake)
    return wrapped.requires_grad_() if requires_grad else wrapped


def as_parameter(tensor: torch.Tensor) -> torch.Tensor:
    """Let `isinstance(tensor, nn.Parameter)` hold, as code that runs on parameters may ask."""
    tensor._is_param = True
    return tensor


class Functionalisation(FunctionalTensorMode):  # type: ignore[no-untyped-call]
    """PyTorch's functionalisation, with two cases of our own.

    A copy of a constant is the step's own tensor, which may be written. Checks of linear algebra's
    results look at values, of which there are none.
    """

    def __init__(self, lift: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.lift = lift

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as the recorder

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is aten._linalg_check_errors.default:
            return None
        if torch.Tag.pointwise in func.tags and func._schema.name.endswith("_"):
            with self:
                _check_in_place(func, args)
        if func is aten.clone.default and not isinstance(args[0], FunctionalTensor):
            with self:
                return functional(self.lift(args[0]))
        return super().__torch_dispatch__(func, types, args, kwargs)


_ARITHMETIC = frozenset({"aten::add_", "aten::sub_", "aten::mul_", "aten::div_"})


def _check_in_place(func: OpOverload, args: Sequence[Any]) -> None:
    """Refuse writes that eager kernels refuse, but that a graph without memory could express."""
    written, name = args[0], func._schema.name.removeprefix("aten::")
    if any(
        step == 0 and size > 1 for step, size in zip(written.stride(), written.shape, strict=True)
    ):
        raise MismatchedTypes(
            f"{name} writes in place to an expanded tensor of shape {tuple(written.shape)}, where "
            "several elements are one place in memory; .clone() it first"
        )
    if func._schema.name in _ARITHMETIC:
        made = torch.result_type(written, args[1])
        if (
            name == "div_"
            and not made.is_floating_point
            and func._overloadname in ("Tensor", "Scalar")
        ):
            made = torch.get_default_dtype()
        if not torch.can_cast(made, written.dtype):
            raise MismatchedTypes(
                f"{name} makes {made}, which cannot be written in place to a {written.dtype} "
                f"tensor; use the form that is not in place "
                f"({name.removesuffix('_')}), or convert first"
            )


@contextmanager
def swapped(
    model: nn.Module, replacements: Mapping[int, torch.Tensor], read: Collection[int]
) -> Iterator[None]:
    """Put tensors in the place of a model's parameters and buffers (by `id`), ties included.

    Afterwards the model is as before: tensors, attributes, hooks and training flags. A plain tensor
    attribute that the step read and then replaced is an error, since nothing would carry it to the
    next step; `read` holds the `id` of each constant that was read. One that is only replaced (a
    weight that a hook computes anew before each call) is not needed there.
    """
    snapshot, generators = Snapshot(model), Generators()
    try:
        for module in model.modules():
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for table in tables:
                for name, tensor in table.items():
                    if tensor is not None and id(tensor) in replacements:
                        table[name] = replacements[id(tensor)]
        yield
        replaced, counted = snapshot.replaced(read), snapshot.counted()
        drawn = generators.drawn()
    finally:
        snapshot.restore()
        generators.restore()
    if replaced:
        raise MutatedGlobal(
            f"the step reads {', '.join(replaced)} and assigns a new tensor to it, which is "
            "neither a parameter nor a buffer, so its value would be lost between steps; register "
            "it with register_buffer"
        )
    if counted:
        warnings.warn(
            f"the step changes {', '.join(counted)}: a number of Python, which a captured step has "
            "as it was in every step. If results depend on it, keep it in a tensor "
            "(register_buffer) and change that in place",
            FrozenNumber,
            stacklevel=2,
        )
    if drawn:
        warnings.warn(
            f"the step draws from {' and '.join(drawn)}, so every captured step has the numbers of "
            "this one. Draw from PyTorch (torch.rand), or switch off what is random in the model's "
            "configuration (transformers' SpecAugment: model.config.apply_spec_augment = False)",
            FrozenNumber,
            stacklevel=2,
        )


class FrozenNumber(UserWarning):
    """A module counts with an ordinary number, or draws one from Python's or NumPy's generator: a
    captured step has in every step the first one."""
