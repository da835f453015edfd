"""Proved substitutions, one per line: the table of ``graphwright rules``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from graphwright.errors import InvalidOption
from graphwright.report.tables import headed_plainly, number_column, text_column
from graphwright.rewrite import substitutions


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleListing:
    """Some rules of a library, and the counts of the whole library's generation."""

    rules: tuple[substitutions.Rule, ...]
    library: substitutions.Library


def list_rules(
    library: substitutions.Library, *, operator: str | None = None, size: int | None = None
) -> RuleListing:
    """The rules that have an operator in them, or a size."""
    if operator is not None and operator not in substitutions.PARAMETERS:
        raise InvalidOption(
            f"no rule has an operator {operator!r}; there are {', '.join(substitutions.PARAMETERS)}"
        )
    chosen = (
        rule
        for rule in library.rules
        if (operator is None or operator in _operators(rule))
        and (size is None or size == rule.substitution.size)
    )
    return RuleListing(rules=tuple(chosen), library=library)


def _operators(rule: substitutions.Rule) -> set[str]:
    item = rule.substitution
    terms = substitutions.subterms(*item.source, *item.target)
    return {term.op for term in terms if isinstance(term, substitutions.Term)}


def to_dict(listing: RuleListing) -> dict[str, object]:
    """The rules as JSON-ready data."""
    return {
        "counts": _plain(listing.library.counts),
        "rules": [rule_to_dict(rule) for rule in listing.rules],
    }


def rule_to_dict(rule: substitutions.Rule) -> dict[str, object]:
    """A rule as JSON-ready data."""
    item = rule.substitution
    return {
        "number": rule.number,
        "source": [str(e) for e in item.source],
        "target": [str(e) for e in item.target],
        "guard": [str(g) for g in item.guards],
        "size": item.size,
        "reversible": item.is_reversible,
        "axioms": list(rule.axioms),
        "proof_steps": rule.effort,
        "proof_seconds": rule.seconds,
    }


def _plain(counts: Mapping[str, Any]) -> dict[str, object]:
    return dict(counts)


def show(listing: RuleListing, console: Console) -> None:
    """Print the table."""
    every = len(listing.library)
    some = f"{len(listing.rules)} of " if len(listing.rules) < every else ""
    title = f"{some}{every} proved substitutions"
    table = headed_plainly(
        number_column("rule"), text_column("source"), text_column(""), text_column("target"),
        text_column("where"), title=title,
    )  # fmt: skip
    for rule in listing.rules:
        item = rule.substitution
        table.add_row(
            str(rule.number),
            "\n".join(map(str, item.source)),
            "<->" if item.is_reversible else "->",
            "\n".join(map(str, item.target)),
            "\n".join(map(str, item.guards)),
        )
    console.print(table)
