"""Tensors that the step uses but is not given: masks, tables, `torch.tensor(...)` in the forward.

Computing with constants alone is done for real; where one meets the step's tensors it is lifted
into the graph: written out if it is small, as an input with role constant otherwise. Writing to one
is an error, as nothing would carry the write to the next step; only what was made during the step
may be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.aten import as_pairs, aten, dtype_name
from graphwright.capture.record.canonical import operator_name
from graphwright.capture.record.functional import stamp, stamped
from graphwright.capture.record.pairs import set_pair
from graphwright.errors import MutatedGlobal, UnsupportedModel
from graphwright.ir import CONSTANT_OP, Attr, Role

if TYPE_CHECKING:
    from graphwright.capture.record.recorder import Recorder

LARGEST_WRITTEN_CONSTANT = 4096
"""Elements of a constant that is written into the graph; larger ones become inputs of the graph."""


def tensors_in(items: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among arguments or results, lists included."""
    tensors: list[Tensor] = []
    for item in items:
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, (list, tuple)):
            tensors.extend(tensors_in(item))
    return tensors


class Constants:
    """The constants of one recording; `names` are those of plain tensor attributes, by `id`."""

    def __init__(self, recorder: Recorder, names: Mapping[int, str]) -> None:
        self.recorder, self.names = recorder, names
        self._lifted: dict[int, tuple[Tensor, int, Tensor]] = {}
        self._made: dict[int, Tensor] = {}
        self.read: set[int] = set()
        """The `id` of every constant that the step used."""

    def lift_all(
        self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return a call's arguments with the constants among them lifted."""
        if func._schema.is_mutable:
            raise _mutated(func)

        def lift(x: Any) -> Any:
            if isinstance(x, Tensor):
                return x if isinstance(x, FakeTensor) else self.lift(x)
            return [lift(item) for item in x] if isinstance(x, (list, tuple)) else x

        return [lift(a) for a in args], {k: lift(v) for k, v in kwargs.items()}

    def compute(
        self,
        func: OpOverload,
        tensors: Sequence[Tensor],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Compute with constants alone, for real."""
        if func._schema.is_mutable and tensors[0].untyped_storage()._cdata not in self._made:
            raise _mutated(func)
        self.read.update(map(id, tensors))
        result = func(*args, **kwargs)
        if not any(argument.alias_info for argument in func._schema.arguments):
            for made in tensors_in((result,)):
                self._made[made.untyped_storage()._cdata] = made
        return result

    def lift(self, real: Tensor) -> Tensor:
        """Return a fake tensor for a constant, which becomes part of the graph."""
        self.read.add(id(real))
        known = self._lifted.get(id(real))
        if known is not None and known[1] == real._version:
            return known[2]
        if real.requires_grad:
            raise UnsupportedModel(
                "the step uses a trainable tensor that is not a parameter of the model; make it an "
                "nn.Parameter of a module"
            )
        written = real.device.type != "meta" and real.numel() <= LARGEST_WRITTEN_CONSTANT
        if written and real.is_complex():
            fake = self.recorder.empty(real)
            with _disable_current_modes():
                content = as_pairs(real.detach().cpu())
            pair = self._write(content)
            set_pair(fake, pair)
            stamp(fake, stamped(pair))
        else:
            fake = self._write(real.detach().cpu()) if written else self._declare(real)
        self._lifted[id(real)] = (real, real._version, fake)
        return fake

    def _write(self, content: Tensor) -> Tensor:
        if content.numel() == 1:
            with self.recorder.paused(), self.recorder:  # knows its value: .item() on it works
                fake = aten.lift_fresh.default(content)
            attrs: dict[str, Attr] = {
                "size": tuple(content.shape),
                "fill_value": content.item(),
                "dtype": dtype_name(content.dtype),
            }
            self.recorder.emit("aten.full", (), attrs, (fake,))
            return fake
        fake = self.recorder.empty(content)
        attrs = {"value": _nested(content.tolist())}
        self.recorder.emit(CONSTANT_OP, (), attrs, (fake,), role=Role.CONSTANT)
        return fake

    def _declare(self, real: Tensor) -> Tensor:
        fake = self.recorder.empty(real)
        number = sum(v.role is Role.CONSTANT for v in self.recorder.tape.inputs)
        self.recorder.declare(self.names.get(id(real), f"constants.{number}"), fake, Role.CONSTANT)
        return fake


def _nested(value: Any) -> Attr:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def _mutated(func: OpOverload) -> MutatedGlobal:
    return MutatedGlobal(
        f"{operator_name(func)} writes to a tensor that is neither a parameter nor a buffer of the "
        "model; register it with register_buffer"
    )
