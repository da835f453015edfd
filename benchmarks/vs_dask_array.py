"""Graphwright's arrays against dask.array with default and with hand-tuned chunks, and NumPy on one core.

Same programs, data and worker processes, one run: every way runs an application once to warm up, then up to three
times; the median time is shown with the bytes that workers receive from other workers (both of Dask's ways, `_dask_bytes`). Inputs lie on
the workers before, in dask.array's chunks or in the tiles that the plan asks for; results stay there. All results are
compared with NumPy's. Targets: never more bytes than dask.array; faster where communication decides; within 10%
elsewhere. Bytes are the same in every run, times are those of a machine with whatever else it does.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import sys
from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import _dask_bytes
import graphwright.arrays as ga
from _array_programs import APPLICATIONS, Application, Arrays
from _report import finish, parse_options, print_table, save_result

WORKERS = 2
ELSEWHERE = 1.10
ROUNDS, ROUND_SECONDS = 3, 20.0
"""How often a way runs after it is warm: fewer times when it has run for so long."""
DASK_SECONDS = 90.0
"""What takes dask.array longer is ended, and shown with as many seconds."""
QUICK_CHUNKS = "8MiB"
"""The default is 128 MiB, which small data would fill once: chunks are as much smaller as the data."""


def dask_runner(
    client: Client, application: Application, arrays: Arrays, chunks: Any
) -> Callable[[], Any]:
    """Inputs on the workers in chunks; a call computes the program and leaves its result there."""
    given = {
        name: da.from_array(x, chunks=chunks if isinstance(chunks, str) else chunks[name]).persist()
        for name, x in arrays.items()
    }
    wait(list(given.values()))

    def run() -> Any:
        made = application.run(da, **given).persist()
        try:
            wait(made, timeout=DASK_SECONDS)
        except TimeoutError:
            client.cancel(made)
            raise
        return made

    return run


def own_runner(application: Application, arrays: Arrays) -> Callable[[], Any]:
    """The same with our arrays; where the inputs lie is up to the plan."""
    given = {name: ga.from_array(x) for name, x in arrays.items()}
    return lambda: application.run(ga, **given).persist()


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--only", help="one application by its name")
    options = parse_options(__doc__, own)
    only = own.parse_known_args()[0].only
    rows, misses, results = [], [], {}
    with (
        dask.config.set({"array.chunk-size": QUICK_CHUNKS} if options.quick else {}),
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        ga.connect(client)
        for application in APPLICATIONS:
            if only in (None, application.name):
                measured = measure(client, application, options.quick, options.seed)
                results[application.name] = measured
                rows += [
                    (application.name if not n else "", way, one["seconds"], one["megabytes"])
                    for n, (way, one) in enumerate(measured.items())
                ]
                misses += check(application, measured)
                seen = ", ".join(
                    f"{way} {one['seconds']:.3g} s, {one['megabytes']:.3g} MB"
                    for way, one in measured.items()
                )
                print(f"{application.name}: {seen}", flush=True)
        ga.disconnect()
    print_table(("application", "way", "seconds", "MB received"), rows)
    save_result("vs_dask_array", options, results)
    most = sum(
        1
        for m in results.values()
        if m["graphwright"]["megabytes"] <= least_of_dask(m, "megabytes") + 0.001
    )
    return finish(
        options,
        misses,
        f"{most} of {len(results)} applications receive no more bytes than dask.array",
    )


def measure(client: Client, application: Application, quick: bool, seed: int) -> dict[str, Any]:
    """Seconds and bytes of every way."""
    arrays = application.make(application.sizes[0 if quick else 1], np.random.default_rng(seed))
    start = perf_counter()
    expected = application.run(np, **arrays)
    alone = perf_counter() - start
    ways = {
        "graphwright": own_runner(application, arrays),
        "dask.array, default": dask_runner(client, application, arrays, "auto"),
        "dask.array, tuned": dask_runner(
            client, application, arrays, application.tuned(arrays, WORKERS)
        ),
    }
    measured: dict[str, Any] = {}
    for way, run in ways.items():
        _dask_bytes.install(client)
        before = _dask_bytes.received(client)
        try:
            measured[way] = timed(client, run, expected, way)
        except TimeoutError:
            if way == "graphwright":
                raise
            megabytes = (_dask_bytes.received(client) - before) / 1e6
            measured[way] = {"seconds": DASK_SECONDS, "megabytes": megabytes, "ended": True}
    measured["NumPy, one core"] = {"seconds": alone, "megabytes": 0.0}
    return measured


def timed(client: Client, run: Callable[[], Any], expected: Any, way: str) -> dict[str, Any]:
    """Seconds and bytes of a way, whose result is compared with NumPy's."""
    made = run()
    np.testing.assert_allclose(np.asarray(made), expected, rtol=1e-6, atol=1e-8, err_msg=way)
    del made
    seconds, received = [], []
    while len(seconds) < ROUNDS and sum(seconds) < ROUND_SECONDS:
        _dask_bytes.install(client)
        before = _dask_bytes.received(client)
        start = perf_counter()
        made = run()
        seconds.append(perf_counter() - start)
        received.append((_dask_bytes.received(client) - before) / 1e6)
        del made
    return {
        "seconds": statistics.median(seconds),
        "megabytes": statistics.median(received),
        "all_seconds": seconds,
        "all_megabytes": received,
    }


def least_of_dask(measured: dict[str, Any], what: str) -> float:
    """Of dask.array's ways; what one received until it was ended is no figure to compare with."""
    ways = [one for way, one in measured.items() if way.startswith("dask")]
    return min((w[what] for w in ways if what == "seconds" or "ended" not in w), default=inf)


def check(application: Application, measured: dict[str, Any]) -> list[str]:
    """What misses its target."""
    own, misses = measured["graphwright"], []
    fewest, fastest = (least_of_dask(measured, what) for what in ("megabytes", "seconds"))
    if own["megabytes"] > fewest + 0.001:
        misses.append(f"{application.name}: {own['megabytes']:.3g} MB, dask.array {fewest:.3g}")
    limit = 1.0 if application.communicates else ELSEWHERE
    if own["seconds"] > limit * fastest:
        misses.append(f"{application.name}: {own['seconds']:.3g} s, dask.array {fastest:.3g} s")
    return misses


if __name__ == "__main__":
    sys.exit(main())
