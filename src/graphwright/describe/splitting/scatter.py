"""Lookups and scatters by an index tensor, split over the rows of the table.

    lookup    w[idx[i], j]                              a part holds rows [lo, end) of w
    scatter   Sum(p: where(idx[p] == v, g[p, j], 0))    a part makes rows v in [lo, end)

In both cases the part's kernel gets the index minus lo, and a `Mask` says where to put zeros for
rows of other parts. `analysis` recognises lookups as hidden sums; this module recognises scatters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    Lambda,
    conjuncts,
    distinct,
    walk,
)
from graphwright.describe.properties import degree
from graphwright.symbolic import Atom, Poly, Symbol


@dataclass(frozen=True, slots=True)
class Mask:
    """A part holds the rows [lo, end): it subtracts lo from `index` and masks other rows with 0.

    The zeros go into the output of a lookup (`scattered` is None; `dims` are the output dims that
    the index has), or into the input `scattered` of a scatter.
    """

    index: int
    dims: tuple[int, ...]
    scattered: int | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """The number of comparisons of a variable with an index tensor, and the mask for them."""

    num_comparisons: int
    mask: Mask


def find_scatter(output: Lambda, variable: Symbol) -> Scatter | None:
    """Recognise a scatter along `variable` by an index tensor.

    The index must only be compared with the variable, to choose between 0 and a value linear in a
    source, and in nothing else, that is read nowhere else. Then a 0 in the source has the effect of
    a failed comparison.
    """
    if variable not in output.variables or not any(
        isinstance(e, Call) and _compared(e, variable) for e in distinct(output.body)
    ):
        return None
    nodes = list(walk(output.body))
    comparisons = [e for e in nodes if isinstance(e, Call) and _compared(e, variable)]
    chosen: list[Expr] = []
    for expr in nodes:
        match expr:
            case Call("where", (condition, value, Const(0))):
                if any(c in comparisons for c in conjuncts(condition)):
                    chosen.append(value)
            case _:
                pass
    if not comparisons or len(set(comparisons)) != 1 or len(chosen) != len(comparisons):
        return None
    index = comparisons[0].args[1]
    assert isinstance(index, Access)
    positions = [i.atom if isinstance(i, Poly) else None for i in index.index]
    if index.fill is not None and index.fill >= 0:
        return None  # lo is not subtracted from the fill
    if None in positions or variable in positions or len(set(positions)) != len(positions):
        return None
    reads = [e for e in nodes if isinstance(e, Access)]
    if sum(a.tensor == index.tensor for a in reads) != len(comparisons):
        return None
    for source in dict.fromkeys(a.tensor for a in reads):
        own = [a for a in reads if a.tensor == source]
        inside = [
            e for v in chosen for e in walk(v) if isinstance(e, Access) and e.tensor == source
        ]
        places = {tuple(_places(a, positions)) for a in own}
        if len(own) != len(inside) or len(places) != 1:
            continue
        dims = [d for d in places.pop() if d is not None]
        alone = all(a.tensor == source for v in chosen for a in walk(v) if isinstance(a, Access))
        linear = all(degree(v, {source}) == 1 for v in chosen)
        if len(dims) == len(positions) and linear and alone:  # 0 times another's NaN is NaN
            return Scatter(len(comparisons), Mask(index.tensor, tuple(dims), source))
    return None


def _compared(expr: Call, variable: Symbol) -> bool:
    match expr:
        case Call("eq", (IndexValue(index), Access())):
            return index.atom == variable
        case _:
            return False


def _places(access: Access, positions: list[Atom | None]) -> Iterator[int | None]:
    """The dim of `access` that each position indexes by itself."""
    plain = [i.atom if isinstance(i, Poly) else None for i in access.index]
    for position in positions:
        yield plain.index(position) if plain.count(position) == 1 else None
