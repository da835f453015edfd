"""One rank's program as an FX module: ATen operators on local parts, and what is sent and received.

    def forward(self, held, seed):
        fc_weight = take(held, "fc.weight")            taken out, so that it is free after its last use
        mm = aten.mm(cut(x, ...), fc_weight)
        all_reduce = all_reduce_7(mm)                  begins
        relu = aten.relu(add)                          goes on meanwhile
        sum_ = finish(all_reduce)                      waits, where the result is first needed
        ...
        return {"fc.weight": new}, {"loss": loss}

What is taken from `held` is there no longer: with the last reader of an old parameter gone its memory is free, as on one device.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch import fx

from graphwright.aten import join_arguments, overload_of, to_dtype, without_autocast
from graphwright.ir import collection_paused
from graphwright.plans import (
    Box,
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Operand,
    Program,
    Rows,
    Together,
    Wait,
)
from graphwright.run.program.overwriting import find_roots, mark_free, shares_memory
from graphwright.run.program.regions import (
    check_rows,
    cut,
    find_rows,
    hide_rows,
    move_rows,
    own_memory,
    take,
    zeros_like,
)
from graphwright.run.random import Drawn, Keys, draw, is_random


class Pending(Protocol):
    """Something under way."""

    def wait(self) -> torch.Tensor:
        """The result, once it is there."""
        ...


class Links(Protocol):
    """How ranks reach each other."""

    def collect(self, what: Collective, value: torch.Tensor) -> Pending:
        """Begin a collective."""
        ...

    def sum_all(self, what: Together, values: Sequence[torch.Tensor]) -> Sequence[Pending]:
        """Begin several sums at once."""
        ...

    def exchange(self, what: Exchange, value: torch.Tensor | None) -> Pending:
        """Begin an exchange."""
        ...


def build_module(program: Program, links: Links | None, device: torch.device) -> fx.GraphModule:
    """The module of a program, with no links for a world of one; its `forward(held, seed)` returns new values by the names of inputs, and results by their names."""
    with collection_paused():
        return _Builder(program, links, device).build()


# -- what the generated code calls ---------------------------------------------------------------------


def finish(pending: Pending) -> torch.Tensor:
    """Wait for what is under way."""
    return pending.wait()


@cache
def in_place(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The operator that writes what another one computes over its first argument, if there is one with the same parameters."""
    namespace, name = overload._schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    found = getattr(packet, overload._overloadname, None)
    if not isinstance(found, torch._ops.OpOverload):
        return None
    parameters = [(a.name, str(a.type)) for a in overload._schema.arguments]
    same = [(a.name, str(a.type)) for a in found._schema.arguments] == parameters
    return found if same else None


@cache
def into_memory(overload: torch._ops.OpOverload) -> tuple[torch._ops.OpOverload, str] | None:
    """The operator that writes what another one computes into memory that it is given, and by which name, if there is one."""
    parameters = [(a.name, str(a.type)) for a in overload._schema.arguments]
    packet = overload.overloadpacket
    for name in packet.overloads():
        found = getattr(packet, name)
        *given, last = found._schema.arguments
        if (
            last.is_out
            and not any(a.is_out for a in given)
            and [(a.name, str(a.type)) for a in given] == parameters
        ):
            return found, last.name
    return None


class Turned:
    """A result under way whose dims come in another order: that in which it lies in memory."""

    def __init__(self, pending: Pending, order: Sequence[int]) -> None:
        self.pending = pending
        self.back = sorted(range(len(order)), key=lambda place: order[place])

    def wait(self) -> torch.Tensor:
        return self.pending.wait().permute(self.back)


class Begin:
    """What begins a collective or an exchange."""

    def __init__(self, links: Links, what: Collective | Exchange) -> None:
        self.links, self.what = links, what
        kind = what.kind if isinstance(what, Collective) else "exchange"
        self.__name__ = self.__qualname__ = kind
        self.__module__ = "graphwright.run.links.collectives"

    def __call__(self, value: torch.Tensor | None) -> Pending:
        order = self.what.order
        if value is not None and order is not None:
            value = value.permute(order)
        if isinstance(self.what, Collective):
            assert value is not None
            begun = self.links.collect(self.what, value)
        else:
            begun = self.links.exchange(self.what, value)
        return begun if order is None or self.what.output is None else Turned(begun, order)


class BeginAll:
    """What begins several sums."""

    def __init__(self, links: Links, what: Together) -> None:
        self.links, self.what = links, what
        self.__name__ = self.__qualname__ = "all_reduce_together"
        self.__module__ = "graphwright.run.links.collectives"

    def __call__(self, *values: torch.Tensor) -> Sequence[Pending]:
        orders = [each.order for each in self.what.sums]
        given = [v if o is None else v.permute(o) for v, o in zip(values, orders, strict=True)]
        begun = self.links.sum_all(self.what, given)
        return [b if o is None else Turned(b, o) for b, o in zip(begun, orders, strict=True)]


class Draw:
    """What draws a part of a random operator's output."""

    def __init__(self, call: Call, device: torch.device) -> None:
        self.call, self.device = call, device
        self.__name__ = self.__qualname__ = f"draw_{call.op.replace('.', '_')}"
        self.__module__ = "graphwright.run.random.draw"

    def __call__(self, seed: int | Keys, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        call = self.call
        place = Drawn(seed=seed, operator=call.number, shape=call.shape, box=call.box)
        return draw(call.op, call.attrs, inputs, place, self.device)


class Fresh:
    """What makes a constant: every time in memory of its own, which may be overwritten."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value
        self.__name__ = self.__qualname__ = "constant"
        self.__module__ = "graphwright.run.program.module"

    def __call__(self) -> torch.Tensor:
        return self.value.clone()


# -- the generated code ----------------------------------------------------------------------------------


class _Builder:
    def __init__(self, program: Program, links: Links | None, device: torch.device) -> None:
        self.program, self.links, self.device = program, links, device
        self.graph = fx.Graph()
        self.held = self.graph.placeholder("held")
        self.seed = self.graph.placeholder("seed")
        self.names = {value: name for name, value in program.inputs.items()}
        self.values: dict[int, fx.Node] = {}
        self.pending: dict[int, fx.Node] = {}
        self.begun: dict[int, int] = {}
        self.num_sent = 0
        self.roots = find_roots(program.instructions)
        self.left: set[int] = set()
        self.updated = set(program.updates.values())

    def build(self) -> fx.GraphModule:
        for number, instruction in enumerate(mark_free(self.program)):
            match instruction:
                case Call():
                    self._call(instruction)
                case Constant():
                    self._constant(instruction)
                case Cut():
                    self._cut(instruction)
                case Collective() | Exchange():
                    self.begun[number] = self._begin(instruction)
                case Wait():
                    if self.begun[instruction.begun] in self.pending:
                        self._value(self.begun[instruction.begun])
                case Together():
                    self._begin_all(instruction)
        updates = {name: self._own(value) for name, value in self.program.updates.items()}
        results = {name: self._own(value) for name, value in self.program.results.items()}
        for value in list(self.pending):  # what is sent only has to arrive, too
            self._value(value)
        self.graph.output((updates, results))
        self.graph.lint()
        return fx.GraphModule(torch.nn.Module(), self.graph, class_name=f"Rank{self.program.rank}")

    def _emit(self, function: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call_function(function, args, kwargs)

    def _value(self, number: int) -> fx.Node:
        found = self.values.get(number)
        if found is None:
            if number in self.pending:
                found = self._emit(finish, self.pending.pop(number))
            else:
                found = self._emit(take, self.held, self.names[number])
            self.values[number] = found
        return found

    def _own(self, number: int) -> fx.Node:
        """A value that is left: in memory that nothing else that is left shares."""
        root = self.roots.get(number, number)
        function = torch.clone if root in self.left else own_memory
        self.left.add(root)
        return self._emit(function, self._value(number))

    def _operand(self, operand: Operand | None) -> fx.Node | None:
        if operand is None:
            return None
        value = self._value(operand.value)
        if operand.region is None:
            return value
        return self._emit(cut, value, _lists(operand.region), list(operand.fills))

    def _call(self, call: Call) -> None:
        inputs = [self._operand(o) for o in call.inputs]
        held = [self._hold(rows, inputs) for rows in call.rows]
        outputs = self._kernel(call, inputs)
        for rows, found in zip(call.rows, held, strict=True):
            if rows.scattered is None:
                outputs = [self._emit(hide_rows, out, found, rows.dims) for out in outputs]
        self.values.update(zip(call.outputs, outputs, strict=True))

    def _hold(self, rows: Rows, inputs: list[fx.Node | None]) -> fx.Node:
        index = inputs[rows.index]
        self._emit(check_rows, index, rows.size)
        held = self._emit(find_rows, index, rows.low, rows.end)
        inputs[rows.index] = self._emit(move_rows, index, held, rows.low)
        if rows.scattered is not None:
            inputs[rows.scattered] = self._emit(hide_rows, inputs[rows.scattered], held, rows.dims)
        return held

    def _kernel(self, call: Call, inputs: list[fx.Node | None]) -> list[fx.Node]:
        if is_random(call.op):
            made = self._emit(Draw(call, self.device), self.seed, *inputs)
            return [self._emit(operator.getitem, made, n) for n in range(len(call.outputs))]
        if call.op == "aten.view":  # a part may lie in memory otherwise than the whole
            size = list(call.attrs["size"])  # type: ignore[arg-type]
            return [self._emit(torch.ops.aten.reshape.default, inputs[0], size)]
        overload = overload_of(call.op)
        args, kwargs = join_arguments(overload, len(inputs), call.attrs)(inputs, self.device)
        if call.free and not shares_memory(call.op):
            into = into_memory(overload)
            if 0 in call.free and in_place(overload) is not None:
                overload = in_place(overload) or overload
            elif call.by_element and into is not None:
                overload, name = into
                kwargs = {**kwargs, name: inputs[call.free[0]]}
        made = self._emit(overload, *args, **kwargs)
        returns = overload._schema.returns
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            return [made]
        places = [n for n, r in enumerate(returns) if str(r.type) == "Tensor"]
        if len(returns) == 1:  # a list of tensors
            places = list(range(len(call.outputs)))
        return [self._emit(operator.getitem, made, n) for n in places[: len(call.outputs)]]

    def _constant(self, constant: Constant) -> None:
        dtype, shape = to_dtype(constant.type.dtype), list(constant.type.shape)
        value = _plain(constant.value)
        if not isinstance(value, list):  # nothing to copy to a GPU
            made = self._emit(torch.full, shape, value, dtype=dtype, device=self.device)
        else:
            whole = torch.tensor(value, dtype=dtype, device=self.device).reshape(shape)
            made = self._emit(Fresh(whole))
        self.values[constant.output] = made

    def _cut(self, what: Cut) -> None:
        function = zeros_like if what.zero else cut
        found = self._emit(function, self._value(what.value), _lists(what.region))
        if what.output in self.updated:  # the rest of what it was cut from is not to be held
            found = self._emit(own_memory, found)
        self.values[what.output] = found

    def _begin(self, what: Collective | Exchange) -> int:
        """Begin something; the number by which it is pending."""
        assert self.links is not None
        value = None if what.value is None else self._value(what.value)
        begun = self._emit(Begin(self.links, what), value)
        if what.output is None:
            self.num_sent += 1
        number = -self.num_sent if what.output is None else what.output
        self.pending[number] = begun
        return number

    def _begin_all(self, what: Together) -> None:
        assert self.links is not None
        values = [self._value(each.value) for each in what.sums]
        begun = self._emit(BeginAll(self.links, what), *values)
        for number, each in enumerate(what.sums):
            self.pending[each.output] = self._emit(operator.getitem, begun, number)


def _lists(region: Box) -> list[tuple[int, int]]:
    return list(region)


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def run_module(
    module: Callable[[dict[str, torch.Tensor], int], Any], held: dict[str, torch.Tensor], seed: int
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Run a module, or what stands for it, without recording gradients; `held` is used up."""
    with torch.no_grad(), without_autocast():
        updates, results = module(held, seed)
    return updates, results
