"""Tensors that the step uses but is not given: masks, tables, `torch.tensor(...)` in the forward.

Computing with constants alone is done for real; where one meets the step's tensors it is lifted
into the graph:

    small                                          written out
    large, an attribute or read by the loss        an input with role constant, by its name
    large, computed from others: table[:n]         these, and the operators that compute it
    any other that is large                        an input that has no name to be found by

Writing to one is an error, as nothing would carry the write to the next step; only what was made
during the step may be written. What has another shape for other values (`nonzero`, `x[mask]`) is
computed where the values are known, and its result written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import disable_functional_mode
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.aten import as_pairs, aten, dtype_name
from graphwright.capture.record.canonical import operator_name
from graphwright.capture.record.functional import VALUE, stamp, stamped
from graphwright.capture.record.pairs import set_pair
from graphwright.capture.record.tape import Value
from graphwright.capture.record.values import known_value, off_the_record
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


@dataclass(frozen=True, slots=True, eq=False)
class _Computed:
    """How a constant was computed from others, and how often each had been written by then.

    A view is written where what it shows is written, and counts with that.
    """

    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    number: int
    written: Sequence[tuple[Tensor, int]]

    def is_current(self) -> bool:
        """Whether computing again gives the same."""
        return all(tensor._version == version for tensor, version in self.written)


class Constants:
    """The constants of one recording; `names` are those that others can find them by, by `id`."""

    def __init__(self, recorder: Recorder, names: Mapping[int, str]) -> None:
        self.recorder, self.names = recorder, names
        self._lifted: dict[int, tuple[Tensor, int, Tensor]] = {}
        self._made: dict[int, Tensor] = {}
        self._computed: dict[int, _Computed] = {}
        self._kept: list[Tensor] = []  # an `id` is that of one tensor as long as it lives
        self._places: dict[Value, list[Tensor]] = {}
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
        results = tensors_in((result,))
        is_view = any(argument.alias_info for argument in func._schema.arguments)
        for number, made in enumerate(results):
            if not is_view:
                self._made[made.untyped_storage()._cdata] = made
            if not func._schema.is_mutable and not any(made is t for t in tensors):
                written = [(t, t._version) for t in (*tensors, *([] if is_view else [made]))]
                self._computed[id(made)] = _Computed(func, args, kwargs, number, written)
                self._kept.append(made)
        return result

    def without_known_masks(self, func: OpOverload, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of an indexing, with the places where a known mask is true for the mask."""
        at = _INDICES.get(func.overloadpacket)
        if at is None or len(args) <= at or not any(map(_is_mask, args[at])):
            return args
        indices: list[Tensor | None] = []
        for index in args[at]:
            places = self._places_of(index) if _is_mask(index) else [index]
            if places is None:
                return args
            indices += places
        return [*args[:at], indices, *args[at + 1 :]]

    def _places_of(self, mask: Tensor) -> list[Tensor] | None:
        """Where a mask is true, as indices of each of its dims; None if that is not known."""
        value: Value | None = getattr(mask, VALUE, None)
        if value is None:
            return None
        if value not in self._places:
            known = known_value(value)
            if known is None:
                return None
            with off_the_record():
                places = known.nonzero(as_tuple=True)
            self._places[value] = [self._write(index) for index in places]
        return self._places[value]

    def known_results(
        self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """What an operator returns of arguments that are the same in every step, else None."""
        known: dict[int, Tensor] = {}
        for tensor in tensors_in((*args, *kwargs.values())):
            value: Value | None = getattr(tensor, VALUE, None)
            real = None if value is None or tensor.is_complex() else known_value(value)
            if real is None:
                return None
            known[id(tensor)] = real
        with off_the_record():
            result = func(
                *(_replaced(a, known) for a in args),
                **{name: _replaced(a, known) for name, a in kwargs.items()},
            )
        if isinstance(result, Tensor):
            return self._write(result)
        return type(result)(self._write(x) if isinstance(x, Tensor) else x for x in result)

    def lift(self, real: Tensor) -> Tensor:
        """Return a fake tensor for a constant, which becomes part of the graph."""
        self.read.add(id(real))
        known = self._lifted.get(id(real))
        if known is not None and known[1] == real._version:
            return known[2]
        if real.requires_grad and torch.is_grad_enabled():
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
        elif written:
            fake = self._write(real.detach().cpu())
        else:
            computed = self._compute_again(real)
            fake = self._declare(real) if computed is None else computed
        self._lifted[id(real)] = (real, real._version, fake)
        return fake

    def _compute_again(self, real: Tensor) -> Tensor | None:
        """A large constant that was computed from others, by operators of the graph."""
        how = self._computed.get(id(real))
        if id(real) in self.names or how is None or not how.is_current():
            return None
        args, kwargs = self.lift_all(how.func, how.args, how.kwargs)
        with disable_functional_mode(), self.recorder:
            made: Tensor = tensors_in((how.func(*args, **kwargs),))[how.number]
        return made

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


_INDICES: dict[object, int] = {
    aten.index: 1,
    aten.index_put: 1,
    aten._unsafe_index: 1,
    aten._unsafe_index_put: 1,
    aten._index_put_impl: 1,
}
"""Which argument of an operator is a list of indices, of which some may be masks."""


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _replaced(argument: Any, known: Mapping[int, Tensor]) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_replaced(item, known) for item in argument]
    return known.get(id(argument), argument)


def _nested(value: Any) -> Attr:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def _mutated(func: OpOverload) -> MutatedGlobal:
    return MutatedGlobal(
        f"{operator_name(func)} writes to a tensor that is neither a parameter nor a buffer of the "
        "model; register it with register_buffer"
    )
