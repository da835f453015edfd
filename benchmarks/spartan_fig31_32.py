"""Spartan's figures 3.1 and 3.2: bytes of smart tiling, of the best tiling and of rows alone, for applications and random programs.

The thesis compares smart tiling (greedy) with the best tiling (brute force): equal for all applications and for 95 of 100 random programs of 2 to 15 operators; planning under 0.1 s, where
brute force took up to 1,900 s. That is measured twice: in the thesis' space with its costs (`_spartan_space`: rows and columns, one form of each product; and with duplicates), and in ours, which has every split of every operator,
blocks and shared terms. There the best tiling is our default, the exact search, which says whether it is proved, and every program is planned by all three: on 4 workers, where there are blocks, and
random programs on 2 as well. "Looking ahead" is the greedy search that also looks through undecided operators, which is ours. Bytes are what all workers together receive from others.
Targets: greedy equals the best on at least 95% of random programs in the thesis' space, our default on all of them in ours; the default plans each in under 0.1 s. Seconds are those of the processor, of the first plan of a
program after the process has planned one: compiled code is loaded, and nothing about the program is known.
Then the time of the exact search against 10 to 10,000 operators: logistic regression, its loop unrolled.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from random import Random
from time import process_time

import numpy as np

from _random_programs import random_program
from _report import Options, finish, parse_options, print_table, save_result
from _spartan_space import ThesisCosts, in_thesis_space
from graphwright.ir import Graph
from graphwright.partition.tiling import (
    RowTiling,
    SmartTiling,
    TilingAlgorithm,
    TilingPlan,
    plan_tilings,
)
from graphwright.zoo.programs import PROGRAMS

WORKERS = 4
LOOKAHEAD = 3
PROGRAM_COUNT, QUICK_COUNT = 1000, 150
STEPS, QUICK_STEPS = (1, 9, 90, 900), (1, 9, 90)
EQUAL, SECONDS = 0.95, 0.1
OTHERS: dict[str, TilingAlgorithm] = {
    "greedy": SmartTiling(),
    "looking ahead": SmartTiling(lookahead=LOOKAHEAD),
    "rows": RowTiling(),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program: its size, the bytes of each way, whether the best is known to be, seconds."""

    operators: int
    best: int
    others: dict[str, int]
    exact: bool
    seconds: float
    greedy_seconds: float

    def equal(self, other: str) -> bool:
        return self.others[other] <= self.best * (1 + 1e-9)


def timed(graph: Graph, workers: int, algorithm: TilingAlgorithm | str) -> tuple[TilingPlan, float]:
    start = process_time()
    plan = plan_tilings(graph, workers, algorithm=algorithm)
    return plan, process_time() - start


def compare(graph: Graph, workers: int) -> Comparison:
    best, seconds = timed(graph, workers, "exact")
    others = {name: timed(graph, workers, algorithm) for name, algorithm in OTHERS.items()}
    return Comparison(
        len(graph.nodes),
        best.nbytes,
        {name: plan.nbytes for name, (plan, _) in others.items()},
        best.exact,
        seconds,
        others["greedy"][1],
    )


def applications() -> dict[str, Comparison]:
    compared = {name: compare(program.capture(), WORKERS) for name, program in PROGRAMS.items()}
    print(f"Applications on {WORKERS} workers: MB received")
    print_table(
        ("program", "operators", "best", *OTHERS, "proved", "seconds"),
        [
            (
                name,
                c.operators,
                f"{c.best / 1e6:,.3f}",
                *(f"{nbytes / 1e6:,.3f}" for nbytes in c.others.values()),
                "yes" if c.exact else "no",
                f"{c.seconds:.3f}",
            )
            for name, c in compared.items()
        ],
    )
    return compared


def random_programs(workers: int, count: int, seed: int) -> list[Comparison]:
    compared = []
    for number in range(count):
        rng = Random(f"{seed} {number}")
        compared.append(compare(random_program(rng, rng.randint(2, 15)), workers))
    print(f"\n{count:,} random programs of 2 to 15 operators on {workers} workers")
    rows: list[tuple[str, str, str, str]] = []
    for name in OTHERS:
        ratios = [c.others[name] / c.best for c in compared if c.best]
        share = np.mean([c.equal(name) for c in compared])
        rows.append(
            (name, f"{share:.1%}", f"{np.median(ratios):.2f}", f"{np.percentile(ratios, 95):.2f}")
        )
    print_table(("tiling", "equals the default", "bytes, median ratio", "95th percentile"), rows)
    seconds = [c.seconds for c in compared]
    shown = ", ".join(f"{q}%: {np.percentile(seconds, q):.3f}" for q in (50, 90, 99, 100))
    print(
        f"planning, s, exact: {shown}; greedy at most {max(c.greedy_seconds for c in compared):.3f}"
    )
    print(f"the default is proved to be the best: {sum(c.exact for c in compared):,} of {count:,}")
    return compared


def thesis_space(count: int, seed: int) -> dict[str, list[ThesisCosts]]:
    """The same random programs in the thesis' space."""
    drawn = []
    for number in range(count):
        rng = Random(f"{seed} {number}")
        drawn.append(random_program(rng, rng.randint(2, 15)))
    made = {
        "rows, columns": [in_thesis_space(graph, duplicates=False) for graph in drawn],
        "and duplicates": [in_thesis_space(graph) for graph in drawn],
    }
    print(f"\n{count:,} random programs in the thesis' space: greedy against the best")
    rows = []
    for name, own in made.items():
        ratios = [c.greedy / c.best for c in own if c.best]
        freely = sum(not c.best and c.greedy > 0 for c in own)
        equal = np.mean([c.equal for c in own])
        rows.append((name, f"{equal:.1%}", "95 of 100", f"{max(ratios):.2f}", str(freely)))
    print_table(
        ("tilings", "equals the best", "thesis", "worst ratio", "best is 0, greedy not"), rows
    )
    return made


def growth(steps: tuple[int, ...]) -> dict[int, float]:
    program, seconds = PROGRAMS["logistic regression"], {}
    for count in steps:
        graph = replace(program, options={"steps": count}).capture()
        plan, taken = timed(graph, WORKERS, "exact")
        seconds[len(graph.nodes)] = taken
        assert plan.exact
    print(f"\nThe exact search against the number of operators, on {WORKERS} workers")
    print_table(
        ("operators", "seconds", "ms an operator"),
        [(n, f"{s:.3f}", f"{1000 * s / n:.2f}") for n, s in seconds.items()],
    )
    return seconds


def main(options: Options) -> int:
    compare(random_program(Random(0), 4), WORKERS)
    compare(random_program(Random(0), 4), 2)
    apps = applications()
    count = QUICK_COUNT if options.quick else PROGRAM_COUNT
    drawn = {workers: random_programs(workers, count, options.seed) for workers in (2, WORKERS)}
    thesis = thesis_space(PROGRAM_COUNT, options.seed)
    grown = growth(QUICK_STEPS if options.quick else STEPS)
    everything = [*apps.values(), *(c for own in drawn.values() for c in own)]
    misses = []
    in_thesis = {name: float(np.mean([c.equal for c in own])) for name, own in thesis.items()}
    for name, share in in_thesis.items():
        if share < EQUAL:
            misses.append(f"greedy equals the best on {share:.1%} of programs ({name})")
    unproved = [c for c in everything if not c.exact]
    if unproved:
        misses.append(
            f"{len(unproved)} of {len(everything)} programs are not proved to be the best"
        )
    worse = sum(min(c.others.values()) < c.best for c in everything)
    if worse:
        misses.append(f"another tiling takes fewer bytes than the default on {worse} programs")
    slow = [c.seconds for c in everything if c.seconds >= SECONDS]
    if slow:
        misses.append(
            f"{len(slow)} of {len(everything)} programs take {SECONDS} s or more to plan, "
            f"up to {max(slow):.2f} s"
        )
    results = {
        "applications": {name: _row(c) for name, c in apps.items()},
        "random": {str(w): [_row(c) for c in own] for w, own in drawn.items()},
        "thesis space": in_thesis,
        "growth": {str(n): s for n, s in grown.items()},
    }
    save_result("spartan_fig31_32", options, results)
    equal = {w: np.mean([c.equal("greedy") for c in own]) for w, own in drawn.items()}
    ahead = {w: np.mean([c.equal("looking ahead") for c in own]) for w, own in drawn.items()}
    figure = (
        f"greedy equals the best on {in_thesis['rows, columns']:.1%} of random programs in the "
        f"thesis' space, {in_thesis['and duplicates']:.1%} with duplicates (thesis 95%), on "
        f"{equal[2]:.1%} and {equal[WORKERS]:.1%} in ours on 2 and {WORKERS} workers, looking ahead {ahead[2]:.1%} and "
        f"{ahead[WORKERS]:.1%}; the default is proved best on "
        f"{len(everything) - len(unproved):,} of {len(everything):,}, in "
        f"{np.median([c.seconds for c in everything]):.3f} s (median; thesis under 0.1 s)"
    )
    return finish(options, misses, figure)


def _row(c: Comparison) -> dict[str, object]:
    return {
        "operators": c.operators,
        "best": c.best,
        **c.others,
        "exact": c.exact,
        "seconds": round(c.seconds, 4),
    }


if __name__ == "__main__":
    sys.exit(main(parse_options(__doc__)))
