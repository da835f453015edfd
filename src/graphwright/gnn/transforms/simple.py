"""One edge for all parallel ones: `to_simple`.

    edges       0->1  1->2  1->2  0->1        writeback mapping   0  1  1  0
    simple      0->1  1->2                    counts              2  2

The edges of the result are in the order of sources, then destinations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError, Frame, Relation
from graphwright.gnn.transforms.parts import reduce_rows, relation_of


def to_simple(
    g: DGLGraph,
    return_counts: str | None = "count",
    writeback_mapping: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    aggregator: str = "arbitrary",
) -> Any:
    """The graph without parallel edges; with `writeback_mapping` also the new edge of each old one.

    The number of edges that each one stands for is its feature `return_counts`. With `copy_edata`
    its other features are those of one of them ("arbitrary": the first), or their "sum" or "mean".
    """
    if g.is_block:
        raise DGLError(
            "Cannot convert a block graph to a simple graph; convert the graph it is of."
        )
    if aggregator not in ("arbitrary", "sum", "mean"):
        raise DGLError(f'aggregator has to be "arbitrary", "sum" or "mean". Got {aggregator!r}.')
    relations, frames, mappings = [], [], {}
    for etype in g.canonical_etypes:
        simple, mapping, counts = merge_parallel(g.relation(etype))
        frame = Frame(simple.num_edges, what="edge")
        if copy_edata:
            for name, values in g.edge_frame(etype).items():
                if aggregator == "arbitrary":
                    first = torch.full_like(counts, len(mapping))
                    places = torch.arange(len(mapping), device=g.device).to(counts.dtype)
                    first.scatter_reduce_(0, mapping.long(), places, "amin")
                    frame[name] = values[first.long()]
                else:
                    frame[name] = reduce_rows(values, mapping, simple.num_edges, aggregator)
        if return_counts is not None:
            frame[return_counts] = counts
        relations.append(simple)
        frames.append(frame)
        mappings[etype] = mapping
    made = g.with_parts(
        relations=relations,
        node_frames=[f.copy() if copy_ndata else Frame(f.num_rows) for f in g._node_frames],
        edge_frames=frames,
    )
    if not writeback_mapping:
        return made
    return made, (mappings if len(mappings) > 1 else next(iter(mappings.values())))


def merge_parallel(relation: Relation) -> tuple[Relation, Tensor, Tensor]:
    """The simple relation, the edge of it that each edge became, and how many became each."""
    src, dst = relation.coo
    width = max(relation.num_dst, 1)
    pairs = src.long() * width + dst.long()
    kept, mapping, counts = torch.unique(pairs, return_inverse=True, return_counts=True)
    kind = relation.idtype
    simple = relation_of(relation, (kept // width).to(kind), (kept % width).to(kind))
    return simple, mapping.to(kind), counts.to(kind)
