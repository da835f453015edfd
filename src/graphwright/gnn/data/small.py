"""Small datasets that need no file: Zachary's karate club, and graphs of eight kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphwright.gnn.data.dataset import DGLDataset
from graphwright.gnn.graph import DGLGraph, graph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import add_self_loop, to_bidirected

# Zachary (1977), Figure 1: members who met outside the club, each pair once.
_MET = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31), 1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32), 3: (7, 12, 13), 4: (6, 10), 5: (6, 10, 16), 6: (16,),
    8: (30, 32, 33), 9: (33,), 13: (33,), 14: (32, 33), 15: (32, 33), 18: (32, 33), 19: (33,),
    20: (32, 33), 22: (32, 33), 23: (25, 27, 29, 32, 33), 24: (25, 27, 31), 25: (31,),
    26: (29, 33), 27: (33,), 28: (31, 33), 29: (32, 33), 30: (32, 33), 31: (32, 33), 32: (33,),
}  # fmt: skip
_WITH_THE_OFFICER = (9, 14, 15, 18, 20, *range(22, 34))


class KarateClubDataset(DGLDataset):
    """34 members of a club that split in two; `label` is the side each took."""

    num_classes = 2

    def __init__(self, transform: Any = None) -> None:
        super().__init__("karate_club", transform=transform)

    def process(self) -> None:
        """Make the graph, with edges both ways."""
        src = [one for one, others in _MET.items() for _ in others]
        dst = [other for others in _MET.values() for other in others]
        self._graph = to_bidirected(graph((src, dst), num_nodes=34))
        label = torch.zeros(34, dtype=torch.long)
        label[list(_WITH_THE_OFFICER)] = 1
        self._graph.ndata["label"] = label

    def __getitem__(self, idx: int) -> DGLGraph:
        if idx != 0:
            raise IndexError("This dataset has only one graph.")
        given: DGLGraph = self._given(self._graph)
        return given

    def __len__(self) -> int:
        return 1


class MiniGCDataset(DGLDataset):
    """Cycles, stars, wheels, lollipops, hypercubes, grids, cliques and circular ladders: 0 to 7.

    An item is a graph, with edges both ways and a loop at each node, and its class. Sizes are from
    `min_num_v` to `max_num_v`; hypercubes, grids and ladders take the nearest below.
    """

    num_classes = 8

    def __init__(
        self,
        num_graphs: int,
        min_num_v: int,
        max_num_v: int,
        seed: int = 0,
        transform: Any = None,
        **options: Any,
    ) -> None:
        if not 4 <= min_num_v <= max_num_v:
            raise DGLError(
                f"sizes have to be at least 4 and in order. Got {min_num_v} to {max_num_v}."
            )
        self.num_graphs, self.min_num_v, self.max_num_v = num_graphs, min_num_v, max_num_v
        self.seed = seed
        options.pop("save_graph", None)
        hash_key = (num_graphs, min_num_v, max_num_v, seed)
        super().__init__("minigc", hash_key=hash_key, transform=transform, **options)

    def process(self) -> None:
        """Make all graphs; the classes are as equal in number as they can be."""
        rng = np.random.default_rng(self.seed)
        self.labels = torch.arange(self.num_graphs) * 8 // max(self.num_graphs, 1)
        self.graphs = []
        for kind in self.labels.tolist():
            size = int(rng.integers(self.min_num_v, self.max_num_v + 1))
            edges = np.array(list(_KINDS[kind](size)), np.int64)
            ends = torch.from_numpy(edges)
            made = graph((ends[:, 0].clone(), ends[:, 1].clone()))
            self.graphs.append(add_self_loop(to_bidirected(made)))

    def __getitem__(self, idx: int) -> tuple[DGLGraph, torch.Tensor]:
        return self._given(self.graphs[idx]), self.labels[idx]

    def __len__(self) -> int:
        return len(self.graphs)


def _cycle(n: int) -> Any:
    return [(at, (at + 1) % n) for at in range(n)]


def _star(n: int) -> Any:
    return [(0, leaf) for leaf in range(1, n)]


def _wheel(n: int) -> Any:
    return [*_star(n), *((1 + a, 1 + b) for a, b in _cycle(n - 1))]


def _clique(n: int) -> Any:
    return [(a, b) for a in range(n) for b in range(a)]


def _lollipop(n: int) -> Any:
    """A clique of half the nodes, and a path of the others."""
    return [*_clique(n // 2), *((at - 1, at) for at in range(n // 2, n))]


def _hypercube(n: int) -> Any:
    dims = n.bit_length() - 1
    return [(a, a ^ 1 << bit) for a in range(1 << dims) for bit in range(dims)]


def _grid(n: int) -> Any:
    side = int(n**0.5)
    rows = n // side
    across = [(r * side + c, r * side + c + 1) for r in range(rows) for c in range(side - 1)]
    return [*across, *((at, at + side) for at in range((rows - 1) * side))]


def _ladder(n: int) -> Any:
    half = n // 2
    rings = [(a + at, b + at) for at in (0, half) for a, b in _cycle(half)]
    return [*rings, *((at, at + half) for at in range(half))]


_KINDS = (_cycle, _star, _wheel, _lollipop, _hypercube, _grid, _clique, _ladder)
