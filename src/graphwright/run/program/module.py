"""One rank's program as an FX module: ATen operators on local parts, and what is sent and received.

    def forward(self, held, seed):
        fc_weight = take(held, "fc.weight")        taken out, so that it is free after its last use
        mm = aten.mm(cut(x, ...), fc_weight)
        all_reduce = all_reduce_7(mm)              begins
        relu = aten.relu(add)                      goes on meanwhile
        sum_ = finish(all_reduce)                  waits, where the result is first needed
        ...
        return {"fc.weight": new}, {"loss": loss}

What is taken from `held` is no longer there: an old parameter's memory is free after its last
reader, as on one device.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from graphwright.aten import join_arguments, on_device, overload_of, to_dtype, without_autocast
from graphwright.ir import collection_paused
from graphwright.plans import (
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Instruction,
    Operand,
    Program,
    Rows,
    Together,
    Wait,
)
from graphwright.run.program import overwriting, regions, targets
from graphwright.run.program.postponed import Postponed


def build_module(
    program: Program,
    links: targets.Transport | None,
    device: torch.device,
    compiled: bool = False,
) -> fx.GraphModule:
    """The module of a program, without links for a world of one.

    One that is to be `compiled` leaves memory for what it makes to the compiler.

    Its `forward(held, seed)` returns updates by the names of inputs, and results by theirs.
    """
    with collection_paused():
        return _Builder(program, links, device, compiled).build()


def build_piece(
    rank: int,
    instructions: Sequence[Instruction],
    given: Mapping[int, str],
    made: Sequence[int],
    links: targets.Transport | None,
    device: torch.device,
) -> fx.GraphModule:
    """Some instructions of a program as a module, from values by name to the values that they make.

    Its `forward(held, seed)` returns these in a tuple. All that begins has ended then, nothing that
    is given is overwritten, and what is made may share memory with it.
    """
    program = Program(
        rank=rank,
        inputs={name: value for value, name in given.items()},
        homes={},
        instructions=tuple(instructions),
        updates={},
        results={},
        shardings={},
        groups=(),
        digest="",
    )
    return _Builder(program, links, device).build_piece(made)


class _Builder:
    def __init__(
        self,
        program: Program,
        links: targets.Transport | None,
        device: torch.device,
        compiled: bool = False,
    ) -> None:
        self.program, self.links, self.device = program, links, device
        self.compiled = compiled
        self.graph = fx.Graph()
        self.held = self.graph.placeholder("held")
        self.seed = self.graph.placeholder("seed")
        self.names = {value: name for name, value in program.inputs.items()}
        self.values: dict[int, fx.Node] = {}
        self.pending: dict[int, fx.Node] = {}
        self.started: dict[int, int] = {}
        self.num_sent = 0
        self.roots = overwriting.find_roots(program.instructions)
        self.left: set[int] = set()
        self.updated = set(program.updates.values())
        self.postponed = Postponed(self._emit)

    def build(self) -> fx.GraphModule:
        self._emit_all(overwriting.mark_free(self.program))
        updates = {name: self._own(value) for name, value in self.program.updates.items()}
        results = {name: self._own(value) for name, value in self.program.results.items()}
        return self._finish((updates, results))

    def build_piece(self, made: Sequence[int]) -> fx.GraphModule:
        self._emit_all(self.program.instructions)
        return self._finish(tuple(map(self._value, made)))

    def _finish(self, output: Any) -> fx.GraphModule:
        for value in list(self.pending):  # what is sent only has to arrive, too
            self._value(value)
        self.graph.output(output)
        self.graph.lint()
        return fx.GraphModule(torch.nn.Module(), self.graph, class_name=f"Rank{self.program.rank}")

    def _emit_all(self, instructions: Sequence[Instruction]) -> None:
        for number, instruction in enumerate(instructions):
            match instruction:
                case Call():
                    self._call(instruction)
                case Constant():
                    self._constant(instruction)
                case Cut():
                    self._cut(instruction)
                case Collective() | Exchange():
                    self.started[number] = self._start(instruction)
                case Wait():
                    if self.started[instruction.begun] in self.pending:
                        self._value(self.started[instruction.begun])
                case Together():
                    self._start_sums(instruction)

    def _emit(self, function: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call_function(function, args, kwargs)

    def _value(self, number: int) -> fx.Node:
        if number in self.postponed.values:
            self.postponed.run()
        if number in self.pending:
            self.values[number] = self._emit(targets.finish, self.pending.pop(number))
        elif number not in self.values:
            self.values[number] = self._emit(regions.take, self.held, self.names[number])
        return self.values[number]

    def _own(self, number: int) -> fx.Node:
        """A value that outlives the run, in memory that no other such value shares."""
        root = self.roots.get(number, number)
        function = torch.clone if root in self.left else regions.own_memory
        self.left.add(root)
        return self._emit(function, self._value(number))

    def _operand(self, operand: Operand | None) -> fx.Node | None:
        if operand is None:
            return None
        value = self._value(operand.value)
        if operand.region is None:
            return value
        return self._emit(regions.cut, value, list(operand.region), list(operand.fills))

    def _call(self, call: Call) -> None:
        inputs = [self._operand(o) for o in call.inputs]
        masks = [self._mask_rows(rows, inputs) for rows in call.rows]
        outputs = self._kernel(call, inputs)
        for rows, mask in zip(call.rows, masks, strict=True):
            if rows.scattered is None:
                outputs = [self._emit(regions.hide_rows, out, mask, rows.dims) for out in outputs]
        self.values.update(zip(call.outputs, outputs, strict=True))

    def _mask_rows(self, rows: Rows, inputs: list[fx.Node | None]) -> fx.Node:
        """Move an index to the rows that are here; which of its elements those are."""
        index = inputs[rows.index]
        self._emit(regions.check_rows, index, rows.size)
        held = self._emit(regions.find_rows, index, rows.low, rows.end)
        inputs[rows.index] = self._emit(regions.move_rows, index, held, rows.low)
        if rows.scattered is not None:
            inputs[rows.scattered] = self._emit(
                regions.hide_rows, inputs[rows.scattered], held, rows.dims
            )
        return held

    def _kernel(self, call: Call, inputs: list[fx.Node | None]) -> list[fx.Node]:
        if call.is_random:
            made = self._emit(targets.DrawPart(call, self.device), self.seed, *inputs)
            return [self._emit(operator.getitem, made, n) for n in range(len(call.outputs))]
        if call.op == "aten.view":  # a part may lie in memory otherwise than the whole
            size = list(call.attrs["size"])  # type: ignore[arg-type]
            return [self._emit(torch.ops.aten.reshape.default, inputs[0], size)]
        overload = on_device(overload_of(call.op), call.attrs, self.device)
        args, kwargs = join_arguments(overload, len(inputs), call.attrs)(inputs, self.device)
        if call.free and not overwriting.shares_memory(call.op):
            in_place, into_memory = (
                overwriting.find_in_place(overload),
                overwriting.find_into_memory(overload),
            )
            if in_place is not None and {*overwriting.written_by(in_place)} <= {*call.free}:
                overload = in_place
            elif call.by_element and into_memory is not None and not self.compiled:
                variant, names = into_memory
                if len(names) == 1:
                    overload, kwargs = variant, {**kwargs, names[0]: inputs[call.free[0]]}
        returns = overload._schema.returns
        if not returns:
            self.postponed.add(call, overload, inputs, kwargs)
            return [inputs[place] for place in overwriting.written_by(overload)]  # type: ignore[misc]
        made = self._emit(overload, *args, **kwargs)
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            return [made]
        places = [n for n, r in enumerate(returns) if str(r.type) == "Tensor"]
        if len(returns) == 1:  # a list of tensors
            places = list(range(len(call.outputs)))
        asked = call.attrs.get("output_mask")
        if isinstance(asked, tuple):  # there is nothing in the place of the others
            places = [n for n, is_asked in enumerate(asked) if is_asked]
        return [self._emit(operator.getitem, made, n) for n in places[: len(call.outputs)]]

    def _constant(self, constant: Constant) -> None:
        dtype, shape = to_dtype(constant.type.dtype), list(constant.type.shape)
        value = _plain(constant.value)
        if not isinstance(value, list):  # nothing to copy to a GPU
            made = self._emit(torch.full, shape, value, dtype=dtype, device=self.device)
        else:
            whole = torch.tensor(value, dtype=dtype, device=self.device).reshape(shape)
            made = self._emit(targets.CopyConstant(whole))
        self.values[constant.output] = made

    def _cut(self, what: Cut) -> None:
        function = regions.zeros_like if what.zero else regions.cut
        region = self._emit(function, self._value(what.value), list(what.region))
        if what.output in self.updated:  # the rest of what it was cut from is not to be held
            region = self._emit(regions.own_memory, region)
        self.values[what.output] = region

    def _start(self, what: Collective | Exchange) -> int:
        """Begin a transfer; the number by which it is pending."""
        assert self.links is not None
        value = None if what.value is None else self._value(what.value)
        if what.output is None:
            self.num_sent += 1
        number = -self.num_sent if what.output is None else what.output
        self.pending[number] = self._emit(targets.StartTransfer(self.links, what), value)
        return number

    def _start_sums(self, what: Together) -> None:
        assert self.links is not None
        values = [self._value(each.value) for each in what.sums]
        sums = self._emit(targets.StartSums(self.links, what), *values)
        for number, each in enumerate(what.sums):
            self.pending[each.output] = self._emit(operator.getitem, sums, number)


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def run_module(
    module: Callable[[dict[str, torch.Tensor], int], Any], held: dict[str, torch.Tensor], seed: int
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Run a module, or what stands for it, without recording gradients; `held` is used up."""
    with torch.no_grad(), without_autocast():
        updates, results = module(held, seed)
    return updates, results
