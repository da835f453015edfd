"""DGL's `dgl.ops`: fused kernels by name, on a graph and tensors, with gradients.

gspmm(g, op, reduce_op, lhs, rhs)     gsddmm(g, op, lhs, rhs, lhs_target, rhs_target)
u_mul_e_sum(g, x, w)                  u_dot_v(g, x, y)               copy_u_mean(g, x)
edge_softmax(g, scores)               segment_reduce(seglen, x)      gather_mm(a, b, idx_b=i)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn import kernels
from graphwright.gnn.graph import ALL, DGLGraph
from graphwright.gnn.kernels import gather_mm as gather_mm
from graphwright.gnn.kernels import segment_mm as segment_mm
from graphwright.gnn.kernels import segment_reduce
from graphwright.gnn.storage import InvalidFunction, Relation

_ENDS = {"u": "u", "v": "v", "e": "e", "src": "u", "dst": "v", "edge": "e"}


def gspmm(g: DGLGraph, op: str, reduce_op: str, lhs_data: Any, rhs_data: Any) -> Any:
    """Messages of a source feature (lhs) and an edge feature (rhs), reduced at destinations.

    `op` is add, sub, mul, div, copy_lhs or copy_rhs; `reduce_op` sum, mean, max or min.
    """
    relation = g.relation()
    if op in ("copy_lhs", "copy_u"):
        return kernels.gspmm(relation, "copy", reduce_op, (_given(lhs_data, op), "u"))
    if op in ("copy_rhs", "copy_e"):
        return kernels.gspmm(relation, "copy", reduce_op, (_given(rhs_data, op), "e"))
    lhs, rhs = _given(lhs_data, op), _given(rhs_data, op)
    return kernels.gspmm(relation, op, reduce_op, (lhs, "u"), (rhs, "e"))


def gsddmm(
    g: DGLGraph, op: str, lhs_data: Any, rhs_data: Any,
    lhs_target: str = "u", rhs_target: str = "v",
) -> Any:  # fmt: skip
    """A value for each edge, of features at two ends: u, v or e."""
    relation, lhs, rhs = g.relation(), _ENDS[lhs_target], _ENDS[rhs_target]
    if op in ("copy_lhs", "copy_u"):
        return kernels.gsddmm(relation, "copy", (_given(lhs_data, op), lhs))
    if op in ("copy_rhs", "copy_v"):
        return kernels.gsddmm(relation, "copy", (_given(rhs_data, op), rhs))
    pair = (_given(lhs_data, op), lhs), (_given(rhs_data, op), rhs)
    return kernels.gsddmm(relation, op, *pair)


def edge_softmax(graph: DGLGraph, logits: Any, eids: Any = ALL, norm_by: str = "dst") -> Any:
    """Softmax of edge scores over the edges into each node ("dst") or out of it ("src")."""
    if isinstance(logits, dict):
        return _typed_softmax(graph, logits, norm_by)
    relation = graph.relation()
    if not (isinstance(eids, str) and eids == ALL):
        relation = relation.take_edges(graph.edge_id_tensor(eids))
    return kernels.edge_softmax(relation, logits, norm_by)


def _typed_softmax(graph: DGLGraph, logits: dict[Any, Tensor], norm_by: str) -> dict[Any, Tensor]:
    """Over the edges of all types at each node: those into one node type are put side by side."""
    end = 1 if norm_by == "dst" else 0
    made: dict[Any, Tensor] = {}
    groups: dict[int, list[Any]] = {}
    for etype in logits:
        at = graph.meta.edge(etype)
        groups.setdefault(graph.meta.ends[at][end], []).append(etype)
    for etypes in groups.values():
        relations = [graph.relation(etype) for etype in etypes]
        ends = torch.cat([relation.coo[end] for relation in relations])
        count = relations[0].num_dst if end else relations[0].num_src
        joint = Relation(num_src=count, num_dst=count, made_coo=(ends, ends))
        scores = kernels.edge_softmax(joint, torch.cat([logits[etype] for etype in etypes]))
        sizes = [relation.num_edges for relation in relations]
        made.update(zip(etypes, scores.split(sizes), strict=True))
    return made


def segment_softmax(seglen: Tensor, value: Tensor) -> Tensor:
    """Softmax over each segment of rows."""
    value_max = segment_reduce(seglen, value, "max")
    rows = torch.repeat_interleave(torch.arange(len(seglen), device=value.device), seglen)
    scores = (value - value_max[rows]).exp()
    return scores / segment_reduce(seglen, scores, "sum")[rows]


def _given(data: Tensor | None, op: str) -> Tensor:
    if data is None:
        raise InvalidFunction(f"operator {op} needs features that were not given (None)")
    return data


def _named() -> dict[str, Callable[..., Tensor]]:
    """u_add_v, copy_u, ..., and u_add_e_sum, copy_u_mean, ...: all the names of `dgl.ops`."""
    made: dict[str, Callable[..., Tensor]] = {}
    operators = ("add", "sub", "mul", "div", "dot")
    for op, (a, b) in product(operators, permutations("uve", 2)):
        made[f"{a}_{op}_{b}"] = _edge_function(op, a, b)
    for op, reduce in product(operators[:4], ("sum", "mean", "max", "min")):
        made[f"u_{op}_e_{reduce}"] = _node_function(op, reduce)
    for end in "uve":
        made[f"copy_{end}"] = _edge_function("copy", end, None)
    for end, reduce in product("ue", ("sum", "mean", "max", "min")):
        made[f"copy_{end}_{reduce}"] = _copy_function(end, reduce)
    return made


def _edge_function(op: str, a: str, b: str | None) -> Callable[..., Tensor]:
    if b is None:
        return lambda g, x: kernels.gsddmm(g.relation(), op, (x, a))
    return lambda g, x, y: kernels.gsddmm(g.relation(), op, (x, a), (y, b))


def _node_function(op: str, reduce: str) -> Callable[..., Tensor]:
    return lambda g, x, y: kernels.gspmm(g.relation(), op, reduce, (x, "u"), (y, "e"))


def _copy_function(end: str, reduce: str) -> Callable[..., Tensor]:
    return lambda g, x: kernels.gspmm(g.relation(), "copy", reduce, (x, end))


globals().update(_named())
