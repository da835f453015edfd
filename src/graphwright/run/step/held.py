"""What lives between steps: each rank's parts of parameters, buffers and optimizer state.

While a step runs, nobody else may hold these parts, so that memory is free once they were read
last. A step that fails halfway has lost them; a checkpoint brings them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from graphwright.aten import as_pairs, is_rate
from graphwright.errors import StepLost
from graphwright.ir import Graph, Role, TensorType
from graphwright.lower import lower_hop
from graphwright.plans import Exchange, Plan, Program, replicated, transfers, whole_mesh
from graphwright.run.checkpoint import Shard
from graphwright.run.processes import World
from graphwright.run.program import RankExecutor
from graphwright.tasks import Hop

if TYPE_CHECKING:
    from graphwright.run.links.collectives import GroupLinks


def kept_inputs(graph: Graph) -> dict[str, TensorType]:
    """What lives between steps, and in a checkpoint: all inputs but data and learning rates."""
    inputs = {name: graph.tensors[name] for name in graph.inputs}
    return {
        name: tensor.type
        for name, tensor in inputs.items()
        if tensor.role is not Role.INPUT and not is_rate(name)
    }


class Held:
    """The parts that a rank holds, by the names of the graph's inputs; None while they are lost."""

    def __init__(
        self,
        here: World,
        graph: Graph,
        plan: Plan,
        program: Program,
        links: GroupLinks | None,
        parts: dict[str, torch.Tensor],
    ) -> None:
        self.world, self.graph, self.plan, self.program = here, graph, plan, program
        self.links = links
        self.kept = kept_inputs(graph)
        self._parts: dict[str, torch.Tensor] | None = parts

    @property
    def is_lost(self) -> bool:
        """Whether a step failed halfway."""
        return self._parts is None

    def check(self) -> None:
        """Raise if there is nothing to go on from."""
        if self.is_lost:
            raise StepLost(
                "an earlier step or load failed halfway, so the parameters are gone; load a "
                "checkpoint with step.load"
            )

    def take(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Give up all parts for a step; and those of them that it does not replace."""
        assert self._parts is not None
        parts, self._parts = self._parts, None
        return parts, {n: v for n, v in parts.items() if n not in self.program.updates}

    def put(self, parts: dict[str, torch.Tensor]) -> None:
        """Hold the parts that a step has left."""
        self._parts = parts

    def allocate(self) -> None:
        """Make room for the parts of a checkpoint, where they are lost."""
        if self.is_lost:
            self._parts = {
                name: torch.empty(
                    [stop - start for start, stop in box],
                    dtype=getattr(torch, self.graph.tensors[name].type.dtype),
                    device=self.world.device,
                )
                for name, box in self.program.homes.items()
                if name in self.kept
            }

    @contextmanager
    def filled(self) -> Iterator[None]:
        """While a checkpoint is read into the parts; the next step begins with these."""
        self.allocate()
        yield

    def parts(self) -> Mapping[str, torch.Tensor]:
        """What this rank holds, by name; nothing while it is lost."""
        return self._parts or {}

    def shards(self) -> dict[str, Shard]:
        """What this rank holds of every parameter, buffer and optimizer state."""
        parts = self.parts()
        shards = {}
        for name, type in self.kept.items():
            empty = torch.empty(0, dtype=getattr(torch, type.dtype))
            home, local = self.program.shardings[name], parts.get(name, empty)
            shards[name] = Shard(name=name, type=type, sharding=home, local=local)
        return shards

    def state_dict(self) -> dict[str, Any]:
        """The parts as DTensors, in one process as tensors."""
        if self.world.backend is None:  # no process group, which DTensors belong to
            return {name: self._gather(shard) for name, shard in self.shards().items()}
        from torch.distributed.device_mesh import init_device_mesh

        from graphwright.run.checkpoint.dtensors import to_dtensor

        mesh = whole_mesh(self.plan.cluster)
        device_mesh = init_device_mesh(self.world.device.type, mesh.shape or (1,))
        return {
            name: to_dtensor(shard, device_mesh) if shard.sharding.mesh == mesh else shard.local
            for name, held in self.shards().items()
            for shard in (replace(held, local=self._own(held)),)
        }

    def values(self, *roles: Role) -> dict[str, torch.Tensor]:
        """All that is held of these roles, or of any, whole; on every rank."""
        return {
            name: self._gather(shard)
            for name, shard in self.shards().items()
            if not roles or self.graph.tensors[name].role in roles
        }

    def fill(self, model: nn.Module) -> nn.Module:
        """The model with the values that it has now; on every rank."""
        whole: Mapping[str, torch.Tensor] = self.values(Role.PARAMETER, Role.BUFFER)
        if any(p.is_meta for p in model.parameters()):
            model = model.to_empty(device=self.world.device)
        with torch.no_grad():
            for name, tensor in (*model.named_parameters(), *model.named_buffers()):
                if name in whole:
                    as_pairs(tensor).copy_(whole[name])
        return model

    def _own(self, shard: Shard) -> torch.Tensor:
        """A part for whoever asks for it."""
        return shard.local

    def _gather(self, shard: Shard) -> torch.Tensor:
        """All of a tensor, from whoever has its parts."""
        everywhere = replicated(whole_mesh(self.plan.cluster))
        if shard.sharding == everywhere or self.links is None:
            return self._own(shard)
        here, hop = self.world.rank, Hop(transfers.Exchange(), shard.sharding, everywhere)
        has = here in shard.sharding.mesh.devices
        exchange = lower_hop(
            hop, shard.name, shard.type, self.plan.cluster, here, 0 if has else None, 1, tag=0
        )
        assert isinstance(exchange, Exchange)
        return self.links.exchange(exchange, self._own(shard) if has else None).wait()


class HeldInArena(Held):
    """The parts of a step with a memory plan: in its arena, or waiting in host memory.

    What is read from a checkpoint waits beside them, until all of it is there.
    """

    def __init__(
        self,
        here: World,
        graph: Graph,
        plan: Plan,
        program: Program,
        links: GroupLinks | None,
        executor: RankExecutor,
    ) -> None:
        super().__init__(here, graph, plan, program, links, {})
        self.executor = executor
        self._read: dict[str, torch.Tensor] | None = None

    def take(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        self._parts = None
        return {}, {}

    def put(self, parts: dict[str, torch.Tensor]) -> None:
        self._parts = {}

    def allocate(self) -> None:
        names = (name for name in self.program.homes if name in self.kept)
        self._read = {name: self.executor.room_for(name) for name in names}

    @contextmanager
    def filled(self) -> Iterator[None]:
        self.allocate()
        assert self._read is not None
        try:
            yield
            self.executor.restart(self._read)
            self._parts = {}
        finally:
            self._read = None

    def parts(self) -> Mapping[str, torch.Tensor]:
        if self._read is not None:
            return self._read
        if self.is_lost:
            return {}
        names = (name for name in self.program.homes if name in self.kept)
        return {name: self.executor.take(name) for name in names}

    def _own(self, shard: Shard) -> torch.Tensor:
        return shard.local.to(self.world.device, copy=True)

    def _gather(self, shard: Shard) -> torch.Tensor:
        if self.links is None:
            return shard.local.to("cpu", copy=True)
        return super()._gather(shard).cpu()  # all of them together may not fit on the device
