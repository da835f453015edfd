"""The types of a graph: which node types there are, and which of them each edge type joins.

A block has two sides, whose node types may have the same names; its first `num_src` node types are
sources, the others destinations. In any other graph every node type is on both sides, except that a
graph whose edges all lead from some types to others is treated as if it had two sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from graphwright.gnn.storage.errors import DGLError, UnknownType

EdgeType = tuple[str, str, str]
Side = Literal["any", "src", "dst"]


@dataclass(frozen=True)
class Metagraph:
    """Node types, edge types, and the places of the ends of each edge type among the node types."""

    ntypes: tuple[str, ...]
    etypes: tuple[EdgeType, ...]
    num_src: int | None = None
    """For a block: how many of `ntypes` are sources."""

    @staticmethod
    def of(etypes: Iterable[EdgeType], ntypes: Iterable[str] = ()) -> Metagraph:
        """The graph of these edge types; node types are in alphabetical order."""
        etypes = tuple(etypes)
        named = {end for src, _, dst in etypes for end in (src, dst)} | set(ntypes)
        return Metagraph(tuple(sorted(named)), etypes)

    @property
    def is_block(self) -> bool:
        return self.num_src is not None

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """For each edge type, the places of its source and destination types in `ntypes`."""
        return tuple((self.node("src", src), self.node("dst", dst)) for src, _, dst in self.etypes)

    @cached_property
    def is_unibipartite(self) -> bool:
        """Whether no node type has edges both in and out."""
        if self.is_block:
            return True
        return not {src for src, _, _ in self.etypes} & {dst for _, _, dst in self.etypes}

    def side(self, side: Side) -> range | list[int]:
        """The places of the node types on one side."""
        places = range(len(self.ntypes))
        if side == "any":
            return places
        if self.num_src is not None:
            return places[: self.num_src] if side == "src" else places[self.num_src :]
        if not self.is_unibipartite:
            return places
        ends = {dst for _, _, dst in self.etypes}
        return [at for at in places if (self.ntypes[at] in ends) == (side == "dst")]

    def node(self, side: Side, ntype: str | None) -> int:
        """The place of a node type; None stands for the only one."""
        places = self.side(side)
        names = [self.ntypes[at] for at in places]
        if ntype is None:
            if len(names) != 1:
                raise DGLError(
                    f"Node type name must be specified if there are more than one node types: this "
                    f"graph has {names}; pass ntype=..., or use g.nodes[ntype]."
                )
            return places[0]
        if (count := names.count(ntype)) != 1:
            problem = "does not exist" if count == 0 else "is on both sides of the block"
            raise UnknownType(f'Node type "{ntype}" {problem}; the node types are {names}.')
        return places[names.index(ntype)]

    def edge(self, etype: str | EdgeType | None) -> int:
        """The place of an edge type, by its triplet or its name; None stands for the only one."""
        if etype is None:
            if len(self.etypes) != 1:
                raise DGLError(
                    f"Edge type name must be specified if there are more than one edge types: this "
                    f"graph has {list(self.etypes)}; pass etype=..., or use g.edges[etype]."
                )
            return 0
        if isinstance(etype, str):
            found = [at for at, (_, name, _) in enumerate(self.etypes) if name == etype]
            if len(found) == 1:
                return found[0]
            problem = "does not exist" if not found else "is ambiguous"
            raise UnknownType(
                f'Edge type "{etype}" {problem}; use a canonical edge type, one of '
                f"{list(self.etypes)}."
            )
        if tuple(etype) not in self.etypes:
            raise UnknownType(
                f'Edge type "{etype}" does not exist; the edge types are {list(self.etypes)}.'
            )
        return self.etypes.index((etype[0], etype[1], etype[2]))
