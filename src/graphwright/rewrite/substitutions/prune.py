"""Prune redundant substitutions (TASO section 2.5); every optimisation stays possible.

Input renaming     Of substitutions that differ in the names of inputs, the most general one stays:
                   ewadd(x, y) -> ewadd(y, x) makes ewadd(x, x) -> ewadd(x, x) redundant.
Common subgraph    (1) Both graphs compute the same term from the same inputs: if a new input in its
                   place gives a valid substitution, that one is more general. (2) Both graphs end
                   in the same operator: if they are valid without it, that is more general.

What is more general need not be among the substitutions that were found: it holds for the values of
the enumeration's own inputs, so its graphs are in one class there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Substitution,
    Term,
    inputs_of,
    is_operator,
    substitute,
    subterms,
)

IsValid = Callable[[Expression, Expression, Expression | None], bool]
"""Whether two terms are equal; the third stands for a term in whose place a new input is."""

FRESH = Input("fresh")


def prune_renamed(substitutions: Iterable[Substitution]) -> list[Substitution]:
    """Leave one of those that are equal up to names of inputs, and none that another implies."""
    groups: dict[object, list[Substitution]] = defaultdict(list)
    distinct: dict[object, Substitution] = {}
    for item in substitutions:
        renamed = item.canonical()
        distinct.setdefault((renamed.source, renamed.target), item)
    for item in distinct.values():
        groups[_skeleton(item)].append(item)
    kept = []
    for group in groups.values():
        names = [tuple(_names(item)) for item in group]
        for mine, item in zip(names, group, strict=True):
            if not any(_implies(other, mine) for other in names if other is not mine):
                kept.append(item)
    return kept


def _skeleton(item: Substitution) -> object:
    """The substitution without the names of its inputs."""
    blank: dict[Expression, Expression] = {Input(n): Input("_") for n in inputs_of(*item.source)}
    return tuple(substitute(e, blank) for e in (*item.source, *item.target))


def _names(item: Substitution) -> Iterator[str]:
    """The inputs, once for every use."""

    def visit(e: Expression) -> Iterator[str]:
        if isinstance(e, Input):
            yield e.name
        else:
            for arg in e.args:
                yield from visit(arg)

    for output in (*item.source, *item.target):
        yield from visit(output)


def _implies(general: tuple[str, ...], special: tuple[str, ...]) -> bool:
    """Whether renaming inputs, perhaps several to one, makes `special` of `general`."""
    names = dict(zip(general, special, strict=True))
    forwards = all(names[a] == b for a, b in zip(general, special, strict=True))
    return forwards and len({*names.values()}) < len(names)


def prune_common(substitutions: Iterable[Substitution], is_valid: IsValid) -> list[Substitution]:
    """Leave out what a more general substitution implies: a common subgraph was not needed."""
    return [
        item
        for item in substitutions
        if not (_common_argument(item, is_valid) or _common_ending(item, is_valid))
    ]


def _common_argument(item: Substitution, is_valid: IsValid) -> bool:
    shared = {*subterms(*item.source)} & {*subterms(*item.target)}
    for common in shared:
        if not is_operator(common) or common in (*item.source, *item.target):
            continue
        place: dict[Expression, Expression] = {common: FRESH}
        general = Substitution(
            tuple(substitute(e, place) for e in item.source),
            tuple(substitute(e, place) for e in item.target),
        )
        pairs = zip(general.source, general.target, strict=True)
        if all(a == b or is_valid(a, b, common) for a, b in pairs):
            return True
    return False


def _common_ending(item: Substitution, is_valid: IsValid) -> bool:
    if len(item.source) != 1:
        return False
    (a,), (b,) = item.source, item.target
    if not isinstance(a, Term) or not isinstance(b, Term) or not a.args:
        return False
    if (a.op, a.params, len(a.args)) != (b.op, b.params, len(b.args)):
        return False
    return all(x == y or is_valid(x, y, None) for x, y in zip(a.args, b.args, strict=True))
