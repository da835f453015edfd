"""The edges of one type: an immutable matrix, in whichever of three forms is asked for.

    coo    (src, dst)                     edge e goes from src[e] to dst[e]
    csr    indptr, indices, edge_ids      row u has the destinations of the edges out of u
    csc    indptr, indices, edge_ids      row v has the sources of the edges into v

A relation begins with one form; the others are made when they are first used, and kept. Edges are
numbered from 0; the numbers never change, whatever the form. Parallel edges and loops are edges
like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from graphwright.gnn.storage.compress import invert, rows_of, sort_by_end

FORMATS = ("coo", "csr", "csc")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compressed:
    """The entries of each row, one row after another; without `edge_ids`, entry p is edge p."""

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None = None

    def numbered(self) -> Tensor:
        """The edge of each entry, as a tensor in any case."""
        if self.edge_ids is not None:
            return self.edge_ids
        return torch.arange(len(self.indices), dtype=self.indices.dtype, device=self.indices.device)

    def convert(self, **how: Any) -> Compressed:
        """On another device or with ids of another type."""
        ids = None if self.edge_ids is None else self.edge_ids.to(**how)
        return Compressed(self.indptr.to(**how), self.indices.to(**how), ids)


@dataclass(eq=False, kw_only=True)
class Relation:
    """Edges from `num_src` sources to `num_dst` destinations; never changed once it is made."""

    num_src: int
    num_dst: int
    made_coo: tuple[Tensor, Tensor] | None = None
    made_csr: Compressed | None = None
    made_csc: Compressed | None = None
    allowed: tuple[str, ...] = FORMATS
    """The forms that may be made; kernels take what there is."""

    @property
    def coo(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations, in the order of edge ids."""
        if self.made_coo is None:
            if self.made_csr is not None:
                rows, columns = _expand(self.made_csr)
            else:
                assert self.made_csc is not None
                columns, rows = _expand(self.made_csc)
            self.made_coo = rows, columns
        return self.made_coo

    @property
    def csr(self) -> Compressed:
        """By source."""
        if self.made_csr is None:
            src, dst = self.coo
            self.made_csr = _compress(src, dst, self.num_src)
        return self.made_csr

    @property
    def csc(self) -> Compressed:
        """By destination."""
        if self.made_csc is None:
            src, dst = self.coo
            self.made_csc = _compress(dst, src, self.num_dst)
        return self.made_csc

    @property
    def reverse(self) -> Relation:
        """The same edges the other way round; what is made of it is kept here."""
        return _Mirror(of=self)

    @property
    def any_ids(self) -> Tensor:
        """Some tensor of the structure, whose type and device are those of all."""
        if self.made_coo is not None:
            return self.made_coo[0]
        made = self.made_csr or self.made_csc
        assert made is not None
        return made.indices

    @property
    def num_edges(self) -> int:
        return len(self.any_ids)

    @property
    def idtype(self) -> torch.dtype:
        return self.any_ids.dtype

    @property
    def device(self) -> torch.device:
        return self.any_ids.device

    @property
    def created(self) -> list[str]:
        """The forms that exist."""
        made = (self.made_coo, self.made_csr, self.made_csc)
        return [name for name, form in zip(FORMATS, made, strict=True) if form is not None]

    def in_degrees(self) -> Tensor:
        """The number of edges into each destination."""
        if self.made_csc is not None:
            return self.made_csc.indptr.diff()
        return torch.bincount(self.coo[1], minlength=self.num_dst).to(self.idtype)

    def out_degrees(self) -> Tensor:
        """The number of edges out of each source."""
        if self.made_csr is not None:
            return self.made_csr.indptr.diff()
        return torch.bincount(self.coo[0], minlength=self.num_src).to(self.idtype)

    @property
    def whole(self) -> Relation:
        """The relation whose sources are the rows of `sources(x)`: itself, but for a part's."""
        return self

    def sources(self, x: Tensor) -> Tensor:
        """A feature of all sources; a part of a graph asks others for what it does not have."""
        return x

    def find(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """The ends of some edges."""
        src, dst = self.coo
        return src[edges.long()], dst[edges.long()]

    def convert(self, **how: Any) -> Relation:
        """On another device or with ids of another type, with all forms that exist."""
        coo = self.made_coo
        return Relation(
            num_src=self.num_src,
            num_dst=self.num_dst,
            made_coo=None if coo is None else (coo[0].to(**how), coo[1].to(**how)),
            made_csr=None if self.made_csr is None else self.made_csr.convert(**how),
            made_csc=None if self.made_csc is None else self.made_csc.convert(**how),
            allowed=self.allowed,
        )

    def take_edges(self, edges: Tensor) -> Relation:
        """Some of the edges, between the same nodes, numbered in the order given."""
        src, dst = self.find(edges)
        return Relation(num_src=self.num_src, num_dst=self.num_dst, made_coo=(src, dst))


class _Mirror(Relation):
    """A reversed relation: its CSR is the other's CSC."""

    def __init__(self, of: Relation) -> None:
        super().__init__(num_src=of.num_dst, num_dst=of.num_src, allowed=of.allowed)
        self.of = of

    @property
    def coo(self) -> tuple[Tensor, Tensor]:
        src, dst = self.of.coo
        return dst, src

    @property
    def csr(self) -> Compressed:
        return self.of.csc

    @property
    def csc(self) -> Compressed:
        return self.of.csr

    @property
    def any_ids(self) -> Tensor:
        return self.of.any_ids

    @property
    def reverse(self) -> Relation:
        return self.of

    @property
    def created(self) -> list[str]:
        swapped = {"coo": "coo", "csr": "csc", "csc": "csr"}
        return [name for name in FORMATS if swapped[name] in self.of.created]

    def in_degrees(self) -> Tensor:
        return self.of.out_degrees()

    def out_degrees(self) -> Tensor:
        return self.of.in_degrees()

    def convert(self, **how: Any) -> Relation:
        return self.of.convert(**how).reverse


def rows_from(src: Tensor, dst: Tensor, num_src: int, first: int, count: int) -> Relation:
    """The edges into `count` destinations from `first` on, which become 0 and up.

    Edges keep their numbers, so features of all edges fit it. It has no COO form.
    """
    with _disable_current_modes():
        local = dst - first
        held = ((local >= 0) & (local < count)).nonzero().reshape(-1)
        indptr, order = sort_by_end(local[held], count)
        edges = held if order is None else held[order.long()]
        all_in_order = order is None and len(held) == len(dst)
        numbers = None if all_in_order else edges.to(dst.dtype)
        return Relation(
            num_src=num_src, num_dst=count, made_csc=Compressed(indptr, src[edges], numbers)
        )


def _compress(rows: Tensor, columns: Tensor, num_rows: int) -> Compressed:
    with _disable_current_modes():  # forms are kept, whoever records what is done now
        indptr, order = sort_by_end(rows, num_rows)
        return Compressed(indptr, columns if order is None else columns[order.long()], order)


def _expand(form: Compressed) -> tuple[Tensor, Tensor]:
    with _disable_current_modes():
        rows, columns = rows_of(form.indptr), form.indices
        if form.edge_ids is None:
            return rows, columns
        places = invert(form.edge_ids).long()
        return rows[places], columns[places]
