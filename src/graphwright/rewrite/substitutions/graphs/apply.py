"""Find a substitution's source in a graph, and put its target there.

A graph is the tuple of its output terms. The source matches where its outputs are subterms of the
graph, with one binding of its inputs; a source of several outputs may match terms that lie far
apart. The outcome could have a cycle where an input depends on an output that is replaced (TASO
figure 2.6): such a match is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphwright.rewrite.substitutions.graphs.substitution import Side, Substitution
from graphwright.rewrite.substitutions.graphs.terms import (
    Expression,
    Input,
    Term,
    substitute,
    subterms,
)

Binding = dict[str, Expression]


@dataclass(frozen=True, slots=True)
class Match:
    """Where a substitution applies: what its inputs are, and which terms its outputs are."""

    substitution: Substitution
    binding: Mapping[str, Expression]
    places: tuple[Expression, ...]

    @property
    def is_cyclic(self) -> bool:
        """Whether an input depends on a replaced output: the target would read its own result."""
        return any(
            place in subterms(value) for value in self.binding.values() for place in self.places
        )

    def targets(self) -> Side:
        """The terms in place of `places`."""
        bound: Mapping[Expression, Expression] = {
            Input(name): value for name, value in self.binding.items()
        }
        return tuple(substitute(output, bound) for output in self.substitution.target)


def matches(graph: Sequence[Expression], substitution: Substitution) -> Iterator[Match]:
    """Every match of the source that gives a graph without cycles."""
    terms = [e for e in subterms(*graph) if isinstance(e, Term)]

    def extend(outputs: Side, binding: Binding, places: tuple[Expression, ...]) -> Iterator[Match]:
        if not outputs:
            match = Match(substitution, binding, places)
            if not match.is_cyclic:
                yield match
            return
        for term in terms:
            if term not in places:
                bound = dict(binding)
                if bind(outputs[0], term, bound):
                    yield from extend(outputs[1:], bound, (*places, term))

    yield from extend(substitution.source, {}, ())


def bind(pattern: Expression, term: Expression, binding: Binding) -> bool:
    """Extend a binding such that the pattern becomes the term, if there is one."""
    if isinstance(pattern, Input):
        return binding.setdefault(pattern.name, term) == term
    return (
        isinstance(term, Term)
        and (pattern.op, pattern.params) == (term.op, term.params)
        and len(pattern.args) == len(term.args)
        and all(bind(p, t, binding) for p, t in zip(pattern.args, term.args, strict=True))
    )


def apply(graph: Sequence[Expression], match: Match) -> tuple[Expression, ...]:
    """The graph with the target in place of what was matched."""
    replaced = dict(zip(match.places, match.targets(), strict=True))
    return tuple(substitute(output, replaced) for output in graph)
