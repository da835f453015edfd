"""Mini-batches of sampled neighbourhoods, the alternative to whole-graph epochs (GraphSAGE).

    seeds       some of the training vertices, divided between the workers
    subgraph    at most fanouts[-1] edges into each seed, fanouts[-2] into each vertex that these
                lead from, and so on; a vertex is drawn for once, where it first appears

The model sees a subgraph as it would see a graph, and the loss is that of the seeds, whose rows
come first. Gradients are summed over workers after each mini-batch, so that an epoch has as many
updates as mini-batches. Every worker samples from the whole graph, of which it maps the files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphwright.gnn.dataloading import NeighborSampler
from graphwright.gnn.distributed.training.store import GraphStore
from graphwright.gnn.distributed.training.trainer import InvalidTraining, Problem, Trainer
from graphwright.gnn.graph import EID, NID, DGLGraph, graph
from graphwright.gnn.sampling import seed as seed_sampling
from graphwright.run import RowLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How many edges into each vertex are drawn for each layer, and the seeds of a mini-batch."""

    fanouts: tuple[int, ...]
    batch_size: int = 512

    def __post_init__(self) -> None:
        if not self.fanouts or min(self.fanouts) < -1 or 0 in self.fanouts or self.batch_size < 1:
            raise InvalidTraining(
                f"fanouts={self.fanouts}, batch_size={self.batch_size}; give a fan-out from 1 "
                "upwards for each layer (-1: all edges), and at least one seed"
            )


class SampledTrainer(Trainer):
    """A trainer whose epoch is a pass over mini-batches; it evaluates on its part of the graph."""

    def __init__(
        self, model: nn.Module, links: RowLinks, problem: Problem, store: GraphStore,
        sampling: Sampling, seed: int, behind: int = 0,
    ) -> None:  # fmt: skip
        """`behind` epochs were trained before, of which this is the continuation."""
        super().__init__(model, links, problem)
        self.store, self.sampling, self.whole = store, sampling, store.structure()
        self.sampler = NeighborSampler(list(sampling.fanouts))
        self.order = torch.Generator().manual_seed(seed)  # the same on all workers
        seed_sampling((behind * 1_000_003 + seed) * links.size + links.rank)
        name = problem.masks.get("train")
        count = store.num_nodes
        rows = torch.ones(count, dtype=torch.bool) if name is None else store.node[name].bool()
        self.learned = rows.nonzero().reshape(-1)
        for _ in range(behind):
            self._shuffled()

    def _shuffled(self) -> Tensor:
        """The training vertices in the order of the next epoch."""
        return self.learned[torch.randperm(len(self.learned), generator=self.order)]

    def step(self) -> float:
        """One epoch: the mean loss of its mini-batches' seeds, before each update."""
        assert self.part is not None
        self.check()
        self.model.train()
        halo, clock = self.part.halo, self.clock
        halo.start()
        shuffled = self._shuffled()
        total = 0.0
        for seeds in shuffled.split(self.sampling.batch_size):
            halo.tokens.clear()
            loss = self._loss_of(seeds.tensor_split(self.links.size)[self.links.rank]) / len(seeds)
            self.update(halo.anchored(loss))
            total += float(self.links.sum([loss.detach().double()])[0]) * len(seeds)
            clock.go_on()
        return total / len(shuffled)

    def _loss_of(self, seeds: Tensor) -> Tensor:
        """The sum of the seeds' losses."""
        batch = self.subgraph(seeds)
        outputs = self.model(batch, batch.ndata[self.problem.features])
        labels = self.store.node[str(self.problem.labels)][seeds].to(outputs.device)
        return self.losses(outputs[: len(seeds)], labels).sum()

    def subgraph(self, seeds: Tensor) -> DGLGraph:
        """The sampled neighbourhood of some vertices, which come first, with its features."""
        nodes, _, blocks = self.sampler.sample_blocks(self.whole, seeds.to(self.whole.idtype))
        ends: list[tuple[Tensor, Tensor, Tensor]] = []
        known = 0  # vertices whose edges were drawn
        for block in reversed(blocks):
            src, dst = block.relation().coo
            fresh = dst >= known
            ends.append((src[fresh], dst[fresh], block.edata[EID][fresh]))
            known = block.num_dst_nodes()
        src, dst, edges = (torch.cat(parts) for parts in zip(*ends, strict=True))
        assert self.part is not None
        device = self.part.device
        made = graph((src, dst), num_nodes=len(nodes)).to(device)
        made.num_expanded = known
        made.ndata[NID], made.edata[EID] = nodes.to(device), edges.to(device)
        made.ndata[self.problem.features] = self._rows_of(self.problem.features, nodes)
        for name, values in self.store.edge.items():
            made.edata[name] = values[edges.long()].to(device)
        return made

    def _rows_of(self, name: str, nodes: Tensor) -> Tensor:
        assert self.part is not None
        return self.store.node[name][nodes.long()].to(self.part.device)
