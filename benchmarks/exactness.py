"""Every zoo model, small, under many plans on 2, 3 and 4 real workers: the same losses, parameters and state as on one device.

Plans are the ends of the frontier, Tofu's, FlexFlow's (annealing, shortly), every recipe and other system, and random strategies, some of them on
some of the workers only. Each trains for three steps on real workers (one launch for each model and number of workers, the smallest models first), and
every rank compares its losses and all parts that it holds with training on one device (`_exact`). The whole table takes hours on
two cores: with `--keep FILE` every run is kept there with its commit (a line of JSON for each model and number of workers), and the same command
goes on from it, also on a later commit.
Target: no difference above 1e-10 in float64 and 1e-5 in float32, relative to each tensor's largest element, beyond what rounding
alone does to the same training on one device (`_exact.with_slack`), which the table names where it is more than the limit. A plan that goes beyond twelve such trainings runs
again, and is judged by a hundred of them; a note says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

import graphwright as gw
from _exact import (
    CLOSER,
    FLOOR,
    GRANTED,
    NORMALISED,
    SHAKEN,
    STEPS,
    TOLERANCE,
    UNITS,
    Apart,
    Case,
    Done,
    Job,
    in_dtype,
    prepare,
    random_jobs,
    rounding,
    run,
    with_slack,
)
from _report import Options, commit, finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.errors import WorkerFailed
from graphwright.ir import write_atomically
from graphwright.machine import cluster
from graphwright.partition import (
    RECIPES,
    SYSTEMS,
    anneal,
    coarsen,
    data_parallel,
)
from graphwright.simulate import CostModel

QUICK = ("mlp", "lenet", "rnnlm-2", "gpt2", "bert-base")
RULE = (STEPS, *TOLERANCE.values(), FLOOR, SHAKEN, CLOSER, UNITS, GRANTED, NORMALISED)
"""What a difference is; runs by another rule are not put into one table."""
PROPOSALS = 200
SECONDS_PER_JOB = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model in both dtypes, and its plans for each number of workers, the cases numbered by their dtype."""

    cases: tuple[Case, ...]
    jobs: dict[int, list[Job]]
    notes: dict[int, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one plan of one model."""

    dtype: str
    workers: int
    label: str
    worst: Apart
    granted: Apart
    making: float
    running: float

    def __str__(self) -> str:
        return f"in {self.dtype} on {self.workers} under {self.label}: {self.worst.where} is {self.worst.difference:.3g} apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All outcomes of a model on one number of workers, or what kept it from them; and the plans that it does not have."""

    outcomes: tuple[Outcome, ...]
    failure: str | None
    notes: tuple[str, ...]
    commit: str


Table = dict[tuple[str, int], Finished]


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", help="these only, with commas between them")
    parser.add_argument("--random", type=int, help="random strategies for each model")
    parser.add_argument("--workers", default="2,3,4", help="numbers of workers")
    parser.add_argument(
        "--keep", type=Path, help="keep what is done in this file, and go on from it"
    )
    options, own = parse_options(__doc__, parser), parser.parse_known_args()[0]
    names = own.models.split(",") if own.models else QUICK if options.quick else zoo.names()
    num_random = own.random or (4 if options.quick else 20)
    workers = tuple(map(int, own.workers.split(",")))
    alike = find_alike(names)
    asked = (num_random, options.seed, options.quick)
    kept = read_kept(own.keep, [*asked, *RULE])
    wanted = [(name, count) for name in alike for count in workers]
    finished: Table = {key: kept[key] for key in wanted if key in kept and not kept[key].failure}
    each = []
    for name in alike:
        left = [count for count in workers if (name, count) not in finished]
        if left:
            each.append((name, left, *asked))
    print(f"{len(alike)} different models of {len(names)}, {len(each)} to run", flush=True)
    for key, found in run_all(each):
        finished[key] = kept[key] = found
        if own.keep is not None:
            write_kept(own.keep, [*asked, *RULE], kept)
    print_table(
        (
            "model",
            "dtype",
            "runs",
            "worst",
            "where",
            "workers",
            "plan",
            "granted for",
            "making s",
            "3 steps s",
        ),
        [r for name in alike for r in rows(name, [finished[name, c] for c in workers])],
    )
    for name, others in alike.items():
        if others:
            print(f"{name}: the same small step as {', '.join(others)}")
    for (name, _), found in finished.items():
        for note in found.notes:
            print(f"{name}: {note}")
    return conclude(options, alike, finished)


def read_kept(path: Path | None, asked: list[object]) -> Table:
    """What earlier runs that were asked the same have done."""
    if path is None or not path.exists():
        return {}
    before, *lines = map(json.loads, path.read_text().splitlines())
    if before != asked:
        raise SystemExit(f"{path} holds runs that were asked {before}, not {asked}; keep these in another file")  # fmt: skip
    return {(name, workers): _read(found) for name, workers, found in lines}


def _read(found: dict[str, Any]) -> Finished:
    runs = [
        Outcome(**{**run, "worst": Apart(**run["worst"]), "granted": Apart(**run["granted"])})
        for run in found["outcomes"]
    ]
    return Finished(**{**found, "outcomes": tuple(runs), "notes": tuple(found["notes"])})


def write_kept(path: Path, asked: list[object], kept: Table) -> None:
    """Keep what is done, a line for each model and number of workers."""
    lines: list[object] = [asked, *((*key, asdict(found)) for key, found in kept.items())]
    write_atomically(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def conclude(options: Options, alike: dict[str, list[str]], finished: Table) -> int:
    misses, results = [], {}
    worst: dict[str, Apart] = {}
    commits: dict[str, list[str]] = {}
    for (name, count), found in finished.items():
        commits.setdefault(found.commit, []).append(f"{name} on {count}")
        if found.failure:
            misses.append(f"{name} on {count} workers: {found.failure}")
        for o in found.outcomes:
            if not o.worst.difference <= TOLERANCE[o.dtype]:
                misses.append(f"{name} {o}")
            worst[o.dtype] = max(worst.get(o.dtype, Apart(0.0, "")), o.worst)
            key = f"{name} in {o.dtype} on {o.workers}"
            results.setdefault(key, {})[o.label] = [
                o.worst.difference,
                o.worst.where,
                o.granted.difference,
                o.granted.where,
            ]
    for number, of in commits.items():
        print(f"commit {number[:12]}: {', '.join(of) if len(commits) > 1 else 'all of it'}")
    save_result("exactness", options, {"alike": alike, "commits": commits, "differences": results})
    count = sum(len(found.outcomes) for found in finished.values())
    most = ", ".join(
        f"{w.difference:.2g} beyond rounding in {t} (limit {TOLERANCE[t]:g})"
        for t, w in worst.items()
    )
    figure = f"{count} runs of {len(alike)} different models of {sum(1 + len(o) for o in alike.values())}: worst difference {most}"
    return finish(options, misses, figure)


# -- what to run --------------------------------------------------------------------------------------


def find_alike(names: Sequence[str]) -> dict[str, list[str]]:
    """Models whose small steps are one and the same, under the first of their names; the smallest ones first."""
    found: dict[tuple[int, str, bytes], list[str]] = {}
    for name in names:
        w = zoo.load(name, small=True, device="cpu")
        values = torch.cat([p.detach().reshape(-1) for p in w.model.parameters()])
        graph = w.capture()
        key = (len(graph.nodes), graph.hash, values.numpy().tobytes())
        found.setdefault(key, []).append(name)
    return {first: others for _, (first, *others) in sorted(found.items())}


def prepare_all(what: tuple[str, Sequence[int], int, int, bool]) -> Prepared:
    """Capture a model in both dtypes, train it on one device, and plan it for some numbers of workers."""
    name, workers, num_random, seed, quick = what
    warnings.simplefilter("ignore")
    double, single = cases = tuple(
        with_slack(prepare(name, dtype), range(SHAKEN)) for dtype in TOLERANCE
    )
    jobs: dict[int, list[Job]] = {}
    notes: dict[int, list[str]] = {}
    for count in workers:
        notes[count] = [
            f"on {count}: in {case.dtype}, changing every weight by {UNITS:.0f} units in its last place changes {alone.where} by {alone.difference:.2g} on one device"
            for case in cases
            if GRANTED * (alone := rounding(case)).difference > TOLERANCE[case.dtype]
        ]
        found = searched(double, count, seed, notes[count], quick)
        seeds = range(seed, seed + num_random)
        found += random_jobs(0, double.graph, cluster(f"local:{count}"), seeds)
        jobs[count] = found + [in_dtype(job, 1, single.graph) for job in found]
    return Prepared(cases=cases, jobs=jobs, notes=notes)


def searched(case: Case, count: int, seed: int, notes: list[str], quick: bool) -> list[Job]:
    """The plans that people and searches come to."""
    on, costs = cluster(f"local:{count}"), CostModel(measured=False)
    others = (*RECIPES, "tofu", "replicate") if quick else (*RECIPES, *SYSTEMS, "replicate")
    frontier = gw.plan(case.graph, on, costs=costs, baselines=others, points=2, precision=0.05)
    notes += [f"on {count}: {note}" for note in frontier.notes if "not possible" in note]
    plans = {"smallest": frontier.smallest(), "fastest": frontier.fastest(), **frontier.others}
    start = data_parallel(case.graph, on)
    coarse = coarsen(case.graph)
    annealed = anneal(coarse, on, costs, starts=[start], seed=seed, max_proposals=PROPOSALS)
    plans["mcmc"] = annealed.plan
    return [Job(case=0, label=label, plan=plan) for label, plan in plans.items()]


# -- running it ---------------------------------------------------------------------------------------


def run_all(
    each: Sequence[tuple[str, Sequence[int], int, int, bool]],
) -> Iterator[tuple[tuple[str, int], Finished]]:
    """Every model's jobs, the next model planned meanwhile."""
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for (name, *_), prepared in zip(each, pool.map(prepare_all, each), strict=True):
            for count in prepared.jobs:
                begun = perf_counter()
                found = run_on(prepared, count)
                took = perf_counter() - begun
                print(f"{name} on {count}: {summary(found)}, {took:.0f} s", flush=True)
                yield (name, count), found


def summary(found: Finished) -> str:
    """What came of a model, in a line."""
    if found.failure:
        return found.failure
    worst = {t: max(o.worst for o in found.outcomes if o.dtype == t) for t in TOLERANCE}
    apart = ", ".join(f"{w.difference:.2g} in {t}" for t, w in worst.items())
    return f"{len(found.outcomes)} runs, worst {apart}"


def run_on(prepared: Prepared, count: int) -> Finished:
    """A model's jobs on a number of workers."""
    notes, outcomes, failure = [*prepared.notes[count]], (), None
    try:
        outcomes = tuple(
            Outcome(
                dtype=prepared.cases[d.job.case].dtype,
                workers=count,
                label=d.job.label,
                worst=d.worst,
                granted=d.granted,
                making=round(d.making, 2),
                running=round(d.running, 2),
            )
            for d in judged(prepared.cases, prepared.jobs[count], count, notes)
        )
    except WorkerFailed as error:
        failure = str(error)
    return Finished(outcomes=outcomes, failure=failure, notes=tuple(notes), commit=commit())


def judged(
    cases: Sequence[Case], jobs: Sequence[Job], count: int, notes: list[str]
) -> Iterator[Done]:
    """Jobs in one launch; then those again that go beyond what is granted, by a closer look at what rounding does."""
    done = run(count, cases, jobs, SECONDS_PER_JOB * len(jobs), sharing=True)
    again = [d.job for d in done if not d.worst.difference <= TOLERANCE[cases[d.job.case].dtype]]
    if again:
        which = ", ".join(f"{job.label} in {cases[job.case].dtype}" for job in again)
        notes.append(f"on {count}: judged by {CLOSER} trainings instead of {SHAKEN}: {which}")
        closer = list(cases)
        for number in {job.case for job in again}:
            closer[number] = with_slack(cases[number], range(SHAKEN, CLOSER))
        looked_at = iter(run(count, closer, again, SECONDS_PER_JOB * len(again), sharing=True))
    for d in done:
        yield next(looked_at) if d.job in again else d


def rows(name: str, finished: Sequence[Finished]) -> Iterator[tuple[object, ...]]:
    """A model's lines in the table."""
    for dtype in TOLERANCE:
        own = [o for found in finished for o in found.outcomes if o.dtype == dtype]
        if own:
            worst = max(own, key=lambda o: o.worst)
            yield (
                name,
                dtype,
                len(own),
                f"{worst.worst.difference:.2g}",
                worst.worst.where,
                worst.workers,
                worst.label,
                granted_for(own),
                sum(o.making for o in own),
                sum(o.running for o in own),
            )


def granted_for(outcomes: Sequence[Outcome]) -> str:
    """The largest difference that rounding is taken to explain, if any is above the limit."""
    most = max(o.granted for o in outcomes)
    return f"{most.difference:.2g} in {most.where}" if most.difference else ""


if __name__ == "__main__":
    sys.exit(main())
