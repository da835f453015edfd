"""Every zoo model, small, under many plans on 2, 3 and 4 real workers: the same losses, parameters and state as on one device.

Plans are the ends of the frontier, Tofu's, FlexFlow's (annealing, shortly), every recipe and other system, and random strategies, some of them on
some of the workers only. Each trains for three steps on Gloo workers (one launch for each model and number of workers), and
every rank compares its losses and all parts that it holds with training on one device (`_exact`). The whole table takes hours on
two cores: with `--keep FILE` what is done is kept there, and the same command goes on from it.
Target: no difference above 1e-10 in float64 and 1e-5 in float32, relative to each tensor's largest element.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import torch

import graphwright as gw
from _exact import Apart, Case, Job, in_dtype, prepare, random_jobs, run, with_slack
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

TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
QUICK = ("mlp", "lenet", "rnnlm-2", "gpt2", "bert-base")
PROPOSALS = 200
SECONDS_PER_JOB = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model in both dtypes, and its plans for each number of workers, the cases numbered by their dtype."""

    cases: tuple[Case, ...]
    jobs: dict[int, list[Job]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one plan of one model."""

    dtype: str
    workers: int
    label: str
    worst: Apart
    making: float
    running: float

    def __str__(self) -> str:
        return f"in {self.dtype} on {self.workers} under {self.label}: {self.worst.where} is {self.worst.difference:.3g} apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """All outcomes of a model, what kept others from it, and the plans that it does not have."""

    outcomes: tuple[Outcome, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", help="these only, with commas between them")
    parser.add_argument("--random", type=int, help="random strategies for each model")
    parser.add_argument("--workers", default="2,3,4", help="numbers of workers")
    parser.add_argument(
        "--keep", type=Path, help="keep what is done in this file, and go on from it"
    )
    own, rest = parser.parse_known_args()
    options = parse_options(__doc__, rest)
    names = own.models.split(",") if own.models else QUICK if options.quick else zoo.names()
    num_random = own.random or (4 if options.quick else 20)
    workers = tuple(map(int, own.workers.split(",")))
    alike = find_alike(names)
    asked = (commit(), workers, num_random, options.seed, options.quick)
    kept, finished = read_kept(own.keep)
    if kept != asked:
        finished = {}
    todo = [name for name in alike if name not in finished]
    print(f"{len(alike)} different models of {len(names)}, {len(todo)} to run", flush=True)
    each = [(name, workers, num_random, options.seed, options.quick) for name in todo]
    for name, found in run_all(each):
        finished[name] = found
        if own.keep is not None:
            write_atomically(own.keep, pickle.dumps((asked, finished)))
    print_table(
        ("model", "dtype", "runs", "worst", "where", "workers", "plan", "making s", "3 steps s"),
        [r for name in alike for r in rows(name, finished[name])],
    )
    for name, others in alike.items():
        if others:
            print(f"{name}: the same small step as {', '.join(others)}")
        for note in finished[name].notes:
            print(f"{name}: {note}")
    return conclude(options, alike, finished)


def read_kept(path: Path | None) -> tuple[object, dict[str, Finished]]:
    """What an earlier run was asked, and what it had done."""
    if path is None or not path.exists():
        return None, {}
    asked, finished = pickle.loads(path.read_bytes())
    return asked, finished


def conclude(options: Options, alike: dict[str, list[str]], finished: dict[str, Finished]) -> int:
    misses, results = [], {}
    worst: dict[str, Apart] = {}
    for name in alike:
        misses += [f"{name} {failure}" for failure in finished[name].failures]
        for o in finished[name].outcomes:
            if not o.worst.difference <= TOLERANCE[o.dtype]:
                misses.append(f"{name} {o}")
            worst[o.dtype] = max(worst.get(o.dtype, Apart(0.0, "")), o.worst)
            key = f"{name} in {o.dtype} on {o.workers}"
            results.setdefault(key, {})[o.label] = [o.worst.difference, o.worst.where]
    save_result("exactness", options, {"alike": alike, "differences": results})
    count = sum(len(found.outcomes) for found in finished.values())
    most = ", ".join(
        f"{w.difference:.2g} in {t} (limit {TOLERANCE[t]:g})" for t, w in worst.items()
    )
    figure = f"{count} runs of {len(alike)} different models of {sum(1 + len(o) for o in alike.values())}: worst difference {most}"
    return finish(options, misses, figure)


# -- what to run --------------------------------------------------------------------------------------


def find_alike(names: Sequence[str]) -> dict[str, list[str]]:
    """Models whose small steps are one and the same, under the first of their names."""
    found: dict[tuple[str, bytes], list[str]] = {}
    for name in names:
        w = zoo.load(name, small=True, device="cpu")
        values = torch.cat([p.detach().reshape(-1) for p in w.model.parameters()])
        found.setdefault((w.capture().hash, values.numpy().tobytes()), []).append(name)
    return {first: others for first, *others in found.values()}


def prepare_all(what: tuple[str, Sequence[int], int, int, bool]) -> Prepared:
    """Capture a model in both dtypes, train it on one device, and plan it for all numbers of workers."""
    name, workers, num_random, seed, quick = what
    warnings.simplefilter("ignore")
    double = prepare(name, "float64")
    single = with_slack(prepare(name, "float32"), double)
    jobs: dict[int, list[Job]] = {}
    notes: list[str] = []
    for count in workers:
        found = searched(double, count, seed, notes, quick)
        seeds = range(seed, seed + num_random)
        found += random_jobs(0, double.graph, cluster(f"local:{count}"), seeds)
        jobs[count] = found + [in_dtype(job, 1, single.graph) for job in found]
    return Prepared(cases=(double, single), jobs=jobs, notes=tuple(dict.fromkeys(notes)))


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
) -> Iterator[tuple[str, Finished]]:
    """Every model's jobs, the next model planned meanwhile."""
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for (name, *_), prepared in zip(each, pool.map(prepare_all, each), strict=True):
            begun = perf_counter()
            finished = run_one(prepared)
            took = perf_counter() - begun
            print(f"{name}: {len(finished.outcomes)} runs in {took:.0f} s", flush=True)
            for failure in finished.failures:
                print(failure, flush=True)
            yield name, finished


def run_one(prepared: Prepared) -> Finished:
    """A model's jobs, with one launch for each number of workers."""
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for count, jobs in prepared.jobs.items():
        try:
            done = run(count, prepared.cases, jobs, SECONDS_PER_JOB * len(jobs), sharing=True)
        except WorkerFailed as error:
            failures.append(f"on {count} workers: {error}")
            continue
        outcomes += [
            Outcome(
                dtype=prepared.cases[d.job.case].dtype,
                workers=count,
                label=d.job.label,
                worst=d.worst,
                making=d.making,
                running=d.running,
            )
            for d in done
        ]
    return Finished(outcomes=tuple(outcomes), failures=tuple(failures), notes=prepared.notes)


def rows(name: str, finished: Finished) -> Iterator[tuple[object, ...]]:
    """A model's lines in the table."""
    for dtype in TOLERANCE:
        own = [o for o in finished.outcomes if o.dtype == dtype]
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
                sum(o.making for o in own),
                sum(o.running for o in own),
            )


if __name__ == "__main__":
    sys.exit(main())
