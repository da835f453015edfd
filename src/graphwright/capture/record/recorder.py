"""The recorder: a fake-tensor mode that writes down every pure operator it runs.

Calls pass autograd, then functionalisation, then arrive here, pure, on fake tensors:

    composite with a reduction inside?   run its decomposition; the recorder sees the parts
    random?                              the same draw as before, if checkpointing runs it again
    complex numbers?                     the same on pairs of real numbers              (pairs)
    anything else                        compute the result's type, write one node  (canonical)

Tensors that are not fake are the model's own constants (see `constants`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import disable_functional_mode

from graphwright.aten import aten, bind_arguments, split_arguments, tensor_type
from graphwright.capture.decompose import DECOMPOSITIONS, REJOINED
from graphwright.capture.record.canonical import operator_name, write
from graphwright.capture.record.constants import Constants, tensors_in
from graphwright.capture.record.functional import VALUE, stamp, stamped
from graphwright.capture.record.pairs import on_pairs, set_pair
from graphwright.capture.record.provenance import Provenance
from graphwright.capture.record.tape import Entry, TakenApart, Tape, Value
from graphwright.capture.record.values import answer, without_known_mask
from graphwright.describe import is_described
from graphwright.errors import (
    MismatchedTypes,
    UnsupportedModel,
)
from graphwright.ir import Attr, Phase, Role

_NOT_COMPUTING = frozenset({"prim", "profiler"})

_ATTENTION = frozenset(
    {
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    }
)

_LIFTS = frozenset({aten.lift_fresh.default, aten.lift_fresh_copy.default})


class Recorder(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Fake tensors whose operators are written on a tape."""

    def __init__(self, names_of_constants: Mapping[int, str]) -> None:
        super().__init__()
        self.tape = Tape()
        self.provenance = Provenance()
        self.constants = Constants(self, names_of_constants)
        self._paused = 0
        self._nested = False
        self._draws: dict[object, list[Value]] = {}
        self._scalars: dict[object, tuple[Value, ...]] = {}
        self._replayed: tuple[int | None, dict[object, list[Entry]]] | None = None

    # Making fake tensors.

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Compute types without writing anything down."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def empty(self, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return an unstamped fake tensor with the size and strides of another, on the CPU."""
        size, stride = like.size(), like.stride()
        with disable_functional_mode(), self, self.paused():
            return torch.empty_strided(size, stride, dtype=dtype or like.dtype, device="cpu")

    def declare(self, name: str, fake: Tensor, role: Role, of: Value | None = None) -> Value:
        """Make a fake tensor an input of the graph, a complex one as a pair of real numbers."""
        pair = fake
        if fake.is_complex():
            with disable_functional_mode(), self, self.paused():
                pair = torch.empty((*fake.shape, 2), dtype=fake.dtype.to_real(), device="cpu")
            set_pair(fake, pair)
        value = self.tape.declare(name, tensor_type(pair), role, of)
        stamp(pair, value)
        stamp(fake, value)
        return value

    # Dispatch.

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled while a step is recorded: no need to be shielded from it

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused or func.namespace in _NOT_COMPUTING:
            return self.dispatch(func, types, args, kwargs)
        if self._nested:
            return self._run(func, types, args, kwargs)
        number = self.provenance.opened_group()
        first = len(self.tape.entries)
        self._nested = True
        try:
            result = self._run(func, types, args, kwargs)
        finally:
            self._nested = False
        if number is not None:
            results = result if isinstance(result, (tuple, list)) else (result,)
            values = [getattr(r, VALUE, None) for r in results]
            self.provenance.close_group(number, values, self.tape.entries[first:])
        return result

    def _run(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}  # a graph has no devices
        tensors = tensors_in((args, tuple(kwargs.values())))
        if not all(isinstance(t, FakeTensor) for t in tensors):  # constants take part
            if func in _LIFTS:
                return self.constants.lift(tensors[0])
            drawn = torch.Tag.nondeterministic_seeded in func.tags  # anew in every step
            if not drawn and not any(isinstance(t, FakeTensor) for t in tensors):
                return self.constants.compute(func, tensors, args, kwargs)
            args, kwargs = self.constants.lift_all(func, args, kwargs)
        if func is aten._local_scalar_dense.default:
            told = answer(stamped(tensors[0]))
            if told is not None:
                return told
        if func in _ATTENTION:
            args, kwargs = without_known_mask(func, args, kwargs)
        _check_call(func, args, kwargs, tensors)
        args = self.constants.without_known_masks(func, args)
        if torch.Tag.dynamic_output_shape in func.tags:
            known = self.constants.known_results(func, args, kwargs)
            if known is not None:
                return known
        if func._schema.is_mutable:
            raise UnsupportedModel(
                f"{operator_name(func)} writes in place in a way that cannot be undone"
            )
        decomposition = DECOMPOSITIONS.get(func if func.namespace == "aten" else str(func))
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                if func in REJOINED:
                    self._note_parts(func, args, kwargs, result)
                return result
        elif _is_only_composite(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self._compute(func, types, args, kwargs)

    def _note_parts(
        self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """Say of which kernel the latest entries are the parts."""
        inputs, attrs = split_arguments(func, bind_arguments(func, args, kwargs))
        made = tensors_in((result,))
        if any(t is not None and t.is_complex() for t in (*inputs, *made)):
            return
        op = operator_name(func)
        self.tape.taken_apart.append(
            TakenApart(
                op=op,
                inputs=tuple(None if t is None else self._value(t, op) for t in inputs),
                attrs=attrs,
                outputs=tuple(stamped(t) for t in made),
            )
        )

    def _compute(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Compute the types of an operator's results and write it down."""
        with self.paused():
            try:
                result = self.dispatch(func, types, args, kwargs)
            except ValueError:  # a view that autograd takes of what eager code has in other order
                if func is not aten.view.default or self.provenance.phase is not Phase.BACKWARD:
                    raise
                result = aten.clone.default(args[0], memory_format=torch.contiguous_format)
                result = self.dispatch(func, types, (result, args[1]), kwargs)
        made = tensors_in((result,))
        if not made:
            return result
        if any(t.is_complex() for t in (*made, *tensors_in((args,)))):
            with self:
                pairs = on_pairs(func, args, dict(kwargs))
            for fake, pair in zip(made, tensors_in((pairs,)), strict=True):
                stamp(fake, stamped(pair))
                set_pair(fake, pair)
            return result
        arguments = bind_arguments(func, args, kwargs)
        if _draws_numbers(func, arguments):
            if arguments.get("generator") is not None:
                raise UnsupportedModel(
                    f"{operator_name(func)} draws from a generator of its own; use the "
                    "default generator"
                )
            if not is_described(operator_name(func)):
                raise UnsupportedModel(
                    f"{operator_name(func)} draws random numbers and has no description, so every "
                    "device would draw others; draw with torch.rand, randn, bernoulli or "
                    "multinomial, or describe it (docs/describing-operators.md)"
                )
            self._draw(func, arguments, result)
        else:
            write(_Writer(self, random=False), func, arguments, result)
        return result

    def _draw(self, func: OpOverload, arguments: dict[str, Any], result: Any) -> None:
        """Write a random node, or reuse the draw if the generator has been in this state before."""
        state = hashlib.blake2b(
            torch.default_generator.get_state().numpy().tobytes(), digest_size=16
        ).digest()
        results = tensors_in((result,))
        key = (state, func, tuple(tensor_type(r) for r in results))
        drawn = self._draws.get(key)
        if drawn is None:
            write(_Writer(self, random=True), func, arguments, result)
            self._draws[key] = [stamped(r) for r in results]
        else:
            for fake, value in zip(results, drawn, strict=True):
                stamp(fake, value)
        torch.default_generator.manual_seed(int.from_bytes(state[:7], "little"))

    def emit(
        self,
        op: str,
        inputs: Sequence[Tensor | Value | float | None],
        attrs: dict[str, Attr],
        outputs: Sequence[Tensor],
        *,
        random: bool = False,
        role: Role = Role.ACTIVATION,
    ) -> None:
        """Write one entry and stamp its outputs."""
        values = tuple(None if x is None else self._value(x, op) for x in inputs)
        types = tuple(tensor_type(out) for out in outputs)
        provenance = self.provenance
        key = None
        if provenance.phase is Phase.UPDATE and not random and all(t.numel <= 1 for t in types):
            key = (op, values, _frozen(attrs), types)
            if key in self._scalars:
                for fake, value in zip(outputs, self._scalars[key], strict=True):
                    stamp(fake, value)
                return
        made = tuple(Value(t, role) for t in types)
        entry = Entry(
            op=op,
            inputs=values,
            attrs=attrs,
            outputs=made,
            phase=provenance.phase,
            frame=provenance.frame,
            index=len(self.tape.entries),
            partner=provenance.partner(op),
            cell=provenance.cell,
            micro=provenance.micro,
            random=random,
            accumulates=provenance.accumulating and provenance.phase is Phase.BACKWARD,
        )
        if provenance.recomputing:
            entry.partner = self._original(entry) or entry.partner
        for fake, value in zip(outputs, made, strict=True):
            value.producer = entry
            stamp(fake, value)
        self.tape.entries.append(entry)
        if key is not None:
            self._scalars[key] = made

    def _value(self, x: Tensor | Value | float, op: str) -> Value:
        if isinstance(x, Value):
            return x
        if isinstance(x, (bool, int, float)):  # where a tensor is due: no overload takes numbers
            dtype = {bool: torch.bool, int: torch.int64}.get(type(x), torch.get_default_dtype())
            with self.paused(), self:
                fake = torch.empty((), dtype=dtype)
            attrs: dict[str, Attr] = {"size": (), "fill_value": x, "dtype": str(dtype)[6:]}
            self.emit("aten.full", (), attrs, (fake,))
            return stamped(fake)
        value: Value | None = getattr(x, VALUE, None)
        assert value is not None, f"{op} reads a tensor that was not recorded"
        return value

    def _original(self, entry: Entry) -> Entry | None:
        """Return the forward entry that a recomputed one repeats: the next of its kind."""
        if self._replayed is None or self._replayed[0] != entry.micro:
            by_kind: dict[object, list[Entry]] = {}
            for known in reversed(self.tape.entries):
                if known.phase is Phase.FORWARD and known.micro == entry.micro:
                    by_kind.setdefault(_kind(known), []).append(known)
            self._replayed = entry.micro, by_kind
        alike = self._replayed[1].get(_kind(entry))
        return alike.pop() if alike else None


class _Writer:
    """The recorder as the canonical rules see it."""

    __slots__ = ("random", "recorder")

    def __init__(self, recorder: Recorder, random: bool) -> None:
        self.recorder, self.random = recorder, random

    def __call__(
        self,
        op: str,
        inputs: Sequence[Tensor | Value | None],
        attrs: dict[str, Attr],
        outputs: Sequence[Tensor],
    ) -> None:
        self.recorder.emit(op, inputs, attrs, outputs, random=self.random)

    def alias(self, result: Tensor, source: Tensor | Value) -> None:
        """Let a result stand for the same value as another tensor."""
        stamp(result, source if isinstance(source, Value) else stamped(source))

    def producer(self, x: Tensor) -> Entry | None:
        """Return the entry that made a tensor."""
        return stamped(x).producer


_PRODUCTS = frozenset(
    {
        aten.mm.default,
        aten.bmm.default,
        aten.mv.default,
        aten.dot.default,
        aten.vdot.default,
        aten.addmm.default,
        aten.baddbmm.default,
        aten.addbmm.default,
        aten.addmv.default,
        aten.convolution.default,
    }
)

_LOOKUPS = frozenset({aten.embedding.default, aten._embedding_bag.default})


def _check_call(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Tensor]
) -> None:
    """Refuse what eager kernels refuse, but the computation of types lets pass."""
    if func in _PRODUCTS and len({t.dtype for t in tensors}) > 1:
        given = " and ".join(repr(tensor_type(t)) for t in tensors)
        raise MismatchedTypes(
            f"{operator_name(func)} is given {given}, which have to have one dtype; convert the "
            f"inputs, e.g. with .to({tensors[-1].dtype}), or the model"
        )
    if (
        func in _LOOKUPS
        and torch.is_grad_enabled()
        and bind_arguments(func, args, kwargs)["sparse"]
    ):
        raise UnsupportedModel(
            "an embedding with sparse=True makes sparse gradients, which a graph cannot hold; use "
            "sparse=False (the gradient is then a dense tensor of the table's size)"
        )


def _draws_numbers(func: OpOverload, arguments: Mapping[str, Any]) -> bool:
    """Whether a call draws random numbers: attention has the tag of one, but not without dropout.

    A draw is reused where a checkpoint repeats it, and anything else is computed again.
    """
    return torch.Tag.nondeterministic_seeded in func.tags and arguments.get("dropout_p", 1) != 0


@cache
def _is_only_composite(func: OpOverload) -> bool:
    """Whether an operator is defined by others alone, without a kernel of its own."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(func._name, "CPU")
    return func._can_decompose() and not has_kernel


def _frozen(attrs: Mapping[str, Attr]) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(value)) for name, value in sorted(attrs.items()))


def _kind(entry: Entry) -> object:
    path = entry.frame.path if entry.frame else ""
    return (path, entry.op, _frozen(entry.attrs), tuple(v.type for v in entry.outputs))
