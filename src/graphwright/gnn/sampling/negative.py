"""Pairs of nodes without an edge: `global_uniform_negative_sampling`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling.generator import torch_generator

_ROUNDS = 10


def global_uniform_negative_sampling(
    g: DGLGraph,
    num_samples: int,
    exclude_self_loops: bool = True,
    replace: bool = False,
    etype: Any = None,
    redundancy: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Sources and destinations of pairs that no edge joins, all such pairs equally likely.

    Pairs are drawn and those with an edge rejected, for a limited time: where almost all pairs have
    one, the result may be shorter than `num_samples`. `redundancy` is how many more are drawn at a
    time than are needed. Without `replace` no pair comes twice.
    """
    relation = g.relation(etype)
    src, dst = relation.coo
    width, pairs = max(relation.num_dst, 1), relation.num_src * relation.num_dst
    taken = torch.unique(src.long().cpu() * width + dst.long().cpu())
    generator = torch_generator()
    more = 1.3 if redundancy is None else 1 + redundancy
    found = torch.empty(0, dtype=torch.long)
    loops = exclude_self_loops and relation.num_src == relation.num_dst
    for _ in range(_ROUNDS):
        if len(found) >= num_samples or pairs == 0:
            break
        count = int((num_samples - len(found)) * more * pairs / max(pairs - len(taken), 1)) + 4
        drawn = torch.randint(0, pairs, (min(count, 8 * num_samples + 64),), generator=generator)
        if len(taken):
            at = torch.searchsorted(taken, drawn).clamp(max=len(taken) - 1)
            drawn = drawn[taken[at] != drawn]
        if loops:
            drawn = drawn[drawn // width != drawn % width]
        found = torch.cat([found, drawn])
        if not replace:
            found = _distinct_in_order(found)
    found = found[:num_samples]
    return (found // width).to(g.device, g.idtype), (found % width).to(g.device, g.idtype)


def _distinct_in_order(keys: Tensor) -> Tensor:
    """Keys without repetitions, in the order of their draws: sorting would favour some."""
    distinct, place = torch.unique(keys, return_inverse=True)
    first = torch.full((len(distinct),), len(keys))
    first.scatter_reduce_(0, place, torch.arange(len(keys)), "amin")
    return keys[first.sort()[0]]
