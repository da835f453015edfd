"""The library of proved substitutions: data that comes with the package.

`rules.json` has, for each rule, source, target, guard, the properties that its proof used and the
steps it took; `proof_times.json` the seconds, which are not the same twice. Both are written by

    python -m graphwright.rewrite.substitutions.generate

which gives the same `rules.json` again. Nothing in the files is executed: terms are parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from graphwright.errors import GraphwrightError
from graphwright.files import read_whole, write_atomically
from graphwright.rewrite.substitutions.errors import InvalidRule
from graphwright.rewrite.substitutions.graphs import (
    Param,
    Substitution,
    inputs_of,
    parse,
    parse_guard,
    substitute,
)
from graphwright.rewrite.substitutions.properties import DOMAINS, GROUPED_PROPERTIES

RULES = Path(__file__).with_name("rules.json")
TIMES = "proof_times.json"
FORMAT = {"format": "graphwright rules", "version": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A proved substitution: its number, the axioms of its proof, its steps and its seconds."""

    number: int
    substitution: Substitution
    axioms: tuple[str, ...]
    effort: int
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.number}: {self.substitution}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Proved substitutions, and how many there were at each step of their generation."""

    rules: tuple[Rule, ...]
    size: int
    counts: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.rules)


@lru_cache(maxsize=1)
def shipped() -> Library:
    """The library that comes with the package."""
    return load_rules(RULES)


@lru_cache(maxsize=1)
def every_rule() -> tuple[Rule, ...]:
    """The rules of the library, and those that are validated properties themselves."""
    rules = list(shipped().rules)
    for item in GROUPED_PROPERTIES:
        names = list(item.parameters)
        for chosen in product(*(DOMAINS[item.parameters[name]] for name in names)):
            params: dict[Param, Param] = dict(zip(names, chosen, strict=True))
            source, target = (substitute(side, {}, params) for side in item.sides)
            made = Substitution((source,), (target,), item.guards)
            number = len(rules)
            rules.append(Rule(number=number, substitution=made, axioms=(item.equation,), effort=0))
    return tuple(rules)


def save_rules(library: Library, path: Path) -> None:
    """Write a library, and the seconds of its proofs beside it."""
    axioms = sorted({axiom for rule in library.rules for axiom in rule.axioms})
    numbers = {axiom: number for number, axiom in enumerate(axioms)}
    head = {**FORMAT, "size": library.size, "counts": library.counts, "properties": axioms}
    lines = [
        json.dumps(
            {
                "source": [str(e) for e in rule.substitution.source],
                "target": [str(e) for e in rule.substitution.target],
                "where": [str(g) for g in rule.substitution.guards],
                "by": [numbers[axiom] for axiom in rule.axioms],
                "effort": rule.effort,
            }
        )
        for rule in library.rules
    ]
    text = (
        json.dumps(head, indent=1)[:-2] + ',\n "rules": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
    )
    seconds = [None if rule.seconds is None else round(rule.seconds, 4) for rule in library.rules]
    write_atomically(path, text.encode())
    write_atomically(path.with_name(TIMES), (json.dumps({"seconds": seconds}) + "\n").encode())


def load_rules(path: Path) -> Library:
    """Read a library; what is not one is refused with the place."""
    document = _read(path)
    if {key: document.get(key) for key in FORMAT} != FORMAT:
        raise InvalidRule(f"{path} is no file of substitutions of version {FORMAT['version']}")
    times = path.with_name(TIMES)
    seconds: Sequence[Any] = _read(times).get("seconds", ()) if times.exists() else ()
    try:
        items = document["rules"]
        known = list(seconds) if len(seconds) == len(items) else [None] * len(items)
        rules = tuple(
            _rule(number, item, document["properties"], known[number], path)
            for number, item in enumerate(items)
        )
        return Library(rules=rules, size=int(document["size"]), counts=document["counts"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRule(f"{path}: {type(error).__name__} {error}; generate it again") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_whole(path))
    except (ValueError, GraphwrightError) as error:
        raise InvalidRule(f"cannot read substitutions from {path}: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRule(f"{path} is no file of substitutions: it has no table at its top")
    return document


def _rule(
    number: int, item: Any, properties: Sequence[str], seconds: float | None, path: Path
) -> Rule:
    try:
        substitution = Substitution(
            tuple(map(parse, item["source"])),
            tuple(map(parse, item["target"])),
            tuple(map(parse_guard, item["where"])),
        )
        axioms = tuple(properties[n] for n in item["by"])
        effort = int(item["effort"])
    except (KeyError, TypeError, IndexError, ValueError, GraphwrightError) as error:
        raise InvalidRule(f"{path}: rules[{number}]: {error}") from None
    missing = {*inputs_of(*substitution.target)} - {*substitution.inputs}
    if missing or len(substitution.source) != len(substitution.target):
        raise InvalidRule(
            f"{path}: rules[{number}]: source and target do not fit"
            + (f": the source has no input {sorted(missing)[0]}" if missing else "")
        )
    return Rule(
        number=number, substitution=substitution, axioms=axioms, effort=effort, seconds=seconds
    )
