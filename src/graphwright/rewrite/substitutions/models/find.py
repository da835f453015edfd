"""Find where substitutions apply to a model: matches of their sources that fit and make no cycle.

Tensors have names here, and a pattern is followed from a tensor to what makes it. A model has none
of the constants, so a source with one never matches. A target with a maximum over windows, which
has a second output, is not written yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Match,
    Substitution,
    Term,
    subterms,
)
from graphwright.rewrite.substitutions.models.recognise import Recognised
from graphwright.rewrite.substitutions.values import place

Binding = dict[str, Expression]

_NOT_WRITTEN = {"pool_max"}


def find(model: Recognised, substitutions: Iterable[Substitution]) -> Iterator[Match]:
    """Every match of every substitution, in the order of the model's nodes."""
    finder = _Finder(model)
    for substitution in substitutions:
        yield from finder.find(substitution)


class _Finder:
    def __init__(self, model: Recognised) -> None:
        self.model, self.shapes = model, model.shapes
        self.roots: dict[object, list[str]] = defaultdict(list)
        for name, terms in model.terms.items():
            for term in terms:
                if name not in self.roots[term.op, term.params]:
                    self.roots[term.op, term.params].append(name)
        self.above: dict[str, frozenset[str]] = {}

    def find(self, substitution: Substitution) -> Iterator[Match]:
        targets = subterms(*substitution.target)
        if any(isinstance(e, Term) and e.op in _NOT_WRITTEN for e in targets):
            return
        for binding, places in self._extend(substitution, {}, ()):
            match = Match(substitution, binding, tuple(map(Input, places)))
            if not self._is_cyclic(match) and place(match, self.shapes) is not None:
                yield match

    def _extend(
        self, substitution: Substitution, binding: Binding, places: tuple[str, ...]
    ) -> Iterator[tuple[Binding, tuple[str, ...]]]:
        if len(places) == len(substitution.source):
            yield binding, places
            return
        pattern = substitution.source[len(places)]
        assert isinstance(pattern, Term)
        for name in self.roots.get((pattern.op, pattern.params), ()):
            if name not in places:
                for bound in self._bind(pattern, name, binding):
                    yield from self._extend(substitution, bound, (*places, name))

    def _bind(self, pattern: Expression, name: str, binding: Binding) -> Iterator[Binding]:
        """Every binding that makes the pattern what this tensor is."""
        if isinstance(pattern, Input):
            if binding.get(pattern.name, Input(name)) == Input(name):
                yield {**binding, pattern.name: Input(name)}
            return
        for term in self.model.terms.get(name, ()):
            if (term.op, term.params) == (pattern.op, pattern.params):
                yield from self._bind_all(pattern.args, term.args, binding)

    def _bind_all(
        self,
        patterns: tuple[Expression, ...],
        args: tuple[Expression, ...],
        binding: Binding,
    ) -> Iterator[Binding]:
        if not patterns:
            yield binding
            return
        first = args[0]
        assert isinstance(first, Input)
        for bound in self._bind(patterns[0], first.name, binding):
            yield from self._bind_all(patterns[1:], args[1:], bound)

    def _is_cyclic(self, match: Match) -> bool:
        """Whether an input is made from an output that is replaced (TASO figure 2.6)."""
        places = {str(p) for p in match.places}
        bound = {str(e) for e in match.binding.values()}
        return bool(places & bound) or any(places & self._ancestors(name) for name in bound)

    def _ancestors(self, name: str) -> frozenset[str]:
        """Everything that a tensor is made from."""
        if name not in self.above:
            found: set[str] = set()
            waiting = [name]
            while waiting:
                node = self.model.graph.producer(waiting.pop())
                new = {i for i in node.inputs if i is not None} - found if node else set[str]()
                found |= new
                waiting += new
            self.above[name] = frozenset(found)
        return self.above[name]
