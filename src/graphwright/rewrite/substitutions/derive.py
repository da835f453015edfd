"""Leave out what follows from smaller substitutions, applied one after the other.

A term is brought to a normal form: wherever a substitution that was kept makes it smaller, it is
applied. Smaller means fewer operators, then fewer nodes as a tree, then first in the alphabet; so
the number of operators never grows on the way, and a search that may use the steps reaches what the
single substitution would have reached. If both graphs have one normal form, it is redundant.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Guard,
    Input,
    Substitution,
    Term,
    bind,
    size_of,
    substitute,
    subterms,
)


def order(expression: Expression) -> tuple[int, int, str]:
    """What is smaller comes first."""
    return size_of(expression), _nodes(expression), str(expression)


def _nodes(expression: Expression) -> int:
    return 1 if isinstance(expression, Input) else 1 + sum(map(_nodes, expression.args))


@dataclass(slots=True)
class Derivations:
    """The substitutions that were kept, by the operator at the root of what they match."""

    _rules: dict[tuple[object, ...], list[Substitution]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, item: Substitution) -> None:
        """Use a substitution from now on, in both directions where it has two."""
        for each in (item, item.reversed()) if item.is_reversible else (item,):
            if len(each.source) == 1 and isinstance(each.source[0], Term):
                root = each.source[0]
                self._rules[root.op, root.params].append(each)

    def derive(self, item: Substitution) -> bool:
        """Whether both graphs have one normal form, under the guards of the substitution."""
        if len(item.source) != 1:
            return False
        allowed = {*item.guards}
        return self._normal(item.source[0], allowed) == self._normal(item.target[0], allowed)

    def _normal(self, expression: Expression, allowed: set[Guard]) -> Expression:
        while True:
            better = self._step(expression, allowed)
            if better is None:
                return expression
            expression = better

    def _step(self, expression: Expression, allowed: set[Guard]) -> Expression | None:
        best, least = None, order(expression)
        for place in subterms(expression):
            if not isinstance(place, Term):
                continue
            for rule in self._rules.get((place.op, place.params), ()):
                binding: dict[str, Expression] = {}
                if not bind(rule.source[0], place, binding):
                    continue
                bound: dict[Expression, Expression] = {Input(n): e for n, e in binding.items()}
                if not all(_instance(guard, bound) in allowed for guard in rule.guards):
                    continue
                made = substitute(expression, {place: substitute(rule.target[0], bound)})
                if order(made) < least:
                    best, least = made, order(made)
        return best


def _instance(guard: Guard, bound: dict[Expression, Expression]) -> Guard:
    return Guard(guard.name, tuple(substitute(arg, bound) for arg in guard.args))
