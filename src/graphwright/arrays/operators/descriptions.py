"""What the operators of arrays compute that PyTorch has no name for.

    array.map       a function of scalars, element by element, with broadcasting
    array.batch     a function of whole trailing dims: a sort, a transform, a factorisation
    array.einsum    sums of products over named indices
    array.random    numbers that depend on a seed and on an element's place alone
    array.fold      a reduction by a user's associative function
    array.join      arrays one after the other; splits along the dim in which they are joined

All other operators go by their names in ATen and are described in `describe.library`. The planner
reads descriptions and nothing else, so a user's function splits like a built-in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any

from graphwright.describe import describe
from graphwright.describe import language as tdl

Element = Callable[..., tdl.Expr]


@describe("array.map")
def map_elements(*xs: tdl.Tensor, function: str) -> Element:
    """One function of the elements at the same place."""
    return lambda *i: tdl.Opaque(function)(*(x[i] for x in xs))[()]


@describe("array.batch")
def batch(
    *xs: tdl.Tensor, function: str, dims: tdl.Int, outs: Sequence[tdl.Tensor]
) -> list[Element]:
    """A function along all but the first `dims` dims, which all tensors have in common."""
    lead = int(dims)

    def element(number: int) -> Element:
        def at(*i: tdl.Int) -> tdl.Expr:
            given = [x[(*i[:lead], *(slice(None),) * (x.rank - lead))] for x in xs]
            return tdl.Opaque(f"{function}:{number}")(*given)[i[lead:]]

        return at

    return [element(number) for number in range(len(outs))]


@describe("array.einsum")
def einsum(*xs: tdl.Tensor, subscripts: str) -> Element:
    """Products, summed over the letters that the result does not have."""
    given, result = subscripts.split("->")
    terms = given.split(",")
    sizes: dict[str, tdl.Int] = {}
    for letters, x in zip(terms, xs, strict=True):
        for letter, size in zip(letters, x.shape, strict=True):
            if letter not in sizes or sizes[letter] == 1:
                sizes[letter] = size
    summed = [letter for letter in sizes if letter not in result]

    def product(places: dict[str, tdl.Int]) -> Any:
        factors = (
            x[tuple(places[letter] for letter in letters)]
            for letters, x in zip(terms, xs, strict=True)
        )
        return reduce(mul, factors)

    def element(*i: tdl.Int) -> tdl.Expr:
        kept = dict(zip(result, i, strict=True))
        if not summed:
            value: tdl.Expr = product(kept)
            return value
        over = [sizes[letter] for letter in summed]
        return tdl.Sum(
            lambda *k: product(kept | dict(zip(summed, k, strict=True))),
            over=over,
        )

    return element


@describe("array.random", size=lambda out: out.shape)
def draw(*, distribution: str) -> Element:
    """A number for every element, by its place in the whole array."""
    return lambda *i: tdl.random(distribution)


@describe("array.fold")
def fold(x: tdl.Tensor, *, reducer_name: str) -> Element:
    """The first dim, folded by a user's function."""
    return lambda *i: tdl.reducer(reducer_name)(lambda k: x[(k, *i)])


@describe("array.join", size=lambda dim, out: out.shape[dim])
def join(
    *xs: tdl.Tensor, dim: int, starts: Sequence[tdl.Int], edges: Sequence[tdl.Int], size: tdl.Int
) -> Element:
    """Tensor k, whose element 0 is at `starts[k]`, up to `edges[k]`; a part's are its own."""
    d = int(dim)

    def element(*i: tdl.Int) -> tdl.Expr:
        values = [
            x.pad(0)[(*i[:d], i[d] - start, *i[d + 1 :])]
            for x, start in zip(xs, starts, strict=True)
        ]
        value: tdl.Expr = values[-1]
        for edge, before in zip(edges[::-1], values[-2::-1], strict=True):
            value = tdl.where(i[d] < edge, before, value)
        return value

    return element
