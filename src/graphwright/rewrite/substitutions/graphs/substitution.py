"""A graph substitution: a source graph, a target graph, and the condition for their equality.

    source   matmul(x0, x1), matmul(x0, x2)
    target   split0(-1, matmul(x0, concat(-1, x1, x2))), split1(-1, matmul(x0, concat(-1, x1, x2)))

Outputs correspond by position, inputs by name (TASO section 2.3.1). Every input of the target is
one of the source, so that a match of the source says what the target reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphwright.rewrite.substitutions.graphs.terms import (
    CONSTANTS,
    Expression,
    Guard,
    Input,
    inputs_of,
    rename_inputs,
    size_of,
    subterms,
)

Side = tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Substitution:
    """Source and target compute the same outputs where the guards hold."""

    source: Side
    target: Side
    guards: tuple[Guard, ...] = ()

    def __str__(self) -> str:
        when = f" where {', '.join(map(str, self.guards))}" if self.guards else ""
        return f"{_show(self.source)} -> {_show(self.target)}{when}"

    @property
    def size(self) -> int:
        """The operators of the larger graph."""
        return max(size_of(*self.source), size_of(*self.target))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs, in the order of their first use in the source."""
        return inputs_of(*self.source)

    @property
    def is_reversible(self) -> bool:
        """Whether the target can be matched too: it has every input, and an operator to find."""
        return {*inputs_of(*self.target)} == {*self.inputs} and not any(
            isinstance(output, Input) for output in self.target
        )

    def reversed(self) -> Substitution:
        """The same from target to source."""
        return Substitution(self.target, self.source, self.guards)

    def canonical(self) -> Substitution:
        """The same with inputs x0, x1, ... in the order of their first use."""
        renamed = rename_inputs(
            [*self.source, *self.target, *(a for g in self.guards for a in g.args)]
        )
        count = len(self.source)
        rest = iter(renamed[2 * count :])
        guards = tuple(Guard(g.name, tuple(next(rest) for _ in g.args)) for g in self.guards)
        return Substitution(renamed[:count], renamed[count : 2 * count], guards)


def _show(side: Side) -> str:
    return ", ".join(map(str, side))


def oriented(a: Side, b: Side) -> Substitution | None:
    """A substitution between two graphs whose target needs no input that the source lacks."""
    if {*inputs_of(*b)} <= {*inputs_of(*a)}:
        return Substitution(a, b)
    return Substitution(b, a) if {*inputs_of(*a)} <= {*inputs_of(*b)} else None


def leaves_of(*outputs: Expression) -> list[Expression]:
    """Inputs and constants, in the order of their first use."""
    return [e for e in subterms(*outputs) if isinstance(e, Input) or e.op in CONSTANTS]
