"""One round of message passing over some edges: messages, reduction, update.

A `Scope` is where a round takes place: a relation, the features of its ends and edges, and the ids
that they have in the graph. A round over a whole edge type uses the graph's own relation and
frames; one over some edges a relation between the nodes that they touch.

Two built-ins run as one fused kernel. Otherwise messages are made first, by a kernel or by the
user's function, and then reduced, by a kernel or bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.function import (
    BinaryMessageFunction,
    CopyMessageFunction,
    MessageFunction,
    ReduceFunction,
)
from graphwright.gnn.graph.message.bucketing import (
    buckets,
    check_result,
    is_padded,
    take_messages,
)
from graphwright.gnn.graph.message.udf import EdgeBatch, NodeBatch
from graphwright.gnn.kernels import Operand, gsddmm, gspmm
from graphwright.gnn.storage import (
    EdgeType,
    Frame,
    InvalidFunction,
    MissingFeature,
    NotDistributable,
    PartRelation,
    Relation,
    put_rows,
)


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Edges with the features of their sources, destinations and their own.

    `src_ids`, `dst_ids` and `edge_ids` are ids in the graph; None says that they are the same.
    """

    relation: Relation
    src: Frame
    dst: Frame
    edge: Frame
    etype: EdgeType
    src_ids: Tensor | None = None
    dst_ids: Tensor | None = None
    edge_ids: Tensor | None = None

    def narrow(self, edges: Tensor, dst_nodes: Tensor | None = None) -> Scope:
        """Some edges, between the nodes that they touch, or into all of `dst_nodes`."""
        if isinstance(self.relation, PartRelation):
            raise NotDistributable(
                "messages were sent along some edges alone, and which they are differs between "
                "workers; a distributed model uses update_all, with a weight of 0 for other edges"
            )
        src, dst = self.relation.find(edges)
        sources, src = torch.unique(src, return_inverse=True)
        wanted = dst if dst_nodes is None else torch.cat([dst_nodes, dst])
        destinations, places = torch.unique(wanted, return_inverse=True)
        coo = (src.to(edges.dtype), places[len(places) - len(dst) :].to(edges.dtype))
        relation = Relation(num_src=len(sources), num_dst=len(destinations), made_coo=coo)
        return Scope(
            relation, self.src.select(sources), self.dst.select(destinations),
            self.edge.select(edges), self.etype, sources, destinations, edges,
        )  # fmt: skip

    def operand(self, end: str, field: str) -> Operand:
        """A feature and its end."""
        frame = {"u": self.src, "v": self.dst, "e": self.edge}[end]
        return frame[field], end

    def edge_batch(self) -> EdgeBatch:
        """All edges, for a user's function."""
        src, dst = self.relation.coo
        frames = (_Sources(self.src, self.relation), self.dst, self.edge)
        local = torch.arange(len(src), dtype=src.dtype, device=src.device)
        batch = EdgeBatch(frames, (src, dst), local, self.etype, True)
        if self.edge_ids is not None:
            assert self.src_ids is not None and self.dst_ids is not None
            batch._ends = self.src_ids[src.long()], self.dst_ids[dst.long()]
            batch._ids = self.edge_ids
        return batch

    def operands(self, function: MessageFunction) -> tuple[str, Operand, Operand | None]:
        """The operator and the operands of a built-in message."""
        match function:
            case CopyMessageFunction(end, field):
                return "copy", self.operand(end, field), None
            case BinaryMessageFunction(op, lhs, rhs, lhs_field, rhs_field):
                return op, self.operand(lhs, lhs_field), self.operand(rhs, rhs_field)
        raise InvalidFunction(f"{function!r} is no message function of dgl.function")

    def messages(self, function: Any) -> Mapping[str, Any]:
        """A value for each edge."""
        if isinstance(function, (CopyMessageFunction, BinaryMessageFunction)):
            op, lhs, rhs = self.operands(function)
            return {function.out_field: gsddmm(self.relation, op, lhs, rhs)}
        _require_callable(function, "message")
        return check_result(
            function(self.edge_batch()), self.relation.num_edges, "message", function
        )

    def reduce(self, messages: Mapping[str, Any], function: Any) -> dict[str, Any]:
        """Messages at their destinations."""
        if isinstance(function, ReduceFunction):
            if function.msg_field not in messages:
                raise MissingFeature(
                    f"reduce function {function.op} reads message '{function.msg_field}', but the "
                    f"messages are {sorted(messages)}"
                )
            if function.op != "prod":
                values = messages[function.msg_field]
                made = gspmm(self.relation, "copy", function.op, (values, "e"))
                return {function.out_field: made}
            msg, out = function.msg_field, function.out_field
            return self._reduce_in_buckets(
                messages, lambda nodes: {out: nodes.mailbox[msg].prod(1)}
            )
        _require_callable(function, "reduce")
        return self._reduce_in_buckets(messages, function)

    def _reduce_in_buckets(self, messages: Mapping[str, Any], function: Any) -> dict[str, Any]:
        results, nodes = [], []
        for bucket in buckets(self.relation.csc, is_padded(function)):
            mailbox = {name: take_messages(x, bucket) for name, x in messages.items()}
            batch = NodeBatch(self.dst, bucket.nodes, self.etype[2], mailbox, bucket.mask)
            if self.dst_ids is not None:
                batch._ids = self.dst_ids[bucket.nodes]
            results.append(check_result(function(batch), len(bucket.nodes), "reduce", function))
            nodes.append(bucket.nodes)
        if not results:
            return {}
        fields = set(results[0])
        for result in results[1:]:
            if set(result) != fields:
                raise InvalidFunction(
                    f"reduce function returned fields {sorted(fields)} for one number of messages "
                    f"and {sorted(result)} for another; they have to be the same"
                )
        order = torch.cat(nodes)
        return {name: self._joined(name, [r[name] for r in results], order) for name in fields}

    def _joined(self, name: str, parts: list[Any], order: Tensor) -> Any:
        kinds = {(str(part.dtype), tuple(part.shape[1:])) for part in parts}
        if len(kinds) > 1:
            raise InvalidFunction(
                f"reduce function returned field '{name}' as {sorted(kinds)}: types and shapes "
                "have to be the same for every number of messages"
            )
        if isinstance(parts[0], Tensor):
            joined: Any = torch.cat(parts)
        else:
            joined = type(parts[0]).__array_namespace__(parts[0]).concat(parts)
        empty = self.dst._new_rows(name, joined, self.relation.num_dst)
        return put_rows(empty, order, joined)

    def run(self, message: Any, reduce: Any, apply: Any = None) -> dict[str, Any]:
        """New features of all destinations."""
        fusable = isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction)
        if fusable and reduce.op != "prod":
            if message.out_field != reduce.msg_field:
                raise MissingFeature(
                    f"reduce function {reduce.op} reads message '{reduce.msg_field}', but the "
                    f"messages are ['{message.out_field}']"
                )
            op, lhs, rhs = self.operands(message)
            made = {reduce.out_field: gspmm(self.relation, op, reduce.op, lhs, rhs)}
        else:
            made = self.reduce(self.messages(message), reduce)
        if apply is not None:
            made.update(apply_to_nodes(apply, self.dst, made, self.dst_ids, self.etype[2]))
        return made


class _Sources(Mapping[str, Any]):
    """Features of sources, as the ids of a relation count them."""

    def __init__(self, frame: Frame, relation: Relation) -> None:
        self._frame, self._relation = frame, relation

    def __getitem__(self, name: str) -> Any:
        return self._relation.sources(self._frame[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: object) -> bool:
        return name in self._frame


def apply_to_nodes(
    function: Any, frame: Frame, new: Mapping[str, Any], ids: Tensor | None, ntype: str
) -> Mapping[str, Any]:
    """A user's update of nodes, whose features are the frame's, and new ones where there are."""
    _require_callable(function, "apply")
    seen = frame.copy()
    for name, values in new.items():
        seen[name] = values
    count = frame.num_rows
    batch = NodeBatch(seen, torch.arange(count), ntype, whole=True)
    if ids is not None:
        batch._ids = ids
    return check_result(function(batch), count, "apply", function)


def _require_callable(function: Any, what: str) -> None:
    if not callable(function):
        raise InvalidFunction(
            f"{what} function has to be a built-in of dgl.function or a function of your own. Got "
            f"{function!r}."
        )
