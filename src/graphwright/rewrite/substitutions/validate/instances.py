"""Validate operator properties: run both sides on symbols for all small shapes and parameters.

    property -> instances, the smallest first -> both sides over Z3's reals -> equal, or values
                                                                              where they differ

An instance gives every variable a shape and every parameter a value, such that both sides have a
shape and the guards hold. Proofs know nothing of shapes, so sides of different shapes refute a
property as different values do; but constants get the shape that fits, if there is one. As the
smallest instances come first, a wrong property shows its smallest counter-example. TASO section 2.4
does the same up to sizes of 4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from graphwright.rewrite.substitutions.errors import WrongProperty
from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Guard,
    Input,
    Param,
    Shape,
    Substitution,
    leaves_of,
    sizes_of,
    substitute,
)
from graphwright.rewrite.substitutions.properties import DOMAINS, Property
from graphwright.rewrite.substitutions.validate.reals import check
from graphwright.rewrite.substitutions.values import (
    RANKS,
    Given,
    fits,
    have_shapes,
    is_possible,
    kinds_of,
)
from graphwright.symbolic import prove as logic

SECONDS = 60.0
"""How long Z3 may take for one instance whose sides have no common normal form."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Both sides with parameters, and the shapes of inputs and constants."""

    sides: Substitution
    given: Given

    def __str__(self) -> str:
        shapes = ", ".join(f"{e}: {list(sizes_of(s))}" for e, s in self.given.items())
        return f"{self.equation} with {shapes}"

    @property
    def equation(self) -> str:
        """Both sides as text."""
        return f"{self.sides.source[0]} = {self.sides.target[0]}"

    @property
    def elements(self) -> int:
        """The number of elements of all variables."""
        return sum(prod(sizes_of(shape)) for shape in self.given.values())


def instances(item: Property, bound: int, limit: int | None = None) -> Iterator[Instance]:
    """Every instance with sizes up to `bound`: by parameters, then by number of elements.

    With a `limit`, only so many of each choice of parameters, from the smallest to the largest.
    """
    names = list(item.parameters)
    for chosen in product(*(DOMAINS[item.parameters[name]] for name in names)):
        params: dict[Param, Param] = dict(zip(names, chosen, strict=True))
        left, right = (substitute(side, {}, params) for side in item.sides)
        guards = tuple(
            Guard(g.name, tuple(substitute(a, {}, params) for a in g.args)) for g in item.guards
        )
        found = instances_of(Substitution((left,), (right,), guards), bound)
        yield from found if limit is None else found[:: max(1, len(found) // limit)]


def instances_of(item: Substitution, bound: int) -> list[Instance]:
    """Every choice of shapes under which both sides have one, the smallest first."""
    outputs = (*item.source, *item.target)
    leaves = leaves_of(*outputs)
    found: list[Instance] = []

    def extend(given: dict[Expression, Shape]) -> None:
        if len(given) == len(leaves):
            if have_shapes(item, given):
                found.append(Instance(item, dict(given)))
            return
        leaf = leaves[len(given)]
        ranks = tuple(RANKS[kind] for kind in kinds_of(leaf, *outputs))
        for shape in _shapes(ranks, bound):
            given[leaf] = shape
            if is_possible(outputs, given):
                extend(given)
            del given[leaf]

    extend({})
    by_inputs: dict[object, list[Instance]] = defaultdict(list)
    for instance in found:
        key = tuple((e, shape) for e, shape in instance.given.items() if isinstance(e, Input))
        by_inputs[key].append(instance)
    chosen: list[Instance] = []
    for group in by_inputs.values():
        chosen += [i for i in group if fits(i.sides, i.given)] or group[:1]
    return sorted(chosen, key=lambda instance: instance.elements)


@lru_cache
def _shapes(ranks: tuple[int, ...], bound: int) -> tuple[Shape, ...]:
    return tuple(shape for r in ranks for shape in product(range(1, bound + 1), repeat=r))


def require_valid(
    item: Property, bound: int, seconds: float = SECONDS, limit: int | None = None
) -> int:
    """Check the instances up to `bound`; the number of them. A wrong property is an error."""
    count = 0
    for instance in instances(item, bound, limit):
        require_instance(item, instance, seconds)
        count += 1
    return count


def require_instance(item: Property, instance: Instance, seconds: float = SECONDS) -> None:
    """Check one instance; where its sides differ, or Z3 does not know, the property is wrong."""
    if not fits(instance.sides, instance.given):
        raise WrongProperty(
            f"{item.equation} does not hold: the sides have different shapes in {instance}"
        )
    answer = check(instance.sides, instance.given, seconds)
    if answer.verdict is not logic.Verdict.PROVED:
        raise WrongProperty(_explain(item, instance, answer))


def _explain(item: Property, instance: Instance, answer: logic.Answer) -> str:
    """Why an instance is not valid, with its values."""
    if answer.verdict is logic.Verdict.UNKNOWN:
        return f"{item.equation} is not proved: Z3 does not know about {instance}"
    assert answer.values is not None and answer.sides is not None
    values = ", ".join(f"{name} = {value}" for name, value in sorted(answer.values.items()))
    return (
        f"{item.equation} does not hold: {instance}; where {values}, one side is "
        f"{answer.sides[0]}, the other {answer.sides[1]}"
    )
