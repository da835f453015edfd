"""Random walks: `random_walk` by length or along types, `node2vec_random_walk`, `pack_traces`.

A walk that ends early, at a node without edges out or by chance, is filled up with -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling.generator import advance, next_seed, stream, uniform
from graphwright.gnn.sampling.neighbours import edge_weights
from graphwright.gnn.storage import DGLError, EdgeType, as_ids
from graphwright.gnn.transforms import require_homogeneous
from graphwright.tasks import compiled, inlined

_NOTHING = np.empty(0, np.int64)


def random_walk(
    g: DGLGraph,
    nodes: Any,
    *,
    metapath: Sequence[Any] | None = None,
    length: int | None = None,
    prob: str | None = None,
    restart_prob: Any = None,
    return_eids: bool = False,
) -> tuple[Tensor, ...]:
    """Walks from `nodes`, of `length` steps or with a step for each edge type of `metapath`.

    Returns the nodes of each walk, with `return_eids` the edges, and the type of each place. Edges
    are drawn evenly, or by the feature `prob`. Before each step a walk ends with `restart_prob`: a
    number, or a tensor with one for each step.
    """
    path = _path(g, metapath, length)
    first = path[0][0] if path else g.ntypes[0]
    seeds = as_ids(nodes, g.idtype, g.device, "nodes", g.num_nodes(first)).cpu()
    ends = _endings(restart_prob, len(path))
    traces = np.full((len(seeds), len(path) + 1), -1, np.int64)
    edges = np.full((len(seeds), len(path)), -1, np.int64)
    traces[:, 0] = seeds.numpy()
    seed = next_seed()
    tables = {etype: _table(g, etype, prob) for etype in set(path)}
    for step, etype in enumerate(path):
        _walk_step(tables[etype], traces, edges, step, ends[step], seed)
    return (
        torch.from_numpy(traces).to(g.device, g.idtype),
        *([torch.from_numpy(edges).to(g.device, g.idtype)] if return_eids else []),
        _types(g, path, first),
    )


def _path(g: DGLGraph, metapath: Sequence[Any] | None, length: int | None) -> list[EdgeType]:
    if metapath is None:
        if len(g.etypes) > 1 or len(g.ntypes) > 1:
            raise DGLError("metapath not specified and the graph is not homogeneous.")
        if length is None:
            raise DGLError("Please specify either the metapath or the random walk length.")
        return [g.canonical_etypes[0]] * length
    path = [g.to_canonical_etype(etype) for etype in metapath]
    for one, following in pairwise(path):
        if one[2] != following[0]:
            raise DGLError(f"metapath cannot go from {one} to {following}: the node types differ")
    return path


def _types(g: DGLGraph, path: Sequence[EdgeType], first: str) -> Tensor:
    names = [first, *(etype[2] for etype in path)]
    return torch.tensor([g.get_ntype_id(name) for name in names], device=g.device).to(g.idtype)


def _endings(restart_prob: Any, steps: int) -> list[float]:
    """The probability that a walk ends before each step."""
    if restart_prob is None:
        return [0.0] * steps
    if isinstance(restart_prob, Tensor) and restart_prob.dim():
        if len(restart_prob) != steps:
            raise DGLError(
                f"restart_prob has {len(restart_prob)} entries, but walks have {steps} steps."
            )
        given = restart_prob.tolist()
    else:
        given = [float(restart_prob)] * steps
    if not all(0 <= p <= 1 for p in given):
        raise DGLError(f"restart_prob has to be from 0 to 1. Got {restart_prob}.")
    return list(map(float, given))


def _table(g: DGLGraph, etype: EdgeType, prob: str | None) -> tuple[Any, ...]:
    form = g.relation(etype).csr
    ids = _NOTHING if form.edge_ids is None else form.edge_ids.cpu().numpy()
    weights = edge_weights(g, prob, etype)
    return form.indptr.cpu().numpy(), form.indices.cpu().numpy(), ids, weights


@inlined
def _pick(edge_ids: Any, weights: Any, start: Any, stop: Any, draw: Any) -> Any:
    """An entry of a row by weight, for a number from 0 to 1; -1 where there is none."""
    if start == stop:
        return np.int64(-1)
    if len(weights) == 0:
        return np.int64(start + np.int64(draw * (stop - start)))
    total = 0.0
    for entry in range(start, stop):
        total += weights[edge_ids[entry] if len(edge_ids) else entry]
    aim, last = draw * total, np.int64(-1)
    for entry in range(start, stop):
        weight = weights[edge_ids[entry] if len(edge_ids) else entry]
        if weight > 0:
            last = np.int64(entry)
            aim -= weight
            if aim < 0:
                break
    return last


@compiled
def _walk_step(table: Any, traces: Any, edges: Any, step: Any, ending: Any, seed: Any) -> None:
    indptr, indices, edge_ids, weights = table
    for walk in range(len(traces)):
        node = traces[walk, step]
        if node < 0:
            continue
        state = advance(stream(seed, walk * np.int64(traces.shape[1]) + step))
        if ending > 0 and uniform(state) < ending:
            continue
        state = advance(state)
        entry = _pick(edge_ids, weights, indptr[node], indptr[node + 1], uniform(state))
        if entry >= 0:
            traces[walk, step + 1] = indices[entry]
            edges[walk, step] = edge_ids[entry] if len(edge_ids) else entry


def node2vec_random_walk(
    g: DGLGraph,
    nodes: Any,
    p: float,
    q: float,
    walk_length: int,
    prob: str | None = None,
    return_eids: bool = False,
) -> Any:
    """Walks that prefer to return (small p) or to move away (small q), Grover and Leskovec 2016.

    A step from v, reached from t, goes to x with a weight of 1/p where x is t, 1 where there is an
    edge from t to x, and 1/q otherwise, times the edge's own weight.
    """
    require_homogeneous(g, "node2vec_random_walk")
    if p <= 0 or q <= 0:
        raise DGLError(f"p and q have to be positive. Got {p} and {q}.")
    seeds = g.node_ids(nodes).cpu()
    traces = np.full((len(seeds), walk_length + 1), -1, np.int64)
    edges = np.full((len(seeds), walk_length), -1, np.int64)
    traces[:, 0] = seeds.numpy()
    table = _table(g, g.canonical_etypes[0], prob)
    _walk_biased(table, traces, edges, 1 / p, 1 / q, next_seed())
    walked = torch.from_numpy(traces).to(g.device, g.idtype)
    if not return_eids:
        return walked
    return walked, torch.from_numpy(edges).to(g.device, g.idtype)


@compiled
def _walk_biased(table: Any, traces: Any, edges: Any, back: Any, away: Any, seed: Any) -> None:
    indptr, indices, edge_ids, weights = table
    most = max(back, 1.0, away)
    for walk in range(len(traces)):
        state = stream(seed, walk)
        for step in range(edges.shape[1]):
            node = traces[walk, step]
            start, stop = indptr[node], indptr[node + 1]
            while True:  # candidates by the edges' weights, kept by the bias
                state = advance(state)
                entry = _pick(edge_ids, weights, start, stop, uniform(state))
                if entry < 0 or step == 0:
                    break
                before, bias = traces[walk, step - 1], away
                if indices[entry] == before:
                    bias = back
                else:
                    for known in range(indptr[before], indptr[before + 1]):
                        if indices[known] == indices[entry]:
                            bias = 1.0
                            break
                state = advance(state)
                if uniform(state) * most < bias:
                    break
            if entry < 0:
                break
            traces[walk, step + 1] = indices[entry]
            edges[walk, step] = edge_ids[entry] if len(edge_ids) else entry


def pack_traces(traces: Tensor, types: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Walks without their filling: nodes, their types, each walk's length and where it begins."""
    if traces.dim() != 2 or len(types) != traces.shape[1]:
        raise DGLError(
            f"types has one entry for each place of a trace. Got {len(types)} for traces of shape "
            f"{tuple(traces.shape)}."
        )
    there = traces >= 0
    lengths = there.sum(1)
    offsets = torch.cumsum(lengths, 0) - lengths
    kinds = types.expand(len(traces), -1)[there]
    return traces[there], kinds, lengths.to(traces.dtype), offsets.to(traces.dtype)
