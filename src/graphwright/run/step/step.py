"""A training step under a plan: exactly the step of one device, on all of them.

    step = gw.compile(plan, model, loss_fn, optimizer, batch=batch)     under torchrun, or inside
    loss = step(batch)                                                  gw.launch(n)(fn)

    given    this rank's part of the batch, the learning rates           (given.py)
    held     its parts of parameters and optimizer state                 (held.py)
    run      given, held -> the new parts, the loss

A step begins when its program is known: at once, or with its first batch, which then has to be
whole (`Start`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import fx, nn

from graphwright.aten import fixed_options, refuse_changes
from graphwright.errors import BatchMismatch, InvalidCheckpoint, PlanMismatch, StepNotBegun
from graphwright.ir import Graph, Role
from graphwright.memory import ProgramProblem
from graphwright.plans import Call, MemoryPlan, Plan, Program
from graphwright.run.checkpoint import Shard
from graphwright.run.processes import (
    World,
    digest_tensors,
    gather_results,
    is_check_due,
    naming_lost_ranks,
    notice_of_compiling,
)
from graphwright.run.program import (
    CudaGraphRunner,
    RankExecutor,
    build_module,
    keep_freed_memory,
    may_use_cuda_graph,
    run_module,
)
from graphwright.run.step.batch import (
    check_arguments,
    compare_given,
    cut_batch,
    find_rates,
    name_batch,
)
from graphwright.run.step.held import Held, HeldInArena
from graphwright.run.step.initial import initial_parts
from graphwright.run.step.labels import find_labels
from graphwright.run.step.origin import Origin

if TYPE_CHECKING:
    from graphwright.run.links.collectives import GroupLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The memory plan of one rank's program."""

    given: ProgramProblem
    plan: MemoryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProgram:
    """The program of this rank, and what it was made of."""

    world: World
    graph: Graph
    plan: Plan
    program: Program
    memory: RankMemory | None = None


Start = RankProgram | Callable[[Any], RankProgram]
"""What a step begins from: its program, or what makes it of the first batch."""


class Step:
    """One rank's training step; call it with a batch. `num_steps` counts the calls.

    Before it begins, it has an optimizer and nothing else.
    """

    world: World
    graph: Graph
    plan: Plan
    program: Program
    links: GroupLinks | None
    num_steps: int
    seed: int
    has_targets: bool
    _held: Held
    _origin: Origin
    _run: CudaGraphRunner | RankExecutor | fx.GraphModule
    memory: RankMemory | None
    _starts_from: str | None
    _num_calls: int

    def __init__(
        self,
        start: Start,
        model: nn.Module,
        loss_fn: Any,
        optimizer: torch.optim.Optimizer | None,
        seed: int,
        torch_compile: bool = False,
        check_first: Callable[[Any], None] | None = None,
    ) -> None:
        self.optimizer, self._check_first = optimizer, check_first
        self._model, self._loss_fn, self._first_seed = model, loss_fn, seed
        self._compiles = torch_compile
        self._start: Callable[[Any], RankProgram] | None = None
        if isinstance(start, RankProgram):
            self._begin(start)
        else:
            self._start = start

    def __call__(self, batch: Any) -> torch.Tensor:
        """Train on a batch, the whole or this rank's part of it, and return the loss."""
        if self._start is not None:
            self._begin(self._start(batch))
        self._held.check()
        self._origin.check()
        if self._check_first is not None:
            self._check_first(batch)
            self._check_first = None
        rates = self._rates()
        named = name_batch(batch, self.has_targets)
        check_arguments(batch, self.has_targets, self.graph)
        part = cut_batch(named, self.graph, self.program, self.world)
        if self.links is not None and is_check_due(self._num_calls):
            check = partial(self._check_labels, named)
            compare_given(named, self.graph, self.optimizer, self._starts_from, check)
            self._starts_from = None
        else:
            self._check_labels_alone(named)
        self._num_calls += 1
        held, fixed = self._held.take()
        given = {**part, **rates, **held}
        held.clear()  # nobody else may hold what is read last: it is free then
        seed = self.seed + 1_000_003 * self.num_steps
        try:
            with self._told_if_long(), self._told_if_lost():
                updates, results = run_module(self._run, given, seed)
        except BaseException:
            if self.links is not None:
                self.links.leave()
            raise
        self._held.put({**fixed, **updates})
        self.num_steps += 1
        if self.optimizer is not None:
            # what schedulers look at before they warn
            self.optimizer._opt_called = True  # type: ignore[attr-defined]
        return self._whole_loss(results)

    def _told_if_lost(self) -> AbstractContextManager[None]:
        return naming_lost_ranks(self.world.rank, f"in step {self.num_steps + 1}")

    def _check_labels(self, named: Mapping[str, torch.Tensor]) -> None:
        """Refuse indices out of range."""
        for label in self._labels:
            label.check(named, self.program, is_check_due(self._num_calls))

    def _check_labels_alone(self, named: Mapping[str, torch.Tensor]) -> None:
        """The same without a word to other ranks, which refuse alike if given the whole batch."""
        try:
            self._check_labels(named)
        except BatchMismatch:
            whole = (label.is_whole(named) for label in self._labels)
            if self.links is not None and not all(whole):
                self.links.leave()  # the others have begun, and fail without this rank
                self._held.take()
            raise

    def part_of(self, batch: Any) -> dict[str, torch.Tensor]:
        """This rank's part of a batch by the names of the graph's inputs; of it or of the whole."""
        given = name_batch(batch, self.has_targets)
        return cut_batch(given, self.graph, self.program, self.world)

    def _rates(self) -> dict[str, torch.Tensor]:
        if self.optimizer is None:
            return {}
        refuse_changes(self.optimizer, self._options)
        return find_rates(self.optimizer, self.program, self.world.device)

    def _whole_loss(self, results: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The loss; from a rank that has it where this one takes no part in it."""
        name = self.graph.outputs[0]
        type, home = self.graph.tensors[name].type, self.program.shardings[name]
        if len(home.mesh) == self.world.size or self.world.size == 1:
            return results[name]
        import torch.distributed as dist

        loss = results.get(name)
        if loss is None:
            loss = torch.empty(type.shape, dtype=getattr(torch, type.dtype))
        loss = loss.to(self.world.device)
        dist.broadcast(loss, home.mesh.devices[0])
        return loss

    def _told_if_long(self) -> AbstractContextManager[None]:
        """Around a call: the first one may compile, for all ranks alike."""
        if not self._compiles or self._num_calls > 1 or self.world.rank > 0:
            return nullcontext()
        num_operators = sum(isinstance(i, Call) for i in self.program.instructions)
        return notice_of_compiling(self.world.rank, num_operators)

    # What lives between steps.

    def shards(self) -> dict[str, Shard]:
        """What this rank holds of every parameter, buffer and optimizer state."""
        return self._held.shards()

    def state_dict(self) -> dict[str, Any]:
        """Parameters, buffers and optimizer state as DTensors, in one process as tensors.

        To be called on all ranks. Those on some of the ranks only are left out elsewhere.
        """
        return self._held.state_dict()

    def values(self) -> dict[str, torch.Tensor]:
        """Every parameter, buffer and optimizer state, whole; on every rank."""
        return self._held.values()

    def gather(self) -> nn.Module:
        """The model, whole and ordinary, with the values that it has now; on every rank."""
        return self._held.fill(self._model)

    def save(self, directory: str | os.PathLike[str], *, keep: int | None = None) -> Path:
        """Write a checkpoint, complete or not there at all.

        It loads under any other plan and number of ranks.
        """
        from graphwright.run.checkpoint import save

        extra = {"num_steps": self.num_steps, "seed": self.seed, "graph": self.graph.hash}
        return save(directory, self.num_steps, self.shards(), extra=extra, keep=keep)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a checkpoint, or the newest one in a folder, whatever plan wrote it."""
        from graphwright.run.checkpoint import load_step

        if self.links is not None and any(gather_results(lambda: self._held.is_lost)):
            self.links.renew()
        try:
            with self._held.filled():
                self.num_steps, self.seed = load_step(path, self.shards())
        except InvalidCheckpoint as error:
            if error.partly_loaded:
                self._held.take()
            raise
        self._starts_from, self._num_calls = None, 0

    def close(self) -> None:
        """Destroy the process groups of this step, on all ranks; it runs no more."""
        if self.links is not None:
            self.links.close()

    # The beginning.

    def _begin(self, ready: RankProgram) -> None:
        """Connect the ranks, build the program and make this rank's first values."""
        here, graph, program = ready.world, ready.graph, ready.program
        _check_programs_agree(here, program)
        links = _connect(here, program)
        self._starts_from = None if links is None else _digest(self._model)
        self.memory = ready.memory
        if ready.memory is None:
            self._build(ready, links)
        else:
            self._build_in_arena(ready, links)
        if here.device.type == "cpu":
            keep_freed_memory()  # not before: what making the parts took goes back to the system
        self._options = [] if self.optimizer is None else fixed_options(self.optimizer)
        self._labels = find_labels(graph)
        self._origin = Origin(self._model, self.optimizer)
        self.world, self.graph, self.plan, self.program = here, graph, ready.plan, program
        self.links, self.has_targets = links, self._loss_fn is not None
        self.seed, self.num_steps, self._num_calls = self._first_seed, 0, 0
        self._start = None

    def _build(self, ready: RankProgram, links: GroupLinks | None) -> None:
        """The program as one module, with this rank's first values on its device."""
        here = ready.world
        self.module = build_module(ready.program, links, here.device, self._compiles)
        if self._compiles:
            from graphwright.run.program.torch_compile import compile_segments

            self.module = compile_segments(self.module)
        parts = self._first_parts(ready, here.device)
        self._held = Held(here, ready.graph, ready.plan, ready.program, links, parts)
        records = links is None and may_use_cuda_graph(here.device)
        self._run = CudaGraphRunner(self.module, self._held.kept) if records else self.module

    def _build_in_arena(self, ready: RankProgram, links: GroupLinks | None) -> None:
        """The program piece by piece under its memory plan, with the first values on the host."""
        assert ready.memory is not None
        here, given, memory = ready.world, ready.memory.given, ready.memory.plan
        made: list[RankExecutor] = []

        def make() -> None:
            executor = RankExecutor(given, memory, links, here.device)
            executor.give(self._first_parts(ready, torch.device("cpu")))
            made.append(executor)

        gather_results(make)  # a host with too little memory stops all ranks
        self._run = made[0]
        self._held = HeldInArena(here, ready.graph, ready.plan, ready.program, links, made[0])

    def _first_parts(self, ready: RankProgram, device: torch.device) -> dict[str, torch.Tensor]:
        graph, homes = ready.graph, ready.program.homes
        wanted = {n: b for n, b in homes.items() if graph.tensors[n].role is not Role.INPUT}
        return initial_parts(
            graph, self._model, self._loss_fn, self.optimizer, wanted, device, self._first_seed
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or self.__dict__.get("_start") is None:
            raise AttributeError(f"a step has no {name}")
        raise StepNotBegun(
            f"the step has no {name} before its first batch; give gw.compile an example of the "
            "whole batch (batch=...) or the graph that was planned (graph=...)"
        )

    def __repr__(self) -> str:
        if self._start is not None:
            return "Step(not begun)"
        here = f"rank {self.world.rank} of {self.world.size}"
        return f"Step({here}, {self.num_steps} steps, {self.plan.algorithm})"


def _digest(model: nn.Module) -> str:
    return digest_tensors((*model.named_parameters(), *model.named_buffers()))


def _connect(here: World, program: Program) -> GroupLinks | None:
    if here.size == 1:
        return None
    from graphwright.run.links.collectives import GroupLinks

    return GroupLinks(program.groups)


def _check_programs_agree(here: World, program: Program) -> None:
    """Refuse to begin unless all ranks have the same graph, plan and order."""
    if here.size > 1 and len(set(gather_results(lambda: program.digest))) > 1:
        raise PlanMismatch(
            "the ranks do not agree on what to run: they have other plans, models or versions of "
            "PyTorch or Graphwright. A model that iterates over a Python set is captured in "
            "another order by every process: give all ranks one graph (graph=...), or set "
            "PYTHONHASHSEED"
        )
