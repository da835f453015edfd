"""A function of the ends and the edge that is no built-in, without storing what it makes.

    map_edges(relation, f, u, v, e, shared)[k]  =  f(u[src[k]], v[dst[k]], e[k], *shared)
    sum_edges(relation, f, u, v, e, shared)[n]  =  the sum of that over the edges into n

Edges are taken in parts that fit a processor's cache. The backward pass computes each part again,
so nothing is kept but the operands: beside the operands, the results and their gradients, memory is
that of one part. Gradients of destinations are sums over the rows of the CSC form, those of sources
over the rows of the CSR form; each is a pass of its own. Gradients of gradients store the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.kernels.parts import with_sources
from graphwright.gnn.kernels.registered import is_recorded
from graphwright.gnn.storage import Compressed, Relation

Function = Callable[..., Tensor]
"""Of the rows of the operands that were given, in the order u, v, e, and of what is shared."""

PART_NUMBERS = 1 << 18
"""A part's messages are about so many numbers."""


def map_edges(
    relation: Relation, function: Function, u: Tensor | None = None, v: Tensor | None = None,
    e: Tensor | None = None, shared: Sequence[Tensor] = (),
) -> Tensor:  # fmt: skip
    """A value for each edge."""
    return _call(relation, function, "e", u, v, e, shared)


def sum_edges(
    relation: Relation, function: Function, u: Tensor | None = None, v: Tensor | None = None,
    e: Tensor | None = None, shared: Sequence[Tensor] = (),
) -> Tensor:  # fmt: skip
    """The sum of the values of a node's in-edges."""
    return _call(relation, function, "v", u, v, e, shared)


def _call(
    relation: Relation, function: Function, out_end: str, u: Tensor | None, v: Tensor | None,
    e: Tensor | None, shared: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    whole, (source,) = with_sources(relation, None if u is None else (u, "u"))
    given = {"u": None if source is None else source[0], "v": v, "e": e}
    ends = tuple(end for end in "uve" if given[end] is not None)
    tensors = [x for x in given.values() if x is not None]
    if not whole.num_edges or is_recorded(*tensors, *shared):
        return _stored(whole, function, out_end, ends, (*tensors, *shared))
    made = _InParts.apply(whole, function, out_end, ends, *tensors, *shared)
    assert isinstance(made, Tensor)
    return made


def _stored(
    relation: Relation, function: Function, out_end: str, ends: Sequence[str],
    tensors: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    """The same by PyTorch's operators on all edges at once."""
    src, dst = (end.long() for end in relation.coo)
    rows = {"u": src, "v": dst}
    taken = [
        x if end == "e" else x.index_select(0, rows[end])
        for end, x in zip(ends, tensors, strict=False)
    ]
    made = function(*taken, *tensors[len(ends) :])
    if out_end == "e":
        return made
    return made.new_zeros(relation.num_dst, *made.shape[1:]).index_add(0, dst, made)


@dataclass(frozen=True, slots=True)
class _Part:
    """Entries of a form one after another: their ends, and the rows that they lie in."""

    src: Tensor
    dst: Tensor
    edges: Tensor | slice
    rows: slice
    offsets: Tensor
    """Where each row's entries begin within the part, with their number at the end."""

    def rows_of(self, end: str, x: Tensor) -> Tensor:
        if end == "e":
            return x[self.edges]
        return x.index_select(0, self.src if end == "u" else self.dst)

    def add(self, total: Tensor, values: Tensor) -> None:
        """Add the values to the rows of a total."""
        flat = values.reshape(len(values), -1)
        places = torch.arange(len(flat), device=flat.device, dtype=self.offsets.dtype)
        sums = torch.embedding_bag(flat, places, self.offsets, False, 0, False, None, True)[0]
        total[self.rows] += sums.reshape(-1, *values.shape[1:])


def _parts(form: Compressed, by: str, width: int) -> Iterator[_Part]:
    size, total = max(1, PART_NUMBERS // width), len(form.indices)
    bounds = torch.arange(0, total + size, size, device=form.indptr.device).clamp(max=total)
    bounds = bounds.to(form.indptr.dtype)
    firsts = (torch.searchsorted(form.indptr, bounds[:-1], right=True) - 1).tolist()
    lasts = torch.searchsorted(form.indptr, bounds[1:]).tolist()
    for number, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        start, stop = number * size, min((number + 1) * size, total)
        offsets = form.indptr[first : last + 1].clamp(start, stop) - start
        numbers = torch.arange(first, last, device=offsets.device, dtype=offsets.dtype)
        own = torch.repeat_interleave(numbers, offsets.diff(), output_size=stop - start)
        other = form.indices[start:stop]
        edges = slice(start, stop) if form.edge_ids is None else form.edge_ids[start:stop].long()
        src, dst = (own, other) if by == "u" else (other, own)
        yield _Part(src, dst, edges, slice(first, last), offsets)


class _InParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, relation: Relation, function: Function, out_end: str, ends: tuple[str, ...],
        *tensors: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.call = relation, function, out_end, ends
        ctx.save_for_backward(*tensors)
        out: Tensor | None = None
        for part in _parts(relation.csc, "v", _width(tensors, ends)):
            values = function(*_taken(part, ends, tensors), *tensors[len(ends) :])
            if out is None:
                rows = relation.num_edges if out_end == "e" else relation.num_dst
                make = values.new_empty if out_end == "e" else values.new_zeros
                out = make(rows, *values.shape[1:])
            if out_end == "e":
                out[part.edges] = values
            else:
                part.add(out, values)
        assert out is not None
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        relation, function, out_end, ends = ctx.call
        tensors, wanted = ctx.saved_tensors, ctx.needs_input_grad[4:]
        if torch.is_grad_enabled():
            out = _stored(relation, function, out_end, ends, tensors)
            asked = [x for x, is_wanted in zip(tensors, wanted, strict=True) if is_wanted]
            made = iter(torch.autograd.grad(out, asked, grads[0], create_graph=True))
            return None, None, None, None, *(next(made) if w else None for w in wanted)
        totals = [
            torch.zeros_like(x, memory_format=torch.contiguous_format) if is_wanted else None
            for x, is_wanted in zip(tensors, wanted, strict=True)
        ]
        asked_at = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        kind = lambda at: ends[at] if at < len(ends) else "shared"
        of_sources = [at for at in asked_at if kind(at) == "u"]
        others = [at for at in asked_at if kind(at) != "u"]
        if others and all(kind(at) != "v" for at in others):  # these go with either form
            of_sources, others = (of_sources + others, []) if of_sources else ([], others)
        for form, by, asked in (
            (lambda: relation.csr, "u", of_sources),
            (lambda: relation.csc, "v", others),
        ):
            if not asked:
                continue
            for part in _parts(form(), by, _width(tensors, ends)):
                _add_gradients(part, function, out_end, ends, tensors, grads[0], asked, totals)
        return None, None, None, None, *totals


def _add_gradients(
    part: _Part, function: Function, out_end: str, ends: Sequence[str], tensors: Sequence[Tensor],
    grad: Tensor, asked: Sequence[int], totals: Sequence[Tensor | None],
) -> None:  # fmt: skip
    """Compute a part again, and add its share to the gradients that are asked for."""
    given = [*_taken(part, ends, tensors), *tensors[len(ends) :]]
    leaves = [x.detach().requires_grad_(at in asked) for at, x in enumerate(given)]
    with torch.enable_grad():
        values = function(*leaves)
    made: tuple[Tensor | None, ...] = torch.autograd.grad(
        values, [leaves[at] for at in asked], part.rows_of(out_end, grad), allow_unused=True
    )
    for at, share in zip(asked, made, strict=True):
        total = totals[at]
        assert total is not None
        if share is None:
            continue
        if at >= len(ends):
            total += share
        elif ends[at] == "e":
            total[part.edges] = share
        else:
            part.add(total, share)


def _taken(part: _Part, ends: Sequence[str], tensors: Sequence[Tensor]) -> list[Tensor]:
    return [part.rows_of(end, x) for end, x in zip(ends, tensors, strict=False)]


def _width(tensors: Sequence[Tensor], ends: Sequence[str]) -> int:
    """The numbers of one edge."""
    return max(1, *(x[:1].numel() for x in tensors[: len(ends)]))
