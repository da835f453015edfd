"""``make validate-axioms``: check every property on all shapes up to a bound.

What is done is kept in a file, property by property and choice by choice of parameters, so that a
sweep that was ended goes on where it was. A property that does not hold ends the sweep with its
smallest counter-example.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from graphwright.rewrite.substitutions.errors import WrongProperty
from graphwright.rewrite.substitutions.properties import (
    GROUPED_PROPERTIES,
    OWN_PROPERTIES,
    PROPERTIES,
)
from graphwright.rewrite.substitutions.validate.instances import (
    SECONDS,
    instances,
    require_instance,
)

BOUND = 3


def read_done(path: Path, bound: int) -> dict[str, int]:
    """How many instances of which sides were checked before, for this bound."""
    done: dict[str, int] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            of, sides, count = json.loads(line)
        except ValueError:
            continue  # the line that was being written when the sweep was ended
        if of == bound:
            done[sides] = count
    return done


def main() -> int:
    """Sweep over all properties."""
    parser = argparse.ArgumentParser(description="Validate the properties of operators.")
    parser.add_argument("--bound", type=int, default=BOUND, help=f"largest size ({BOUND})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of one question")
    parser.add_argument("--done", type=Path, default=Path(".validated-axioms.jsonl"))
    parser.add_argument("--only", default="", help="properties with this in their equation")
    options = parser.parse_args()
    done = read_done(options.done, options.bound)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    every = (*PROPERTIES, *OWN_PROPERTIES, *GROUPED_PROPERTIES)
    chosen = [p for p in every if options.only in p.equation]
    total = 0
    with Progress(*columns, console=console) as bar:
        overall = bar.add_task("properties", total=len(chosen))
        for item in chosen:
            task = bar.add_task(item.equation[:70], total=None)
            for sides, group in groupby(instances(item, options.bound), key=lambda i: i.equation):
                if sides in done:
                    total += done[sides]
                    continue
                each = list(group)
                bar.update(task, completed=0, total=len(each), description=sides[:70])
                for instance in each:
                    try:
                        require_instance(item, instance, options.seconds)
                    except WrongProperty as error:
                        console.print(f"[bold red]WrongProperty[/]: {error}")
                        return 1
                    bar.advance(task)
                total += len(each)
                with options.done.open("a") as file:
                    file.write(json.dumps([options.bound, sides, len(each)]) + "\n")
            bar.remove_task(task)
            bar.advance(overall)
    console.print(f"{len(chosen)} properties hold in {total:,} instances up to {options.bound}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
