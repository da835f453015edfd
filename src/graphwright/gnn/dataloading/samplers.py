"""Blocks for a mini-batch: the edges that each layer needs to compute some nodes.

seeds       the nodes to compute                    blocks[-1].dstdata[dgl.NID]
blocks[-1]  sampled edges into the seeds            its sources are the nodes of the layer before
blocks[0]   sampled edges into those of blocks[1]   blocks[0].srcdata[dgl.NID] are the inputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.gnn.graph import EID, NID, DGLGraph
from graphwright.gnn.sampling import sample_neighbors
from graphwright.gnn.storage import DGLError, Frame, Side
from graphwright.gnn.transforms import to_block


class Sampler:
    """What a sampler of your own derives from: define `sample(self, g, indices)`.

    A `DataLoader` calls it with the whole graph and the indices of a mini-batch, and yields what it
    returns.
    """

    def sample(self, g: DGLGraph, indices: Any) -> Any:
        """The mini-batch of some indices."""
        raise NotImplementedError(f"{type(self).__name__} has to define sample(self, g, indices)")


class BlockSampler(Sampler):
    """What a sampler of blocks derives from: define `sample_blocks(self, g, seed_nodes, ...)`.

    A mini-batch is (input nodes, output nodes, blocks). Features named here are read where the
    mini-batch is made, in a worker process if there are any; others are read when they are used.
    """

    def __init__(
        self,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
    ) -> None:
        self.prefetch_node_feats = prefetch_node_feats or []
        self.prefetch_labels = prefetch_labels or []
        self.prefetch_edge_feats = prefetch_edge_feats or []
        self.output_device = output_device

    def sample_blocks(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Input nodes, output nodes and blocks for some seeds, without some edges."""
        raise NotImplementedError(f"{type(self).__name__} has to define sample_blocks")

    def assign_lazy_features(self, result: Any) -> Any:
        """Read the features of a mini-batch that the sampler was told to."""
        blocks = result[2]
        set_src_lazy_features(blocks[0], self.prefetch_node_feats)
        set_dst_lazy_features(blocks[-1], self.prefetch_labels)
        for block in blocks:
            set_edge_lazy_features(block, self.prefetch_edge_feats)
        return result

    def sample(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """The mini-batch of some seeds."""
        return self.assign_lazy_features(self.sample_blocks(g, seed_nodes, exclude_eids))


class NeighborSampler(BlockSampler):
    """At most `fanouts[i]` edges into each node in layer i; a dictionary gives it by edge type.

    `prob` and `mask` name edge features: weights to draw by, or which edges may be drawn.
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        fused: bool = True,
    ) -> None:
        super().__init__(prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device)
        if prob is not None and mask is not None:
            raise DGLError(
                "Mask and probability arguments are mutually exclusive. Consider multiplying the "
                "probability with the mask to achieve the same goal."
            )
        self.fanouts, self.edge_dir, self.replace = list(fanouts), edge_dir, replace
        self.prob = prob if prob is not None else mask

    def sample_blocks(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Input nodes, output nodes and a block for each layer."""
        inputs, blocks = seed_nodes, list[Any]()
        for fanout in reversed(self.fanouts):
            frontier = sample_neighbors(
                g,
                inputs,
                fanout,
                self.edge_dir,
                self.prob,
                self.replace,
                exclude_edges=exclude_eids,
            )
            block = to_block(frontier, inputs)
            for etype in g.canonical_etypes:
                block.edge_frame(etype)[EID] = frontier.edge_frame(etype)[EID]
            inputs = block.srcdata[NID]
            blocks.insert(0, block)
        if self.output_device is not None:
            blocks = [block.to(self.output_device) for block in blocks]
        return inputs, seed_nodes, blocks


MultiLayerNeighborSampler = NeighborSampler


class MultiLayerFullNeighborSampler(NeighborSampler):
    """All edges into each node, for a number of layers."""

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * num_layers, **kwargs)


def set_src_lazy_features(g: DGLGraph, feature_names: Any) -> None:
    """Read features of a block's sources now: names, or names by node type."""
    _read_nodes(g, feature_names, "src")


def set_dst_lazy_features(g: DGLGraph, feature_names: Any) -> None:
    """Read features of a block's destinations now: names, or names by node type."""
    _read_nodes(g, feature_names, "dst")


def set_node_lazy_features(g: DGLGraph, feature_names: Any) -> None:
    """Read node features now: names, or names by node type."""
    _read_nodes(g, feature_names, "any")


def set_edge_lazy_features(g: DGLGraph, feature_names: Any) -> None:
    """Read edge features now: names, or names by edge type."""
    _read(
        {g.meta.etypes[g.meta.edge(e)]: names for e, names in _by_type(feature_names)}, g.edge_frame
    )


def _read_nodes(g: DGLGraph, feature_names: Any, side: Side) -> None:
    _read(dict(_by_type(feature_names)), lambda ntype: g.node_frame(ntype, side))


def _by_type(names: Any) -> list[tuple[Any, Sequence[str]]]:
    if isinstance(names, Mapping):
        return list(names.items())
    return [(None, names)] if names else []


def _read(names: Mapping[Any, Sequence[str]], frame_of: Any) -> None:
    for kind, wanted in names.items():
        frame: Frame = frame_of(kind)
        for name in wanted:
            frame[name]
