"""`g.ndata`, `g.nodes[...]`, `g.edges[...]`: features as mappings, ids as calls.

g.nodes()                   ids                 g.edges()                     ends
g.nodes["user"].data["h"]   one type            g.edges["follows"].data["w"]
g.nodes[[0, 2]].data["h"]   some nodes          g.edges[[0, 2], [1, 3]].data
g.ndata["h"]                the only type, or a dictionary by type
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from graphwright.gnn.graph.base import ALL
from graphwright.gnn.storage import DGLError, Frame, MissingFeature, Side, take_rows

if TYPE_CHECKING:
    from graphwright.gnn.graph.queries import Queries


class Features(MutableMapping[str, Any]):
    """The features of one type, or of some of its nodes or edges."""

    def __init__(self, frame: Frame, rows: Tensor | None = None) -> None:
        self._frame, self._rows = frame, rows

    def __getitem__(self, name: str) -> Any:
        values = self._frame[name]
        return values if self._rows is None else take_rows(values, self._rows)

    def __setitem__(self, name: str, values: Any) -> None:
        if self._rows is None:
            self._frame[name] = values
        else:
            self._frame.put_rows(name, self._rows, values)

    def __delitem__(self, name: str) -> None:
        if self._rows is not None:
            raise DGLError(f"field '{name}' cannot be removed from some rows alone")
        del self._frame[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: object) -> bool:
        return name in self._frame

    def __repr__(self) -> str:
        return repr(dict(self))


class TypedFeatures(MutableMapping[str, Any]):
    """The features of several types: a field is a dictionary from types to tensors."""

    def __init__(self, frames: Mapping[Any, Frame]) -> None:
        self._frames = frames

    def __getitem__(self, name: str) -> Any:
        return {kind: frame[name] for kind, frame in self._frames.items() if name in frame}

    def __setitem__(self, name: str, values: Any) -> None:
        if not isinstance(values, Mapping):
            raise DGLError(
                f"Current graph has several types {list(self._frames)}: field '{name}' takes a "
                "dictionary from types to features."
            )
        for kind, features in values.items():
            self._frames[self._known(kind)][name] = features

    def _known(self, kind: Any) -> Any:
        """A type as it is listed; an edge type may be given by its name, if one has it alone."""
        if kind in self._frames:
            return kind
        named = [known for known in self._frames if isinstance(known, tuple) and known[1] == kind]
        if len(named) != 1:
            raise DGLError(f"no type {kind!r}; the types are {list(self._frames)}")
        return named[0]

    def __delitem__(self, name: str) -> None:
        holders = [frame for frame in self._frames.values() if name in frame]
        if not holders:
            raise MissingFeature(f"no type has a feature '{name}'")
        for frame in holders:
            del frame[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for frame in self._frames.values() for name in frame))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self})


@dataclass(frozen=True, slots=True)
class Space:
    """What an entry of `g.nodes` or `g.edges` gives: `.data`."""

    data: MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeView:
    """`g.nodes`, `g.srcnodes` and `g.dstnodes`."""

    graph: Queries
    side: Side = "any"

    def __call__(self, ntype: str | None = None) -> Tensor:
        return self.graph.all_nodes(ntype, self.side)

    def __getitem__(self, key: Any) -> Space:
        if key is None or (isinstance(key, str) and key != ALL):
            return Space(Features(self.graph.node_frame(key, self.side)))
        ids, ntype = key, None
        if isinstance(key, slice):
            ids = slice(*key.indices(self.graph.node_frame(ntype, self.side).num_rows))
            ids = list(range(ids.start, ids.stop, ids.step))
        frame = self.graph.node_frame(ntype, self.side)
        if isinstance(key, str):
            return Space(Features(frame))
        return Space(Features(frame, self.graph.node_ids(ids, ntype, self.side)))


@dataclass(frozen=True, slots=True)
class EdgeView:
    """`g.edges`."""

    graph: Queries

    def __call__(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        return self.graph.all_edges(form, order, etype)

    def __getitem__(self, key: Any) -> Space:
        if key is None or isinstance(key, str) or _is_triplet(key):
            frame = self.graph.edge_frame(None if key == ALL else key)
            return Space(Features(frame))
        if isinstance(key, slice):
            key = list(range(*key.indices(self.graph.relation().num_edges)))
        return Space(Features(self.graph.edge_frame(), self.graph.edge_id_tensor(key)))


def _is_triplet(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 3 and all(isinstance(k, str) for k in key)


def features_view(
    frames: Sequence[Frame], kinds: Sequence[Any], find: Callable[[], Frame] | None = None
) -> MutableMapping[str, Any]:
    """The mapping behind `g.ndata` and its like."""
    if len(frames) == 1:
        return Features(frames[0])
    return TypedFeatures(dict(zip(kinds, frames, strict=True)))
