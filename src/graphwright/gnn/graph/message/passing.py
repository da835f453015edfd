"""The methods of a graph that pass messages: on all edges, on some, or in an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.function import BuiltinFunction, MessageFunction, ReduceFunction
from graphwright.gnn.graph.base import ALL
from graphwright.gnn.graph.message.bucketing import buckets, check_result, take_messages
from graphwright.gnn.graph.message.scope import Scope, apply_to_nodes
from graphwright.gnn.graph.message.udf import EdgeBatch, NodeBatch
from graphwright.gnn.graph.queries import Queries
from graphwright.gnn.storage import DGLError, Frame, InvalidFunction, put_rows

_CROSS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(0).values,
    "min": lambda x: x.min(0).values,
    "stack": lambda x: x.movedim(0, 1),
}


class MessagePassing(Queries):
    """Message passing over the edges of a graph."""

    def scope(self, etype: Any = None) -> Scope:
        """Where a round over all edges of a type takes place."""
        at = self.meta.edge(etype)
        src, dst = self.ends(etype)
        return Scope(self._relations[at], src, dst, self._edge_frames[at], self.meta.etypes[at])

    def update_all(
        self, message_func: Any, reduce_func: Any, apply_node_func: Any = None, etype: Any = None
    ) -> None:
        """Send messages along all edges, reduce them at their destinations, update these.

        Destinations without in-edges get zeros, or what the field's initializer makes. In a graph
        of several edge types, without a type, built-in sums go over all types at once.
        """
        if etype is None and len(self.meta.etypes) > 1:
            if not (isinstance(reduce_func, ReduceFunction) and reduce_func.op == "sum"):
                raise DGLError(
                    f"update_all over all of the edge types {self.etypes} takes the built-in sum; "
                    "pass etype=..., or use multi_update_all with a cross reducer"
                )
            every = dict.fromkeys(self.meta.etypes, (message_func, reduce_func))
            self.multi_update_all(every, "sum", apply_node_func)
            return
        scope = self.scope(etype)
        scope.dst.update(scope.run(message_func, reduce_func, apply_node_func))

    def multi_update_all(
        self, etype_dict: Mapping[Any, Sequence[Any]], cross_reducer: Any,
        apply_node_func: Any = None,
    ) -> None:  # fmt: skip
        """Rounds for several edge types; what they give one node type is reduced across them."""
        results: dict[int, dict[str, list[Any]]] = {}
        for etype, functions in etype_dict.items():
            place = self.meta.ends[self.meta.edge(etype)][1]
            for name, values in self.scope(etype).run(*functions).items():
                results.setdefault(place, {}).setdefault(name, []).append(values)
        if isinstance(cross_reducer, str) and cross_reducer not in _CROSS:
            raise DGLError(f"cross_reducer has to be one of {list(_CROSS)}. Got {cross_reducer!r}.")
        for place, fields in results.items():
            frame = self._node_frames[place]
            for name, values in fields.items():
                if callable(cross_reducer):
                    frame[name] = cross_reducer(values)
                else:
                    frame[name] = _CROSS[cross_reducer](torch.stack(values))
            if apply_node_func is not None:
                ntype = self.meta.ntypes[place]
                frame.update(apply_to_nodes(apply_node_func, frame, {}, None, ntype))

    def send_and_recv(
        self, edges: Any, message_func: Any, reduce_func: Any, apply_node_func: Any = None,
        etype: Any = None,
    ) -> None:  # fmt: skip
        """Send messages along some edges and update their destinations alone."""
        ids = self.edge_id_tensor(edges, etype)
        if len(ids):
            self._round(
                self.scope(etype).narrow(ids), message_func, reduce_func, apply_node_func, etype
            )

    def pull(
        self, v: Any, message_func: Any, reduce_func: Any, apply_node_func: Any = None,
        etype: Any = None,
    ) -> None:  # fmt: skip
        """Update some nodes with the messages of all their in-edges."""
        place = self.meta.ends[self.meta.edge(etype)][1]
        nodes = self._checked_nodes(v, self._node_frames[place])
        if len(nodes):
            scope = self.scope(etype).narrow(self.in_edges(nodes, "eid", etype), nodes)
            self._round(scope, message_func, reduce_func, apply_node_func, etype)

    def push(
        self, u: Any, message_func: Any, reduce_func: Any, apply_node_func: Any = None,
        etype: Any = None,
    ) -> None:  # fmt: skip
        """Send messages from some nodes and update their successors."""
        edges = self.out_edges(u, "eid", etype)
        self.send_and_recv(edges, message_func, reduce_func, apply_node_func, etype)

    def prop_nodes(
        self, nodes_generator: Iterable[Any], message_func: Any, reduce_func: Any,
        apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """`pull` one set of nodes after another."""
        for nodes in nodes_generator:
            self.pull(nodes, message_func, reduce_func, apply_node_func, etype)

    def prop_edges(
        self, edges_generator: Iterable[Any], message_func: Any, reduce_func: Any,
        apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """`send_and_recv` one set of edges after another."""
        for edges in edges_generator:
            self.send_and_recv(edges, message_func, reduce_func, apply_node_func, etype)

    def _round(self, scope: Scope, message: Any, reduce: Any, apply: Any, etype: Any) -> None:
        frame = self.ends(etype)[1]
        assert scope.dst_ids is not None
        for name, values in scope.run(message, reduce, apply).items():
            frame.put_rows(name, scope.dst_ids, values)

    def _checked_nodes(self, nodes: Any, frame: Frame) -> Tensor:
        place = next(at for at, mine in enumerate(self._node_frames) if mine is frame)
        if self.meta.is_block:
            side = "src" if place < (self.meta.num_src or 0) else "dst"
            return self.node_ids(nodes, self.meta.ntypes[place], side)  # type: ignore[arg-type]
        return self.node_ids(nodes, self.meta.ntypes[place])

    # Edges and nodes alone.

    def apply_edges(self, func: Any, edges: Any = ALL, etype: Any = None) -> None:
        """New edge features of features at both ends: a built-in message or a user's function."""
        scope = self.scope(etype)
        if isinstance(edges, str) and edges == ALL:
            scope.edge.update(scope.messages(func))
            return
        ids = self.edge_id_tensor(edges, etype)
        for name, values in scope.narrow(ids).messages(func).items():
            scope.edge.put_rows(name, ids, values)

    def apply_nodes(
        self, func: Any, v: Any = ALL, ntype: str | None = None, inplace: bool = False
    ) -> None:
        """New node features by a user's function."""
        place = self.meta.node("any", ntype)
        frame, name = self._node_frames[place], self.meta.ntypes[place]
        if isinstance(func, BuiltinFunction):
            raise InvalidFunction("apply_nodes takes a function of your own, not a built-in")
        if isinstance(v, str) and v == ALL:
            frame.update(apply_to_nodes(func, frame, {}, self.all_nodes(ntype), name))
            return
        ids = self.node_ids(v, ntype)
        made = apply_to_nodes(func, frame.select(ids), {}, ids, name)
        for field, values in made.items():
            frame.put_rows(field, ids, values)

    def filter_nodes(self, predicate: Any, nodes: Any = ALL, ntype: str | None = None) -> Tensor:
        """The ids of the nodes for which a function of a batch is true."""
        frame = self.node_frame(ntype)
        whole = isinstance(nodes, str) and nodes == ALL
        ids = self.all_nodes(ntype) if whole else self.node_ids(nodes, ntype)
        batch = NodeBatch(frame, ids, ntype, whole=whole)
        return ids[_truth(predicate(batch), len(ids), predicate)]

    def filter_edges(self, predicate: Any, edges: Any = ALL, etype: Any = None) -> Tensor:
        """The ids of the edges for which a function of a batch is true."""
        whole = isinstance(edges, str) and edges == ALL
        relation = self.relation(etype)
        ids = self.all_edges("eid", etype=etype) if whole else self.edge_id_tensor(edges, etype)
        frames = (*self.ends(etype), self.edge_frame(etype))
        kind = self.meta.etypes[self.meta.edge(etype)]
        batch = EdgeBatch(frames, relation.find(ids), ids, kind, whole)
        found: Tensor = ids[_truth(predicate(batch), len(ids), predicate)]
        return found

    def group_apply_edges(
        self, group_by: str, func: Any, edges: Any = ALL, etype: Any = None
    ) -> None:
        """Edge features by a function of the edges of each node together.

        The function sees edges of nodes with as many of them, as [nodes, edges, ...], and returns
        features of that form.
        """
        if group_by not in ("src", "dst"):
            raise DGLError(f'group_by has to be "src" or "dst". Got {group_by!r}.')
        if isinstance(func, MessageFunction):
            raise InvalidFunction("group_apply_edges takes a function of your own, not a built-in")
        whole, frame = self.scope(etype), self.edge_frame(etype)
        chosen = isinstance(edges, str) and edges == ALL
        ids = self.all_edges("eid", etype=etype) if chosen else self.edge_id_tensor(edges, etype)
        scope = whole if chosen else whole.narrow(ids)
        relation = scope.relation if group_by == "dst" else scope.relation.reverse
        made: dict[str, Any] = {}
        for bucket in buckets(relation.csc, False):
            batch = _GroupedEdges(scope, bucket)
            result = check_result(func(batch), len(bucket.nodes), "group_apply_edges", func)
            places = bucket.messages.reshape(-1)
            for name, values in result.items():
                flat = values.reshape(len(places), *values.shape[2:])
                old = made.get(name)
                if old is None:
                    old = frame._new_rows(name, flat, scope.relation.num_edges)
                made[name] = put_rows(old, places, flat)
        for name, values in made.items():
            if chosen:
                frame[name] = values
            else:
                frame.put_rows(name, ids, values)


class _GroupedEdges:
    """The edges of nodes with as many edges: features are [nodes, edges, ...]."""

    def __init__(self, scope: Scope, bucket: Any) -> None:
        self._shape: tuple[int, ...] = tuple(bucket.messages.shape)
        flat = bucket.messages.reshape(-1)
        src, dst = scope.relation.find(flat)
        self.src = _Reshaped(scope.src, src, self._shape)
        self.dst = _Reshaped(scope.dst, dst, self._shape)
        self.data = {name: take_messages(scope.edge[name], bucket) for name in scope.edge}

    def batch_size(self) -> int:
        """The number of nodes."""
        return self._shape[0]


class _Reshaped(dict[str, Any]):
    def __init__(self, frame: Frame, rows: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._frame, self._rows, self._shape = frame, rows, shape

    def __missing__(self, name: str) -> Any:
        taken = self._frame[name][self._rows.long()]
        self[name] = taken.reshape(*self._shape, *taken.shape[1:])
        return self[name]


def _truth(result: Any, count: int, predicate: Any) -> Tensor:
    mask = torch.as_tensor(result).bool()
    if mask.dim() != 1 or len(mask) != count:
        raise InvalidFunction(
            f"predicate {getattr(predicate, '__name__', '')} has to return one truth value for "
            f"each of {count}. Got shape {list(mask.shape)}."
        )
    return mask
