"""``python -m graphwright.rewrite.substitutions.generate``: write the library of substitutions.

A run that was ended goes on where it was: proofs are kept in the file that --proofs names.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from graphwright.rewrite.substitutions.generate.build import SIZE, Outcome, build
from graphwright.rewrite.substitutions.library import RULES, Library, Rule, save_rules
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.symbolic import prove as logic


def resuming(path: Path | None) -> Prover:
    """A prover that knows the proofs of a file, and adds its own to it."""
    if path is None:
        return Prover()
    known: dict[str, logic.Proof] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            key, data = json.loads(line)
        except ValueError:
            continue  # the line that was being written when the run was ended
        known[key] = _proof(data)

    def record(key: str, proof: logic.Proof) -> None:
        with path.open("a") as file:
            file.write(json.dumps([key, asdict(proof)]) + "\n")

    return Prover(known=known, record=record)


def _proof(data: dict[str, Any]) -> logic.Proof:
    return logic.Proof(
        verdict=logic.Verdict(data["verdict"]),
        seconds=data["seconds"],
        effort=data["effort"],
        axioms=tuple(data["axioms"]),
        assumptions=tuple(_tuples(a) for a in data["assumptions"]),
    )


def _tuples(data: Any) -> Any:
    return tuple(map(_tuples, data)) if isinstance(data, list) else data


def library_of(outcome: Outcome, size: int) -> Library:
    """What was proved, as it is shipped."""
    rules = tuple(
        Rule(
            number=number,
            substitution=item.substitution,
            axioms=item.proof.axioms,
            effort=item.proof.effort,
            seconds=item.proof.seconds,
        )
        for number, item in enumerate(outcome.proved)
    )
    return Library(rules=rules, size=size, counts=outcome.counts.to_dict())


def main() -> None:
    """Generate, prove, prune and save."""
    parser = argparse.ArgumentParser(description="Write the library of proved substitutions.")
    parser.add_argument("--size", type=int, default=SIZE, help=f"operators of a graph ({SIZE})")
    parser.add_argument("--proofs", type=Path, help="a file of proofs, to go on from")
    parser.add_argument("-o", "--output", type=Path, default=RULES, help="the file to write")
    options = parser.parse_args()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        outcome = build(options.size, prover=resuming(options.proofs), tell=tell)
    save_rules(library_of(outcome, options.size), options.output)
    console.print(outcome.counts)


if __name__ == "__main__":
    main()
