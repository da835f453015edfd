"""Graphs whose nodes are labelled by their role in a pattern (Ying et al. 2019, GNNExplainer).

A base graph has small motifs hung on it, each by one edge, and some random edges; nodes are
numbered in a random order.

    BAShapeDataset     Barabasi-Albert base, houses: base 0, middle 1, bottom 2, top 3
    TreeCycleDataset   balanced binary tree, cycles: tree 0, cycle 1
    TreeGridDataset    balanced binary tree, grids: tree 0, grid 1
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphwright.gnn.data.dataset import DGLDataset
from graphwright.gnn.data.synthetic import barabasi_albert
from graphwright.gnn.graph import DGLGraph, graph
from graphwright.gnn.transforms import reorder_graph, to_bidirected

_HOUSE = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)), (1, 1, 2, 2, 3)


class _Motifs(DGLDataset):
    """One graph; `num_classes` is the number of roles."""

    num_classes = 2

    def __init__(
        self, name: str, motifs: int, ratio: float, seed: int | None, options: dict[str, Any]
    ) -> None:
        self.num_motifs, self.perturb_ratio, self.seed = motifs, ratio, seed
        super().__init__(name, hash_key=(motifs, ratio, seed), **options)

    def base(self, seed: int) -> tuple[Any, int]:
        """The edges of the base graph, and the number of its nodes."""
        raise NotImplementedError

    def motif(self) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
        """The edges of a motif, and the roles of its nodes."""
        raise NotImplementedError

    def process(self) -> None:
        """Hang the motifs on the base graph."""
        rng = np.random.default_rng(self.seed)
        edges, count = self.base(int(rng.integers(2**31)))
        pattern, roles = self.motif()
        parts, labels = [edges], [np.zeros(count, np.int64)]
        hooks = rng.choice(count, self.num_motifs, replace=self.num_motifs > count)
        start = count
        for hook in hooks:
            parts.append(np.array(pattern) + start)
            parts.append(np.array([[start, hook]]))
            labels.append(np.array(roles))
            start += len(roles)
        extra = int(sum(map(len, parts)) * self.perturb_ratio)
        parts.append(rng.integers(0, start, (extra, 2)))
        ends = torch.from_numpy(np.concatenate(parts))
        made = to_bidirected(graph((ends[:, 0].clone(), ends[:, 1].clone()), num_nodes=start))
        made.ndata["label"] = torch.from_numpy(np.concatenate(labels))
        made.ndata["feat"] = torch.ones(start, 1)
        order = {"nodes_perm": torch.from_numpy(rng.permutation(start))}
        self._graph = reorder_graph(made, "custom", "src", store_ids=False, permute_config=order)

    @property
    def graph(self) -> DGLGraph:
        """The graph as it was made."""
        return self._graph

    def __getitem__(self, idx: int) -> DGLGraph:
        if idx != 0:
            raise IndexError("This dataset has only one graph.")
        given: DGLGraph = self._given(self._graph)
        return given

    def __len__(self) -> int:
        return 1


class BAShapeDataset(_Motifs):
    """Houses on a graph of preferential attachment."""

    num_classes = 4

    def __init__(
        self,
        num_base_nodes: int = 300,
        num_base_edges_per_node: int = 5,
        num_motifs: int = 80,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.num_base_nodes, self.edges_per_node = num_base_nodes, num_base_edges_per_node
        super().__init__("BA-SHAPE", num_motifs, perturb_ratio, seed, options)

    def base(self, seed: int) -> tuple[Any, int]:
        """A graph of preferential attachment."""
        made = barabasi_albert(self.num_base_nodes, self.edges_per_node, seed=seed)
        return torch.stack(made.edges(), 1).numpy(), self.num_base_nodes

    def motif(self) -> Any:
        """A house."""
        return _HOUSE


class _OnTree(_Motifs):
    def __init__(
        self, name: str, height: int, motifs: int, size: int, ratio: float, seed: int | None,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.tree_height, self.motif_size = height, size
        super().__init__(name, motifs, ratio, seed, options)

    def base(self, seed: int) -> tuple[Any, int]:
        """A balanced binary tree."""
        count = 2 ** (self.tree_height + 1) - 1
        children = np.arange(1, count)
        return np.stack([(children - 1) // 2, children], 1), count


class TreeCycleDataset(_OnTree):
    """Cycles on a balanced binary tree."""

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 60,
        cycle_size: int = 6,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            "Tree-Cycle", tree_height, num_motifs, cycle_size, perturb_ratio, seed, options
        )

    def motif(self) -> Any:
        """A cycle."""
        size = self.motif_size
        return tuple((at, (at + 1) % size) for at in range(size)), (1,) * size


class TreeGridDataset(_OnTree):
    """Square grids on a balanced binary tree."""

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 80,
        grid_size: int = 3,
        perturb_ratio: float = 0.1,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            "Tree-Grid", tree_height, num_motifs, grid_size, perturb_ratio, seed, options
        )

    def motif(self) -> Any:
        """A grid."""
        size = self.motif_size
        number = np.arange(size * size).reshape(size, size)
        across = zip(number[:, :-1].ravel().tolist(), number[:, 1:].ravel().tolist(), strict=True)
        down = zip(number[:-1].ravel().tolist(), number[1:].ravel().tolist(), strict=True)
        return (*across, *down), (1,) * size**2
