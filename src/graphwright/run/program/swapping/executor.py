"""Iterations under a memory plan, with real tensors in an arena of fixed size.

    values of inputs --give--> host slab --swap in--> arena --operators--> arena --swap out--> slab

A plan places every tensor once and for all, so every action becomes a call the first time that it
runs: a copy between two views, or an operator with the views that it reads and the places that it
writes (`placing`). Later iterations make these calls in the order of the plan; on a GPU those of a
graph are recorded and launched at once (`recording`). Tensors lie in their places as they are left
by the kernels that make them.

On a CPU places that were left are overwritten in the first iterations, so that a plan which reads
what is not there computes NaN and not the right result by luck.

The batch and learning rates have two places on the host of a GPU: one is filled while the iteration
before still reads the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from graphwright.aten import run_node, without_autocast
from graphwright.errors import ReplayError, UnknownOperator
from graphwright.ir import CONSTANT_OP, Node, TensorType
from graphwright.memory import GraphProblem
from graphwright.plans import (
    MemoryPlan,
    MemoryProblem,
    MemoryTooSmall,
    Run,
    SwapIn,
    SwapOut,
    verify_memory,
)
from graphwright.run.program.swapping.arena import Arena, HostSlab, Layout, layout_of, plain_layout
from graphwright.run.program.swapping.placing import (
    Call,
    copy_results,
    layouts_made,
    write_into,
    write_over,
)
from graphwright.run.program.swapping.recording import Recorder
from graphwright.run.program.swapping.streams import CpuStreams, CudaStreams, Streams

WATCHED = 2
"""Iterations in which places are overwritten on a CPU; later ones do the same as these."""

_FAILURES = (UnknownOperator, RuntimeError, TypeError, IndexError)
InTurn = Callable[[int], object]
"""Does an action again, with the data of a turn."""


class Executor:
    """Runs the iterations of a plan; what lives between them is in the arena or on the host.

    How operators compute is said by those who inherit from this one, and whether their calls are
    the same in every iteration, so that a GPU can record them.
    """

    records: ClassVar[bool] = False

    def __init__(
        self,
        problem: MemoryProblem,
        types: Mapping[str, TensorType],
        plan: MemoryPlan,
        device: torch.device,
    ) -> None:
        verify_memory(plan, problem)
        self.plan, self.device = plan, device
        self.nbytes = {s.name: s.nbytes for s in problem.storages}
        self.data = frozenset(s.name for s in problem.storages if s.is_data)
        on_host = dict.fromkeys(s.name for s in problem.storages if s.begins_on_host)
        on_host |= dict.fromkeys(a.name for a in plan.actions if isinstance(a, SwapOut))
        is_gpu = device.type == "cuda"
        self.turns, self.turn = 2 if is_gpu else 1, 0
        sizes = {name: self.nbytes[name] for name in on_host}
        self.host = HostSlab(sizes, self.data, turns=self.turns, pinned=is_gpu)
        self.arena = Arena(plan.arena, device)
        self.layouts: dict[str, Layout] = {n: plain_layout(types[n]) for n in self.nbytes}
        self.streams: Streams = CpuStreams()
        self.recorder: Recorder | None = None
        if is_gpu:
            self.streams = streams = CudaStreams(plan.actions, device)
            self.recorder = Recorder(streams, self.turns, self.records)
        self.places: dict[str, int] = dict(plan.residents)
        self.calls: list[InTurn] | None = None
        self.num_runs = 0
        self._ends: dict[str, int] = {}

    def give(self, values: Mapping[str, Tensor]) -> None:
        """Put values where an iteration begins with them: on the host, or at home in the arena."""
        if not values.keys() <= self.data:
            self._finish()  # the iteration before may still be working there
        elif self.recorder is not None:
            self.recorder.wait_for(self.turn)
        for name, value in values.items():
            if self._lay_out(name, value):
                self._forget()
            there = self.host.view(self.layouts[name], name, self.turn)
            there.copy_(value, non_blocking=value.is_cuda)
            if name in self.plan.residents:
                self._on_device(name).copy_(value)

    def restart(self, values: Mapping[str, Tensor]) -> None:
        """Give values for all that lives between iterations, whatever the one before has left."""
        self.places = dict(self.plan.residents)
        self.give(values)

    def room_for(self, name: str) -> Tensor:
        """An empty tensor in host memory for a value that lives between iterations."""
        return torch.empty_like(self._on_host(name), pin_memory=False)

    def take(self, name: str) -> Tensor:
        """The latest value of a storage, wherever it is; valid until the next iteration."""
        if name in self.places:
            return self._on_device(name)
        self._finish()
        return self._on_host(name)

    def run(self) -> None:
        """One iteration."""
        with torch.no_grad(), without_autocast():
            if self.calls is None:
                self.calls = self._first()
                self._ends = self.places
                if self.recorder is not None:
                    self.recorder.note_end(self.turn)
            elif self.recorder is None:
                self._issue(self.turn)
            else:
                self.recorder.run(self._issue, self.turn)
        self.places = dict(self._ends)
        self.turn = (self.turn + 1) % self.turns
        self.num_runs += 1

    def _issue(self, turn: int) -> None:
        assert self.calls is not None
        self.streams.begin()
        for at, call in enumerate(self.calls):
            with self.streams.issue(at):
                call(turn)
            self.streams.issued(at)
        self.streams.end()

    def _first(self) -> list[InTurn]:
        """Run the first iteration, and return what its actions have become."""
        calls: list[InTurn] = []
        self.streams.begin()
        for at, action in enumerate(self.plan.actions):
            with self.streams.issue(at):
                match action:
                    case Run():
                        calls.append(self._compute(action))
                    case SwapOut():
                        calls.append(self._swap_out(action))
                    case SwapIn():
                        calls.append(self._swap_in(action))
            self.streams.issued(at)
        self.streams.end()
        return calls

    def _forget(self) -> None:
        """Something lies otherwise than before: the calls have to be made anew."""
        if self.calls is not None:
            self._finish()
            self.calls, self.num_runs = None, 0
            if self.recorder is not None:
                self.recorder.forget()

    def _finish(self) -> None:
        """Wait until all that was issued has been done."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    # -- actions: each is done, and returns what does it again ------------------------------------

    def _compute(self, action: Run) -> InTurn:
        """Run an operator, and leave what it makes where the plan has it."""
        raise NotImplementedError

    def _homes(
        self, storages: Sequence[str], made: Sequence[Tensor], places: Mapping[str, int]
    ) -> list[Tensor]:
        """The places of what an operator makes, which takes them now and lies there as it does."""
        for storage, like in zip(storages, made, strict=True):
            if storage in places:
                self._lay_out(storage, like)
                self._place(storage, places[storage])
        return [self._on_device(storage) for storage in storages]

    def _poison(self, places: Mapping[str, int]) -> Call | None:
        """Overwrite the places of what an operator makes, on a CPU."""
        if self.device.type != "cpu" or not places:
            return None
        spans = [(offset, self.nbytes[name]) for name, offset in places.items()]

        def call() -> None:
            if self.num_runs < WATCHED:
                for offset, nbytes in spans:
                    self.arena.poison(offset, nbytes)

        return call

    def _swap_out(self, action: SwapOut) -> InTurn:
        name, layout = action.name, self.layouts[action.name]
        there = self.host.bytes(layout, name)
        here = self.arena.bytes(layout, self.places[name])
        there.copy_(here, non_blocking=True)
        return lambda turn: there.copy_(here, non_blocking=True)

    def _swap_in(self, action: SwapIn) -> InTurn:
        name, layout = action.name, self.layouts[action.name]
        self._place(name, action.offset)
        here = self.arena.bytes(layout, action.offset)
        there = [self.host.bytes(layout, name, turn) for turn in range(self.turns)]
        poison = self._poison({name: action.offset})

        def call(turn: int) -> None:
            if poison is not None:
                poison()
            here.copy_(there[turn], non_blocking=True)

        call(self.turn)
        return call

    def _lay_out(self, name: str, value: Tensor) -> bool:
        """Have a storage lie as a value does; whether it lay otherwise before."""
        known = self.layouts[name]
        if (known.stride, known.dtype) == (value.stride(), value.dtype):
            return False
        self.layouts[name] = layout_of(value)
        return self.layouts[name] != known

    def _on_device(self, name: str) -> Tensor:
        return self.arena.view(self.layouts[name], self.places[name])

    def _on_host(self, name: str) -> Tensor:
        return self.host.view(self.layouts[name], name)

    def _place(self, name: str, offset: int) -> None:
        """Take a place; what was there is gone."""
        stop = offset + self.nbytes[name]
        gone = [
            other
            for other, start in self.places.items()
            if start < stop and offset < start + self.nbytes[other] and other != name
        ]
        for other in gone:
            del self.places[other]
        self.places[name] = offset


class SwapExecutor(Executor):
    """Runs the nodes of a graph."""

    records = True

    def __init__(self, given: GraphProblem, plan: MemoryPlan, device: torch.device) -> None:
        super().__init__(given.problem, given.types, plan, device)
        self.given, self.graph, self.facts = given, given.graph, given.facts
        read = (name for node in self.graph.nodes for name in node.inputs)
        # What nobody reads is not kept: a kernel may leave it out.
        self.read = {*read, *self.graph.outputs, *self.graph.updates.values()}

    def result(self, name: str) -> Tensor:
        """What the iteration has made of a tensor of the graph that it returns; a copy."""
        with torch.no_grad():
            return self._shown(name, self.take(self.given.results[name])).clone()

    def _read(self, name: str) -> Tensor:
        """A tensor of the graph, from what is in the arena now."""
        return self._shown(name, self._on_device(self.given.storage_of[name]))

    def _shown(self, name: str, storage: Tensor) -> Tensor:
        return self._view(name, storage) if name in self.given.views else storage

    def _view(self, name: str, root: Tensor) -> Tensor:
        """A tensor of the graph as a view of what it shows."""
        made = self.facts.producer.get(name)
        if made is None or not self.facts.is_view[made[0]]:
            return root
        i, output = made
        viewed, arg = self.facts.viewed(i)
        node = self.graph.nodes[i]
        arguments: list[Tensor | None] = [None] * len(node.inputs)
        arguments[arg] = self._view(viewed, root)
        return run_node(self.graph, node, arguments, root.device)[output]

    def _compute(self, action: Run) -> InTurn:
        copied = self.given.copied.get(action.name)
        if copied is not None:
            to, of = copied
            source = self._on_device(of)
            (there,) = self._homes([to], [source], action.places)
            call: Call = partial(there.copy_, source)
            call()
            return lambda turn: call()
        node = self.graph.node(action.name)
        arguments = [None if name is None else self._read(name) for name in node.inputs]
        try:
            call = self._operate(node, arguments, action.places)
        except torch.OutOfMemoryError as error:
            raise MemoryTooSmall(
                f"operator {node.name} ({node.op}) needs more memory beside the arena of "
                f"{self.plan.arena:,} bytes than the GPU has free; plan with reserve=..., of what "
                "graphwright.run.memory_beside(plan.given.graph) says"
            ) from error
        except _FAILURES as error:
            raise ReplayError(f"{node!r} failed: {error}") from error
        return lambda turn: call()

    def _operate(
        self, node: Node, arguments: Sequence[Tensor | None], places: Mapping[str, int]
    ) -> Call:
        """Run a node, its results in their places."""
        wanted = [name in self.read and name not in self.given.views for name in node.outputs]
        pairs = zip(node.outputs, wanted, strict=True)
        storages = [self.given.storage_of[name] for name, is_wanted in pairs if is_wanted]
        poison = self._poison(places)
        made = None
        if node.op != CONSTANT_OP and all(wanted):
            made = layouts_made(node.op, arguments, node.attrs)
        if made is not None and len(made) == len(storages):
            outs = self._homes(storages, made, places)
            by_element = self.facts.writes_over[self.facts.position[node.name]]
            into = write_into(node.op, arguments, node.attrs, outs, by_element)
            if into is not None:
                call = self._behind(into, poison, arguments, places)
                call()
                return call
        if node.op != CONSTANT_OP and not places and all(wanted):
            homes = [self._on_device(storage) for storage in storages]
            over = write_over(node.op, arguments, node.attrs, homes)
            if over is not None:
                over()
                return over
        run = partial(run_node, self.graph, node, arguments, self.device)

        def results() -> list[Tensor]:
            return [one for one, is_wanted in zip(run(), wanted, strict=True) if is_wanted]

        first = results()
        outs = self._homes(storages, first, places)
        copy_results(first, outs, poison)
        if node.op == CONSTANT_OP:  # it is made once
            return partial(copy_results, first, outs, poison)
        return lambda: copy_results(results(), outs, poison)

    def _behind(
        self,
        into: Call,
        poison: Call | None,
        arguments: Sequence[Tensor | None],
        places: Mapping[str, int],
    ) -> Call:
        """A call behind the poison of its places, if it does not write over an operand."""
        start = self.arena.memory.data_ptr()
        in_use = {t.data_ptr() - start for t in arguments if t is not None}
        if poison is None or in_use & set(places.values()):
            return into

        def call() -> None:
            poison()
            into()

        return call
