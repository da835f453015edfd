"""Prove substitutions from operator properties, by Z3 and within a time limit (TASO section 2.4).

Operators are uninterpreted functions of parameters and tensors, properties are axioms over all of
them, and a substitution is proved when every output's equation follows. Guards are predicates: the
proof may assume that the data and weights of convolutions fit without groups; the assumptions that
it needs become the guard of the substitution, and are checked wherever it is applied.

Axioms are instantiated where one of their sides, or a part that has all variables, occurs
(`triggers`), so Z3 rewrites in both directions. It gives up when the time is over, or when nothing
new can be instantiated: that is "unknown", and no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Guard,
    Input,
    Param,
    Term,
    inputs_of,
    subterms,
)
from graphwright.rewrite.substitutions.properties import OWN_PROPERTIES, PROPERTIES, Property
from graphwright.symbolic import prove as logic

EFFORT = 5_000_000
"""The steps that Z3 may take for one equation: a second or two, the same on every machine."""

SECONDS = 60.0
"""The limit in seconds, which a step limit alone would not be."""


def first_order(expression: Expression) -> logic.FirstOrder:
    """A term as the prover reads it."""
    if isinstance(expression, Input):
        return expression.name
    params = tuple(_param(p) for p in expression.params)
    return (expression.op, *params, *map(first_order, expression.args))


def _param(value: Param) -> str:
    return value if isinstance(value, str) else f"#{value}"


def axiom_of(item: Property) -> logic.Axiom:
    """A property as an axiom, with the terms that instantiate it."""
    variables = {*item.variables, *map(str, item.parameters)}
    triggers = [side for side in item.sides if _is_trigger(side, item)]
    for side in item.sides:
        if isinstance(side, Term) and side not in triggers:
            triggers += [e for e in subterms(side) if e != side and _is_trigger(e, item)]
    left, right = map(first_order, item.sides)
    return logic.Axiom(
        variables=tuple(sorted(variables)),
        left=left,
        right=right,
        when=tuple((g.name, *map(first_order, g.args)) for g in item.guards),
        triggers=tuple(map(first_order, dict.fromkeys(triggers))),
    )


def _is_trigger(expression: Expression, item: Property) -> bool:
    """Whether this is an operator in which every variable of the property occurs."""
    if not isinstance(expression, Term) or not expression.args:
        return False
    params = {p for e in subterms(expression) if isinstance(e, Term) for p in e.params}
    return {*item.variables} == {*inputs_of(expression)} and params >= item.parameters.keys()


def assumable(*outputs: Expression) -> Iterator[Guard]:
    """The guards that a proof may assume: for all data and weights of convolutions."""
    convs = [e for e in subterms(*outputs) if isinstance(e, Term) and e.op == "conv"]
    data = dict.fromkeys(part for conv in convs for part in _parts(conv.args[0], ("concat",)))
    weights = dict.fromkeys(part for conv in convs for part in _parts(conv.args[1], _ON_WEIGHTS))
    return (Guard("ungrouped", pair) for pair in product(data, weights))


_ON_WEIGHTS = ("concat", "ewadd", "smul", "enlarge")


def _parts(expression: Expression, through: Sequence[str]) -> Iterator[Expression]:
    """A term and what some operators make it of."""
    yield expression
    if isinstance(expression, Term) and expression.op in through:
        for arg in expression.args[: 1 if expression.op == "smul" else None]:
            yield from _parts(arg, through)


@dataclass(slots=True)
class Prover:
    """Proves equations, each once; `known` are proofs from before, `record` is told new ones."""

    properties: Sequence[Property] = (*PROPERTIES, *OWN_PROPERTIES)
    effort: int = EFFORT
    seconds: float = SECONDS
    known: dict[str, logic.Proof] = field(default_factory=dict)
    record: Callable[[str, logic.Proof], None] = lambda key, proof: None
    _theory: logic.Theory = field(init=False)

    def __post_init__(self) -> None:
        self._theory = logic.Theory({p.equation: axiom_of(p) for p in self.properties})

    def prove(
        self, source: Sequence[Expression], target: Sequence[Expression]
    ) -> tuple[logic.Proof, tuple[Guard, ...]]:
        """Whether two graphs compute the same, output by output, and under which guards."""
        atoms = {(g.name, *map(first_order, g.args)): g for g in assumable(*source, *target)}
        total = logic.Proof(verdict=logic.Verdict.PROVED, seconds=0.0)
        needed: dict[Guard, None] = {}
        for a, b in zip(source, target, strict=True):
            proof = self._prove(first_order(a), first_order(b), tuple(atoms))
            total = logic.Proof(
                verdict=proof.verdict,
                seconds=total.seconds + proof.seconds,
                effort=total.effort + proof.effort,
                axioms=tuple(dict.fromkeys((*total.axioms, *proof.axioms))),
            )
            if proof.verdict is not logic.Verdict.PROVED:
                return total, ()
            needed |= dict.fromkeys(atoms[a] for a in proof.assumptions if isinstance(a, tuple))
        return total, tuple(needed)

    def _prove(
        self,
        left: logic.FirstOrder,
        right: logic.FirstOrder,
        atoms: tuple[logic.FirstOrder, ...],
    ) -> logic.Proof:
        key = repr((left, right, atoms))
        if key not in self.known:
            proof = self._theory.prove(left, right, atoms, effort=self.effort, seconds=self.seconds)
            self.known[key] = proof
            self.record(key, proof)
        return self.known[key]


def redundant(properties: Sequence[Property]) -> list[Property]:
    """Those properties that follow from the others, as far as Z3 finds out (TASO section 2.4)."""
    found = []
    for item in properties:
        prover = Prover(properties=[other for other in properties if other is not item])
        left, right = item.sides
        proof, guards = prover.prove([left], [right])
        if proof.verdict is logic.Verdict.PROVED and {*guards} <= {*item.guards}:
            found.append(item)
    return found
