"""A training step under a plan: exactly the step of one device, on all of them.

    step = gw.compile(plan, model, loss_fn, optimizer, batch=batch)     under torchrun, or inside gw.launch(n)(fn)
    loss = step(batch)

Every rank holds its parts of parameters and optimizer state, gives its part of the batch (or all of it) and gets the loss.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from graphwright.aten import (
    fixed_options,
    is_rate,
    learning_rates,
    named_tensors,
    rate_label,
    refuse_arrays,
    refuse_changes,
    split_batch,
)
from graphwright.errors import BatchMismatch, PlanMismatch, StepLost
from graphwright.ir import Graph, Role, TensorType
from graphwright.lower import lower_hop
from graphwright.plans import Call, Exchange, Plan, Program, replicated, whole_mesh
from graphwright.run.checkpoint import Shard
from graphwright.run.processes import (
    RATES,
    VALUES,
    World,
    check_alike,
    digest_of,
    is_due,
    telling_of_compiling,
)
from graphwright.run.program import (
    Recorded,
    build_module,
    cut,
    keep_freed_memory,
    may_record,
    run_module,
)
from graphwright.run.state import initial_parts
from graphwright.tasks import Hop

if TYPE_CHECKING:
    from graphwright.run.links.collectives import GroupLinks


def kept_inputs(graph: Graph) -> dict[str, TensorType]:
    """What lives between steps, and in a checkpoint: all inputs of a graph but data and learning rates."""
    found = {name: graph.tensors[name] for name in graph.inputs}
    return {
        name: tensor.type
        for name, tensor in found.items()
        if tensor.role is not Role.INPUT and not is_rate(name)
    }


class Step:
    """One rank's training step; call it with a batch. `num_steps` counts the calls."""

    def __init__(
        self,
        here: World,
        graph: Graph,
        plan: Plan,
        program: Program,
        model: nn.Module,
        loss_fn: Any,
        optimizer: torch.optim.Optimizer | None,
        seed: int,
        torch_compile: bool = False,
    ) -> None:
        self.world, self.graph, self.plan, self.program = here, graph, plan, program
        self.optimizer, self.seed = optimizer, seed
        self.num_steps, self._num_calls, self._lost = 0, 0, False
        self._options = [] if optimizer is None else fixed_options(optimizer)
        self._model, self.has_targets = model, loss_fn is not None
        self._kept = kept_inputs(self.graph)
        self._agree()
        self.links = self._links()
        self._starts_from: str | None = None
        if self.links is not None:
            self._starts_from = digest_of((*model.named_parameters(), *model.named_buffers()))
        self.module = build_module(self.program, self.links, here.device)
        self._compiles = torch_compile
        if torch_compile:
            from graphwright.run.program.torch_compile import compile_segments

            self.module = compile_segments(self.module)
        records = self.links is None and may_record(here.device)
        self._run = Recorded(self.module, self._kept) if records else self.module
        kept = {
            name: box
            for name, box in self.program.homes.items()
            if self.graph.tensors[name].role is not Role.INPUT
        }
        self._held = initial_parts(self.graph, model, loss_fn, optimizer, kept, here.device, seed)
        if here.device.type == "cpu":
            keep_freed_memory()  # not before: what making the parts took goes back to the system

    def __call__(self, batch: Any) -> torch.Tensor:
        """Train on a batch, the whole or this rank's part of it, and return the loss."""
        if self._lost:
            raise StepLost(
                "an earlier step failed halfway, so the parameters are gone; load a checkpoint with step.load"
            )
        rates = self._rates()
        part = self.part_of(batch)
        if self.links is not None and is_due(self._num_calls):
            self._compare(batch)
        self._num_calls += 1
        given = {**part, **rates, **self._held}
        fixed = {n: v for n, v in self._held.items() if n not in self.program.updates}
        self._held, self._lost = {}, True  # nobody else may hold what is read last: it is free then
        seed = self.seed + 1_000_003 * self.num_steps
        try:
            with self._told_if_long():
                updates, results = run_module(self._run, given, seed)
        except BaseException:
            if self.links is not None:
                self.links.leave()
            raise
        self._held, self._lost = {**fixed, **updates}, False
        self.num_steps += 1
        if self.optimizer is not None:
            self.optimizer._opt_called = True  # type: ignore[attr-defined]  # what schedulers look at before they warn
        return self._whole_loss(results)

    def _told_if_long(self) -> AbstractContextManager[None]:
        """Around a call: the first one may compile, for all ranks alike."""
        if not self._compiles or self._num_calls > 1 or self.world.rank > 0:
            return nullcontext()
        num_operators = sum(isinstance(i, Call) for i in self.program.instructions)
        return telling_of_compiling(self.world.rank, num_operators)

    # -- what goes in and out ---------------------------------------------------------------------

    def _named(self, batch: Any) -> dict[str, torch.Tensor]:
        inputs, targets = split_batch(batch, has_targets=self.has_targets)
        refuse_arrays("inputs", inputs)
        refuse_arrays("targets", targets)
        return {**dict(named_tensors("inputs", inputs)), **dict(named_tensors("targets", targets))}

    def _compare(self, batch: Any) -> None:
        """Refuse to go on where the ranks were given different things."""
        words: dict[str, object] = {VALUES: self._starts_from}
        if self.optimizer is not None:  # all rates, also those that this rank has no part of
            words[RATES] = {n: float(rate) for n, rate in learning_rates(self.optimizer).items()}
        for name, value in self._named(batch).items():
            known = self.graph.tensors.get(name)
            if known is not None:
                is_whole = tuple(value.shape) == known.type.shape
                words[name] = digest_of([(name, value)]) if is_whole else None
        check_alike(words)
        self._starts_from = None

    def part_of(self, batch: Any) -> dict[str, torch.Tensor]:
        """This rank's part of a batch, the whole or that part itself, by the names of the graph's inputs."""
        given = self._named(batch)
        found: dict[str, torch.Tensor] = {}
        names = [n for n in self.graph.inputs if self.graph.tensors[n].role is Role.INPUT]
        if more := given.keys() - set(names):
            raise BatchMismatch(
                f"the batch has {', '.join(sorted(more))}, which the one that was captured had not; that had {', '.join(names)}"
            )
        for name in names:
            type, box = self.graph.tensors[name].type, self.program.homes.get(name)
            if name not in given:
                raise BatchMismatch(f"the batch has no {name} ({type}); it has {', '.join(given)}")
            value = given[name].detach()
            if str(value.dtype).removeprefix("torch.") != type.dtype:
                raise BatchMismatch(f"{name} is {value.dtype}, the plan is for {type}")
            if box is None:
                continue
            local = tuple(stop - start for start, stop in box)
            if tuple(value.shape) == type.shape:
                value = cut(value, box)
            elif tuple(value.shape) != local:
                raise BatchMismatch(
                    f"{name} has shape {list(value.shape)}; give the whole batch, {list(type.shape)}, or the part of rank {self.world.rank}, "
                    f"{list(local)}: {_show(box)}"
                )
            found[name] = value.to(self.world.device)
        return found

    def _rates(self) -> dict[str, torch.Tensor]:
        if self.optimizer is None:
            return {}
        refuse_changes(self.optimizer, self._options)
        rates = {rate_label(n): rate for n, rate in learning_rates(self.optimizer).items()}
        found = {n: r for n, r in rates.items() if n in self.program.inputs}
        if self.world.device.type == "cpu":
            return {n: r.cpu() for n, r in found.items()}
        # Memory that is not pinned has been read when a copy returns: the GPU need not have come so far.
        return {
            n: r.to(self.world.device, non_blocking=r.device.type == "cpu" and not r.is_pinned())
            for n, r in found.items()
        }

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

    # -- what lives between steps -----------------------------------------------------------------

    def shards(self) -> dict[str, Shard]:
        """What this rank holds of every parameter, buffer and optimizer state."""
        found = {}
        for name in self._kept:
            tensor, home = self.graph.tensors[name], self.program.shardings[name]
            empty = torch.empty(0, dtype=getattr(torch, tensor.type.dtype))
            local = self._held.get(name, empty)
            found[name] = Shard(name=name, type=tensor.type, sharding=home, local=local)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Parameters, buffers and optimizer state as DTensors, in one process as tensors; on all ranks. Those on some of the ranks only are left out elsewhere."""
        if self.world.backend is None:  # no process group, which DTensors belong to
            return {name: shard.local for name, shard in self.shards().items()}
        from torch.distributed.device_mesh import init_device_mesh

        from graphwright.run.checkpoint.dtensors import to_dtensor

        mesh = whole_mesh(self.plan.cluster)
        device_mesh = init_device_mesh(self.world.device.type, mesh.shape or (1,))
        return {
            name: to_dtensor(shard, device_mesh) if shard.sharding.mesh == mesh else shard.local
            for name, shard in self.shards().items()
        }

    def save(self, directory: str | os.PathLike[str], *, keep: int | None = None) -> Path:
        """Write a checkpoint that loads under any other plan and number of ranks; complete or not there at all."""
        from graphwright.run.checkpoint import save

        extra = {"num_steps": self.num_steps, "seed": self.seed, "graph": self.graph.hash}
        return save(directory, self.num_steps, self.shards(), extra=extra, keep=keep)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a checkpoint, or the newest one in a folder, whatever plan wrote it."""
        from graphwright.run.checkpoint import load
        from graphwright.run.processes import together

        if self.links is not None and any(together(lambda: self._lost)):
            self.links.renew()
        if self._lost:
            self._held = {
                name: torch.empty(
                    [stop - start for start, stop in box],
                    dtype=getattr(torch, self.graph.tensors[name].type.dtype),
                    device=self.world.device,
                )
                for name, box in self.program.homes.items()
                if name in self._kept
            }
        extra = load(path, self.shards())
        self._lost, self._starts_from, self._num_calls = False, None, 0
        self.num_steps, self.seed = int(extra["num_steps"]), int(extra["seed"])

    def values(self) -> dict[str, torch.Tensor]:
        """Every parameter, buffer and optimizer state, whole; on every rank."""
        return {name: self._gathered(shard) for name, shard in self.shards().items()}

    def gather(self) -> nn.Module:
        """The model, whole and ordinary, with the values that it has now; on every rank."""
        whole = {
            name: self._gathered(shard)
            for name, shard in self.shards().items()
            if self.graph.tensors[name].role in (Role.PARAMETER, Role.BUFFER)
        }
        model = self._model
        if any(p.is_meta for p in model.parameters()):
            model = model.to_empty(device=self.world.device)
        with torch.no_grad():
            for name, tensor in (*model.named_parameters(), *model.named_buffers()):
                if name in whole:
                    tensor.copy_(whole[name])
        return model

    def _gathered(self, shard: Shard) -> torch.Tensor:
        """All of a tensor, from whoever has its parts."""
        everywhere = replicated(whole_mesh(self.plan.cluster))
        if shard.sharding == everywhere or self.links is None:
            return shard.local
        here, hop = self.world.rank, Hop("exchange", shard.sharding, everywhere, 0, 0)
        has = here in shard.sharding.mesh.devices
        what = lower_hop(
            hop, shard.name, shard.type, self.plan.cluster, here, 0 if has else None, 1, tag=0
        )
        assert isinstance(what, Exchange)
        return self.links.exchange(what, shard.local if has else None).wait()

    def close(self) -> None:
        """Destroy the process groups that were made for this step; on all ranks, and the step runs no more."""
        if self.links is not None:
            self.links.close()

    # -- the beginning ----------------------------------------------------------------------------

    def _links(self) -> GroupLinks | None:
        if self.world.size == 1:
            return None
        from graphwright.run.links.collectives import GroupLinks

        return GroupLinks(self.program.groups)

    def _agree(self) -> None:
        """Refuse to begin unless all ranks have the same graph, plan and order."""
        if self.world.size == 1:
            return
        from graphwright.run.processes import together

        if len(set(together(lambda: self.program.digest))) > 1:
            raise PlanMismatch(
                "the ranks do not agree on what to run: they have other plans, models or versions of PyTorch or Graphwright"
            )

    def __repr__(self) -> str:
        return f"Step(rank {self.world.rank} of {self.world.size}, {self.num_steps} steps, {self.plan.algorithm})"


def _show(box: Any) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
