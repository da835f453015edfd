"""One iteration under a memory plan, with real tensors in an arena of fixed size.

    values of inputs --give--> host slab --swap in--> arena --operators--> arena --swap out--> slab

The actions of the plan are issued in its order. An operator reads views in the arena; views of a
tensor are made anew, since it may lie elsewhere than when it was last read. What its kernel returns
is copied to the place that the plan has for it. On a CPU places that were left are overwritten in
the first iterations, so that a plan which reads what is not there computes NaN and not the right
result by luck.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from graphwright.aten import run_node, without_autocast
from graphwright.errors import ReplayError, UnknownOperator
from graphwright.ir import TensorType
from graphwright.memory import GraphProblem
from graphwright.plans import MemoryPlan, MemoryProblem, Run, SwapIn, SwapOut, verify_memory
from graphwright.run.program.swapping.arena import Arena, HostSlab, Layout, layout_of, plain_layout
from graphwright.run.program.swapping.streams import CpuStreams, CudaStreams, Streams

WATCHED = 2
"""Iterations in which places that were left are forgotten, and overwritten on a CPU; later ones do
the same as these."""


class Executor:
    """Runs the iterations of a plan; what lives between them is in the arena or on the host.

    How operators compute is said by those who inherit from this one.
    """

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
        on_host = dict.fromkeys(s.name for s in problem.storages if s.begins_on_host)
        on_host |= dict.fromkeys(a.name for a in plan.actions if isinstance(a, SwapOut))
        is_gpu = device.type == "cuda"
        self.host = HostSlab({name: self.nbytes[name] for name in on_host}, pinned=is_gpu)
        self.arena = Arena(plan.arena, device)
        self.layouts: dict[str, Layout] = {n: plain_layout(types[n]) for n in self.nbytes}
        self.streams: Streams = CudaStreams(plan.actions, device) if is_gpu else CpuStreams()
        self.places: dict[str, int] = dict(plan.residents)
        self.num_runs = 0
        self._ends: dict[str, int] = {}
        self._views: dict[tuple[str, int | None], tuple[Layout, Tensor]] = {}

    def give(self, values: Mapping[str, Tensor]) -> None:
        """Put values where an iteration begins with them: on the host, or at home in the arena."""
        self._finish()  # the iteration before may still be reading there
        for name, value in values.items():
            self._lay_out(name, value)
            self._on_host(name).copy_(value)
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
            self.streams.begin()
            for at, action in enumerate(self.plan.actions):
                with self.streams.issue(at):
                    match action:
                        case Run():
                            self._compute(action)
                        case SwapOut():
                            self._swap_out(action)
                        case SwapIn():
                            self._swap_in(action)
                self.streams.issued(at)
            self.streams.end()
        if self.num_runs < WATCHED:
            self._ends = dict(self.places)
        self.places = dict(self._ends)
        self.num_runs += 1

    def _finish(self) -> None:
        """Wait until all that was issued has been done."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    # -- actions ----------------------------------------------------------------------------------

    def _compute(self, action: Run) -> None:
        """Run an operator, and leave what it makes where the plan has it."""
        raise NotImplementedError

    def _leave(self, action: Run, storage: str, result: Tensor) -> None:
        """Copy what a kernel has made to its place."""
        if storage in action.places:
            if result.untyped_storage().data_ptr() == self.arena.memory.data_ptr():
                result = result.clone()  # a kernel may return what it was given
            self._lay_out(storage, result)
            self._place(storage, action.places[storage])
        self._on_device(storage).copy_(result)

    def _swap_out(self, action: SwapOut) -> None:
        self._on_host(action.name).copy_(self._on_device(action.name), non_blocking=True)

    def _swap_in(self, action: SwapIn) -> None:
        self._place(action.name, action.offset)
        self._on_device(action.name).copy_(self._on_host(action.name), non_blocking=True)

    def _lay_out(self, name: str, value: Tensor) -> None:
        """Have a storage lie as a value does."""
        known = self.layouts[name]
        if (known.stride, known.dtype) != (value.stride(), value.dtype):
            self.layouts[name] = layout_of(value)

    def _on_device(self, name: str) -> Tensor:
        return self._view_at(name, self.places[name])

    def _on_host(self, name: str) -> Tensor:
        return self._view_at(name, None)

    def _view_at(self, name: str, offset: int | None) -> Tensor:
        """A storage at an offset of the arena, or on the host; each view is made once."""
        layout, known = self.layouts[name], self._views.get((name, offset))
        if known is not None and known[0] is layout:
            return known[1]
        view = self.host.view(layout, name) if offset is None else self.arena.view(layout, offset)
        self._views[name, offset] = layout, view
        return view

    def _place(self, name: str, offset: int) -> None:
        """Take a place; what was there is gone."""
        if self.num_runs >= WATCHED:
            self.places[name] = offset
            return
        stop = offset + self.nbytes[name]
        gone = [
            other
            for other, start in self.places.items()
            if start < stop and offset < start + self.nbytes[other] and other != name
        ]
        for other in gone:
            del self.places[other]
        self.places[name] = offset
        if self.device.type == "cpu":
            self.arena.poison(offset, self.nbytes[name])


class SwapExecutor(Executor):
    """Runs the nodes of a graph."""

    def __init__(self, given: GraphProblem, plan: MemoryPlan, device: torch.device) -> None:
        types = {s.name: given.graph.tensors[s.name].type for s in given.problem.storages}
        super().__init__(given.problem, types, plan, device)
        self.given, self.graph, self.facts = given, given.graph, given.facts

    def result(self, name: str) -> Tensor:
        """What the iteration has made of a tensor of the graph that it returns; a copy."""
        with torch.no_grad():
            return self._shown(name, self.take(self.given.storage_of[name])).clone()

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

    def _compute(self, action: Run) -> None:
        copied = self.given.copied.get(action.name)
        if copied is not None:
            old, new = copied
            self._on_device(old).copy_(self._on_device(new))
            return
        node = self.graph.node(action.name)
        arguments = [None if name is None else self._read(name) for name in node.inputs]
        try:
            results = run_node(self.graph, node, arguments, self.device)
        except (UnknownOperator, RuntimeError, TypeError, IndexError) as error:
            raise ReplayError(f"{node!r} failed: {error}") from error
        for name, result in zip(node.outputs, results, strict=True):
            if name in self.given.views:
                continue
            self._leave(action, self.given.storage_of[name], result)
