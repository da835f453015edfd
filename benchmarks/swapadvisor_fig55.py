"""SwapAdvisor's Figure 5.5: searching schedules and memory together, against searching one of them alone, simulated.

    schedules       every order that the joint search begins with, in one way to make room at any offset
    places          the order of the program, in every way to make room, recomputation included
    joint           `greedy`: both, as `gw.swap` searches

The paper says of its own that the joint search is 20% to 1100% faster than either alone (section 5). Prices are those of swapadvisor_fig51.py.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.simulate import CostModel
from swapadvisor_fig51 import CAPACITY

ROWS = (("rnn-8-8k", 256), ("inception-4", 64))
ALONE, JOINT = ("schedules", "places"), "greedy"
LEAST = 1.2
"""How much faster the paper's joint search is at least than each alone."""


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", help="names with commas; all if not given")
    options, given = parse_options(__doc__, own), own.parse_known_args()[0]
    wanted = given.models.split(",") if given.models else [name for name, _ in ROWS]
    warnings.simplefilter("ignore")
    on, rows, results, missed = cluster("p3.2xlarge"), [], {}, []
    for name, batch in ROWS[:1] if options.quick else ROWS:
        if name not in wanted:
            continue
        graph = zoo.load(name, batch_size=batch).capture()
        start = time.monotonic()
        found = gw.swap(
            graph, CAPACITY, cluster=on, costs=CostModel(measured=False), search=(*ALONE, JOINT)
        )
        seconds = time.monotonic() - start
        shares = {search: found.unlimited / t for search, t in found.times.items()}
        faster = {search: shares[JOINT] / shares[search] for search in ALONE}
        results[f"{name}, batch {batch}"] = {"shares": shares, "faster": faster, "seconds": seconds}
        missed += [
            f"{name}: {ratio:.2f} times as fast as {search} alone"
            for search, ratio in faster.items()
            if ratio < LEAST
        ]
        rows.append([
            name, str(batch), *(f"{shares[search]:.1%}" for search in (*ALONE, JOINT)),
            *(f"+{ratio - 1:.0%}" for ratio in faster.values()), f"{seconds:.0f}",
        ])  # fmt: skip
    print_table(
        ["model", "batch", *ALONE, "joint", "over schedules", "over places", "search, s"], rows
    )
    save_result("swapadvisor_fig55", options, results)
    ratios = [ratio for row in results.values() for ratio in row["faster"].values()]
    return finish(
        options,
        missed,
        f"joint is {min(ratios):.2f} to {max(ratios):.2f} times as fast; the paper's is 1.2 to 12",
    )


if __name__ == "__main__":
    sys.exit(main())
