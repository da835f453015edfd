"""Every zoo model, small, under many plans on 2, 3 and 4 real workers: the same losses, parameters and state as on one device.

Plans are the ends of the frontier, Tofu's, FlexFlow's (annealing, shortly), every recipe and other system, and random strategies, some of them on
some of the workers only. Each trains for three steps on Gloo workers (one launch for each number of workers), and every rank
compares its losses and all parts that it holds with training on one device (`_exact`).
Target: no difference above 1e-10 in float64 and 1e-5 in float32, relative to each tensor's largest element.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter

import torch

import graphwright as gw
from _exact import Apart, Case, Done, Job, describe, in_dtype, prepare, random_jobs, run, with_slack
from _report import Options, finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.errors import WorkerFailed
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
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", help="these only, with commas between them")
    parser.add_argument("--random", type=int, help="random strategies for each model")
    parser.add_argument("--workers", default="2,3,4", help="numbers of workers")
    own, rest = parser.parse_known_args()
    options = parse_options(__doc__, rest)
    names = own.models.split(",") if own.models else QUICK if options.quick else zoo.names()
    num_random = own.random or (4 if options.quick else 20)
    workers = tuple(map(int, own.workers.split(",")))
    alike = find_alike(names)
    begun = perf_counter()
    with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        each = [(name, workers, num_random, options.seed, options.quick) for name in alike]
        prepared = dict(zip(alike, pool.map(prepare_all, each), strict=True))
    print(f"{len(alike)} models captured and planned in {perf_counter() - begun:.0f} s", flush=True)
    done, failures = run_all(prepared, workers)
    rows = [row(name, dtype, done[name]) for name in alike for dtype in TOLERANCE if done[name]]
    print_table(
        ("model", "dtype", "runs", "worst", "where", "workers", "plan", "making s", "3 steps s"),
        [r for r in rows if r is not None],
    )
    for name, others in alike.items():
        if others:
            print(f"{name}: the same small step as {', '.join(others)}")
    for name, found in prepared.items():
        for note in found.notes:
            print(f"{name}: {note}")
    return conclude(options, alike, prepared, done, failures)


def conclude(
    options: Options,
    alike: dict[str, list[str]],
    prepared: dict[str, Prepared],
    done: dict[str, list[Done]],
    failures: Sequence[str],
) -> int:
    misses, worst, results = list(failures), {}, {}
    for name in alike:
        for d in done[name]:
            case = prepared[name].cases[d.job.case]
            if d.worst.difference > TOLERANCE[case.dtype]:
                misses.append(
                    f"{describe(case, d.job)}: {d.worst.where} is {d.worst.difference:.3g} apart"
                )
            worst[case.dtype] = max(worst.get(case.dtype, Apart(0.0, "")), d.worst)
            key = f"{name} in {case.dtype} on {d.job.plan.cluster.num_devices}"
            results.setdefault(key, {})[d.job.label] = [d.worst.difference, d.worst.where]
    save_result("exactness", options, {"alike": alike, "differences": results})
    count = sum(len(found) for found in done.values())
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
    begun = perf_counter()
    double = prepare(name, "float64")
    single = with_slack(prepare(name, "float32"), double)
    jobs: dict[int, list[Job]] = {}
    notes: list[str] = []
    for count in workers:
        found = searched(double, count, seed, notes, quick)
        seeds = range(seed, seed + num_random)
        found += random_jobs(0, double.graph, cluster(f"local:{count}"), seeds)
        jobs[count] = found + [in_dtype(job, 1, single.graph) for job in found]
    return Prepared(
        cases=(double, single),
        jobs=jobs,
        notes=tuple(dict.fromkeys(notes)),
        seconds=perf_counter() - begun,
    )


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
    prepared: dict[str, Prepared], workers: Sequence[int]
) -> tuple[dict[str, list[Done]], list[str]]:
    """Every model's jobs, with one launch for each number of workers; models that fail are left out of it and named."""
    done: dict[str, list[Done]] = {name: [] for name in prepared}
    failures: list[str] = []
    for count in workers:
        cases: list[Case] = []
        jobs: list[Job] = []
        owner: list[str] = []
        for name, found in prepared.items():
            jobs += [
                Job(case=len(cases) + job.case, label=job.label, plan=job.plan)
                for job in found.jobs[count]
            ]
            owner += [name] * len(found.jobs[count])
            cases += found.cases
        begun = perf_counter()
        try:
            results = run(count, cases, jobs, SECONDS_PER_JOB * len(jobs))
        except WorkerFailed as error:
            failures.append(f"on {count} workers: {error}")
            print(failures[-1], flush=True)
            continue
        print(f"{len(jobs)} runs on {count} workers in {perf_counter() - begun:.0f} s", flush=True)
        for name, d in zip(owner, results, strict=True):
            own = Job(case=d.job.case % 2, label=d.job.label, plan=d.job.plan)
            done[name].append(Done(job=own, worst=d.worst, making=d.making, running=d.running))
    return done, failures


def row(name: str, dtype: str, done: Sequence[Done]) -> tuple[object, ...] | None:
    """A model's line in the table."""
    own = [d for d in done if d.job.case == list(TOLERANCE).index(dtype)]
    worst = max(own, key=lambda d: d.worst)
    return (
        name,
        dtype,
        len(own),
        f"{worst.worst.difference:.2g}",
        worst.worst.where,
        worst.job.plan.cluster.num_devices,
        worst.job.label,
        sum(d.making for d in own),
        sum(d.running for d in own),
    )


if __name__ == "__main__":
    sys.exit(main())
