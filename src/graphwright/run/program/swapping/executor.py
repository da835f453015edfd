"""One iteration under a memory plan, with real tensors in an arena of fixed size.

    values of inputs --give--> host slab --swap in--> arena --operators--> arena --swap out--> slab

The actions of the plan are issued in its order. An operator reads views in the arena; views of a
tensor are made anew, since it may lie elsewhere than when it was last read. What its kernel returns
is copied to the place that the plan has for it. On a CPU places that were left are overwritten, so
that a plan which reads what is not there computes NaN and not the right result by luck.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from graphwright.aten import run_node, without_autocast
from graphwright.errors import ReplayError, UnknownOperator
from graphwright.memory import GraphProblem
from graphwright.plans import MemoryPlan, Run, SwapIn, SwapOut, verify_memory
from graphwright.run.program.swapping.arena import Arena, HostSlab, Layout, layout_of, plain_layout
from graphwright.run.program.swapping.streams import CpuStreams, CudaStreams, Streams


class SwapExecutor:
    """Runs the iterations of a plan; what lives between them is in the arena or on the host."""

    def __init__(self, given: GraphProblem, plan: MemoryPlan, device: torch.device) -> None:
        verify_memory(plan, given.problem)
        self.given, self.plan, self.device = given, plan, device
        self.graph, self.facts = given.graph, given.facts
        self.nbytes = {s.name: s.nbytes for s in given.problem.storages}
        on_host = dict.fromkeys(s.name for s in given.problem.storages if s.begins_on_host)
        on_host |= dict.fromkeys(a.name for a in plan.actions if isinstance(a, SwapOut))
        is_gpu = device.type == "cuda"
        self.host = HostSlab({name: self.nbytes[name] for name in on_host}, pinned=is_gpu)
        self.arena = Arena(plan.arena, device)
        self.layouts: dict[str, Layout] = {
            s.name: plain_layout(self.graph.tensors[s.name].type) for s in given.problem.storages
        }
        self.streams: Streams = CudaStreams(plan.actions, device) if is_gpu else CpuStreams()
        self.places: dict[str, int] = dict(plan.residents)

    def give(self, values: Mapping[str, Tensor]) -> None:
        """Put values where an iteration begins with them: on the host, or at home in the arena."""
        self._finish()  # the iteration before may still be reading there
        for name, value in values.items():
            self.layouts[name] = layout_of(value)
            self.host.view(self.layouts[name], name).copy_(value)
            if name in self.plan.residents:
                self._on_device(name).copy_(value)

    def restart(self, values: Mapping[str, Tensor]) -> None:
        """Give values for all that lives between iterations, whatever the one before has left."""
        self.places = dict(self.plan.residents)
        self.give(values)

    def room_for(self, name: str) -> Tensor:
        """An empty tensor in host memory for a value that lives between iterations."""
        return torch.empty_like(self.host.view(self.layouts[name], name), pin_memory=False)

    def take(self, name: str) -> Tensor:
        """The latest value of a storage, wherever it is; valid until the next iteration."""
        if name in self.places:
            return self._on_device(name)
        self._finish()
        return self.host.view(self.layouts[name], name)

    def result(self, name: str) -> Tensor:
        """What the iteration has made of a tensor of the graph that it returns; a copy."""
        with torch.no_grad():
            return self._shown(name, self.take(self.given.storage_of[name])).clone()

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

    def _finish(self) -> None:
        """Wait until all that was issued has been done."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

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

    # -- actions ----------------------------------------------------------------------------------

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
            storage = self.given.storage_of[name]
            if storage in action.places:
                self.layouts[storage] = layout_of(result)
                self._place(storage, action.places[storage])
            self._on_device(storage).copy_(result)

    def _swap_out(self, action: SwapOut) -> None:
        name, layout = action.name, self.layouts[action.name]
        self.host.view(layout, name).copy_(self._on_device(name), non_blocking=True)

    def _swap_in(self, action: SwapIn) -> None:
        name, layout = action.name, self.layouts[action.name]
        self._place(name, action.offset)
        self._on_device(name).copy_(self.host.view(layout, name), non_blocking=True)

    def _on_device(self, name: str) -> Tensor:
        return self.arena.view(self.layouts[name], self.places[name])

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
        if self.device.type == "cpu":
            self.arena.poison(offset, self.nbytes[name])
