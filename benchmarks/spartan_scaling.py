"""Spartan's figures 3.4 and 3.5: applications on 1, 2 and 4 workers, with fixed and with growing input, and the bytes that each worker receives.

Workers are processes of this machine; each program runs once to warm up, then in turns, and the median is shown beside
what is ideal: with a fixed input the seconds of one worker divided by the workers, or by the cores if there are fewer;
with an input that grows with the workers the same seconds, or more by what cores lack. (The thesis: near ideal up to
64 workers but for conjugate gradient, Cholesky and ALS, whose steps depend on each other.) Bytes are those that arrive
from other workers, on average for each, beside those planned. Then the planner's time against the number of
operators. Target: no more bytes arrive than are planned.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import sys
from time import perf_counter
from typing import Any

import numpy as np

import _dask_bytes
import graphwright.arrays as ga
from _array_programs import APPLICATIONS, Application
from _report import Options, finish, parse_options, print_table, save_result
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.running.session import current_workers, planned
from graphwright.machine import num_cores
from spartan_fig31_32 import QUICK_STEPS, STEPS, growth

WORKERS = (1, 2, 4)
ROUNDS = 3
MESSAGE = 512
"""What Dask adds to each block that it sends, at most."""


def measure(application: Application, size: int, seed: int) -> dict[str, Any]:
    """Seconds, and bytes that arrive and that are planned for each worker."""
    client, count = current_workers().client, len(current_workers())
    arrays = application.make(size, np.random.default_rng(seed))
    given = {name: ga.from_array(x) for name, x in arrays.items()}
    _, how = planned([application.run(ga, **given)._output])
    application.run(ga, **given).persist()
    seconds, arrived = [], []
    for _ in range(ROUNDS):
        _dask_bytes.install(client)
        before = _dask_bytes.received(client)
        start = perf_counter()
        made = application.run(ga, **given).persist()
        seconds.append(perf_counter() - start)
        arrived.append(_dask_bytes.received(client) - before)
        del made
    return {
        "seconds": statistics.median(seconds),
        "bytes": max(arrived) / count,
        "planned": sum(how.received.values()) / count,
        "messages": len(how.segments.segments) * count,
    }


def in_proportion(application: Application, size: int, workers: int) -> int:
    """The size with which an application has so many times the elements."""
    square = application.name not in ("k-means", "Black-Scholes")
    return round(size * (workers**0.5 if square else workers))


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--only", help="one application by its name")
    options = parse_options(__doc__, own)
    only = own.parse_known_args()[0].only
    chosen = [a for a in APPLICATIONS if only in (None, a.name)]
    made: dict[str, dict[str, dict[int, Any]]] = {
        a.name: {"fixed": {}, "growing": {}} for a in chosen
    }
    SETTINGS.least_bytes = 1
    for workers in WORKERS:
        ga.use_workers(workers)
        for application in chosen:
            size = application.sizes[0] if options.quick else application.sizes[1] // 2
            made[application.name]["fixed"][workers] = measure(application, size, options.seed)
            grown = in_proportion(application, size // 2, workers)
            made[application.name]["growing"][workers] = measure(application, grown, options.seed)
        ga.disconnect()
    misses = [miss for name, kinds in made.items() for miss in show(name, kinds)]
    grown = growth(QUICK_STEPS if options.quick else STEPS)
    return report(options, made, grown, misses)


def show(name: str, kinds: dict[str, dict[int, Any]]) -> list[str]:
    print(f"\n{name}")
    rows, misses = [], []
    for kind, runs in kinds.items():
        for workers, run in runs.items():
            at_once = min(workers, num_cores())
            work = workers if kind == "growing" else 1
            ideal = runs[1]["seconds"] * work / at_once
            rows.append(
                (kind, workers, run["seconds"], ideal, run["bytes"] / 1e6, run["planned"] / 1e6)
            )
            if run["bytes"] > run["planned"] * 1.01 + MESSAGE * run["messages"]:
                misses.append(
                    f"{name}, {kind}, {workers} workers: {run['bytes']:,.0f} bytes arrive at each, "
                    f"{run['planned']:,.0f} are planned"
                )
    print_table(("input", "workers", "seconds", "ideal", "MB received each", "planned"), rows)
    return misses


def report(
    options: Options, made: dict[str, Any], grown: dict[int, float], misses: list[str]
) -> int:
    save_result("spartan_scaling", options, {"applications": made, "planner": grown})
    speed = [kinds["fixed"][1]["seconds"] / kinds["fixed"][2]["seconds"] for kinds in made.values()]
    most = max(grown)
    figure = (
        f"2 workers are {min(speed):.2f} to {max(speed):.2f} times as fast as one (fixed input, "
        f"{num_cores()} cores); {most:,} operators are planned in {grown[most]:.2f} s"
    )
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
