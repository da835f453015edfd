"""How search time grows with layers (12 to 192) and devices (2 to 1,024), and what a user waits for.

From a captured graph to the estimated frontier of `gw.plan`, nothing simulated: groups, tables, narrowing, tracking; and to the fastest plan, with least time in the place of
tracking, and the plan made of it. GPTs of width 1024, by layers on 16 devices and, with 24 layers, by devices. Each run has a process of its own that has searched nothing but a tiny
model, so that compiled code is loaded but nothing about the graph is known.
Targets: the search alone for GPT-3 (96 layers of 12,288) on 1,024 devices in under a minute; 4 layers of Llama-8B's width on 8 x 8 devices in under 5 s, where PyTorch's AutoParallel took
147 s to build its problem and 156 s to solve it on a machine of this size.
As a user calls it, all in, with the recipes and systems to compare with and everything simulated:
`gw.plan` of Llama 3 8B for 8 devices in 10 s, of 70B for 64 in 20 s, of GPT-3 for 1,024 in 30 s, and
5 s to explain a plan.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path

from _report import Options, commit, finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.ir import save
from graphwright.report.pictures.style import (
    GREY,
    HUES,
    add_caption,
    add_title,
    new_figure,
    plain,
    plain_ticks,
    save_figure,
)
from graphwright.zoo import Workload

LAYERS = (12, 24, 48, 96, 192)
DEVICES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
WIDTH, BATCH, LARGE_BATCH = 1024, 64, 1024
LONG = 20.0
"""Seconds from which on a case is run once."""
PARTS = ("coarsen", "model", "narrow", "track")

PROGRAM = """
import json, resource, sys, time
import graphwright as gw
from graphwright import ir, zoo
from graphwright.partition import make_estimate, Space, coarsen, least, narrow, sizes_of, track
from graphwright.partition.search.frontier.candidates import TRACKING
from graphwright.simulate import CostModel

def search(graph, on):
    costs, at = CostModel(measured=False), [time.perf_counter()]
    def lap():
        at.append(time.perf_counter())
        return at[-1] - at[-2]
    coarse = coarsen(graph)
    found = {"coarsen": lap()}
    model = make_estimate(coarse, on, costs, Space())
    found["model"] = lap()
    model = narrow(model, model.space.width)
    problem = model.problem()
    found["narrow"] = lap()
    tracked = track(problem, precision=0.01, work=TRACKING)
    found["track"] = lap()
    assignment = least(problem)
    found["least"] = lap()
    model.plan(assignment, "fastest")
    found["plan"] = lap()
    return found | {
        "nodes": len(graph.nodes), "groups": problem.num_variables, "points": len(tracked.points), "exact": tracked.exact,
        "configurations": max(len(t.time) for t in problem.unary), "all_configurations": max(map(len, model.all)),
        "least_time": tracked.points[-1].time, "least_memory": tracked.points[0].memory,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }

search(zoo.load("mlp", small=True).capture(), gw.cluster("dgx-h100:2"))
graph, count = ir.load(sys.argv[1]), int(sys.argv[2])
print(json.dumps(search(graph, sizes_of(gw.cluster("dgx-h100:128"), (count,))[count])))
"""

AS_CALLED = """
import json, sys, time
import graphwright as gw
from graphwright import zoo
from graphwright.partition import sizes_of
from graphwright.report import explain_plan

gw.plan(zoo.load("mlp", small=True).capture(), "dgx-h100:2")
graph, count = gw.load(sys.argv[1]), int(sys.argv[2])
on = sizes_of(gw.cluster("dgx-h100:128"), (count,))[count]
start = time.perf_counter()
frontier = gw.plan(graph, on)
planned = time.perf_counter()
explain_plan(graph, frontier.fastest())
explained = time.perf_counter()
print(json.dumps({"nodes": len(graph.nodes), "plans": len(frontier.plans),
                  "plan": planned - start, "explain": explained - planned}))
"""
CALLS = (
    ("llama-8b-32", 16, 8, 10.0),
    ("llama-70b-80", 64, 64, 20.0),
    ("gpt-96-12288", 1024, 1024, 30.0),
)
"""Model, batch, devices, seconds for `gw.plan`."""
EXPLAINED = 5.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A graph in a file, and how many devices of a dgx-h100 cluster to search for."""

    table: str
    name: str
    graph: Path
    devices: int
    limit: float | None = None


def run(graph: Path, devices: int, program: str = PROGRAM) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(graph), str(devices)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def frontier_seconds(found: dict[str, float]) -> float:
    return sum(found[part] for part in PARTS)


def fastest_seconds(found: dict[str, float]) -> float:
    return frontier_seconds(found) - found["track"] + found["least"] + found["plan"]


def measure(case: Case, quick: bool) -> list[dict[str, float]]:
    """Three runs of what does not take long."""
    first = run(case.graph, case.devices)
    if quick or frontier_seconds(first) > LONG:
        return [first]
    return [first, run(case.graph, case.devices), run(case.graph, case.devices)]


def cases(options: Options, folder: Path) -> list[Case]:
    """What is searched; captures and saves the graphs."""

    def captured(label: str, workload: Workload) -> Path:
        path = folder / f"{label}.json.gz"
        if not path.exists():
            print(f"capturing {label}", file=sys.stderr, flush=True)
            save(workload.capture(), path)
        return path

    def gpt(layers: int) -> Path:
        return captured(f"gpt-{layers}", zoo.gpt(layers, width=WIDTH, batch_size=BATCH))

    layers = LAYERS[:2] if options.quick else LAYERS
    devices = (2, 16, 1024) if options.quick else DEVICES
    found = [
        Case(table="layers", name=f"gpt-{n}-{WIDTH}", graph=gpt(n), devices=16) for n in layers
    ]
    found += [
        Case(table="devices", name=f"gpt-24-{WIDTH}", graph=gpt(24), devices=n) for n in devices
    ]
    llama = captured("llama-8b-4", zoo.load("llama-8b-4", batch_size=BATCH))
    found.append(Case(table="limits", name="llama-8b-4", graph=llama, devices=64, limit=5.0))
    if not options.quick:
        large = captured("gpt-96-12288", zoo.load("gpt-96-12288", batch_size=LARGE_BATCH))
        found.append(Case(table="limits", name="gpt-96-12288", graph=large, devices=1024, limit=60.0))  # fmt: skip
    return found


def growth(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """The power of the count that time grows with, from the first to the last."""
    return log2(seconds[-1] / seconds[0]) / log2(counts[-1] / counts[0])


def draw(tables: dict[str, list[tuple[int, float, float]]], path: Path, seed: int) -> None:
    figure = new_figure(11.0, 4.6)
    titles = {"layers": "Search time by layers, on 16 devices", "devices": "Search time by devices, 24 layers"}  # fmt: skip
    for axes, (table, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        counts = [count for count, _, _ in tables[table]]
        for number, label in enumerate(("to the frontier", "to the fastest plan")):
            seconds = [row[1 + number] for row in tables[table]]
            axes.plot(counts, seconds, marker="os"[number], color=HUES[number], label=label)
        first = tables[table][0]
        axes.plot(counts, [first[1] * c / counts[0] for c in counts], "--", color=GREY, linewidth=1, label="in proportion")  # fmt: skip
        high = 1.6 * max(row[1] for row in tables[table])
        low = 0.6 * min(row[2] for row in tables[table])
        axes.set(xscale="log", yscale="log", ylim=(low, high), xlabel=table, ylabel="seconds")
        axes.set_xticks(counts, [f"{c:,}" for c in counts])
        axes.minorticks_off()
        plain_ticks(axes, "y")
        axes.legend(frameon=False, fontsize=8.5)
        plain(axes)
        add_title(axes, title)
    add_caption(
        figure,
        (f"GPT of width {WIDTH}, batch {BATCH}, on dgx-h100 · seed {seed} · {commit()[:12]}",),
    )
    save_figure(figure, path)


def as_called(
    options: Options, misses: list[str], figures: list[str], results: dict[str, object]
) -> None:
    """What a user waits for: `gw.plan` and an explanation, all in, beside the search alone."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, batch, devices, limit in CALLS[:1] if options.quick else CALLS:
            path = Path(folder) / f"{name}.json.gz"
            save(zoo.load(name, batch_size=batch).capture(), path)
            runs = [run(path, devices, AS_CALLED) for _ in range(1 if options.quick else 3)]
            plan = statistics.median(found["plan"] for found in runs)
            explain = statistics.median(found["explain"] for found in runs)
            spread = f"{min(f['plan'] for f in runs):.1f}-{max(f['plan'] for f in runs):.1f}"
            search = run(path, devices)
            rows.append((name, devices, runs[0]["nodes"], runs[0]["plans"], frontier_seconds(search), plan, spread, limit, explain, EXPLAINED))  # fmt: skip
            results[f"gw.plan of {name} on {devices}"] = {"runs": runs, "limit": limit, "search": search}  # fmt: skip
            figures.append(f"gw.plan of {name} on {devices:,} {plan:.1f} s (limit {limit:g} s)")
            for what, seconds, most in (("gw.plan", plan, limit), ("explain", explain, EXPLAINED)):
                if seconds >= most:
                    misses.append(
                        f"{what} of {name} on {devices:,}: {seconds:.1f} s, limit {most:g} s"
                    )
    print_table(
        ("model", "devices", "nodes", "plans", "search s", "gw.plan s", "spread", "limit s", "explain s", "limit s"),
        rows,
    )  # fmt: skip


def main() -> int:
    options = parse_options(__doc__)
    misses, figures, results = [], [], {}
    rows = []
    tables: dict[str, list[tuple[int, float, float]]] = {"layers": [], "devices": [], "limits": []}
    with tempfile.TemporaryDirectory() as folder:
        every = cases(options, Path(folder))
        run(every[-1].graph, 8)  # compiles, where that is still to be done
        known: dict[tuple[Path, int], list[dict[str, float]]] = {}
        for case in every:
            if (case.graph, case.devices) not in known:
                known[case.graph, case.devices] = measure(case, options.quick)
            found = known[case.graph, case.devices]
            seconds = [frontier_seconds(f) for f in found]
            frontier, fastest = (
                statistics.median(seconds),
                statistics.median(map(fastest_seconds, found)),
            )
            one = found[0]
            rows.append(
                (
                    case.name,
                    case.devices,
                    one["nodes"],
                    one["groups"],
                    f"{one['configurations']} of {one['all_configurations']}",
                    *(statistics.median(f[part] for f in found) for part in PARTS),
                    frontier,
                    f"{min(seconds):.2f}-{max(seconds):.2f}",
                    fastest,
                    one["plan"],
                    one["points"],
                    "yes" if one["exact"] else "no",
                    f"{one['resident'] / 1e9:.1f}",
                    "" if case.limit is None else f"{case.limit:g}",
                )
            )
            print(f"{case.name} on {case.devices:,} devices: {frontier:.2f} s", file=sys.stderr, flush=True)  # fmt: skip
            count = int(case.name.split("-")[1]) if case.table == "layers" else case.devices
            tables[case.table].append((count, frontier, fastest))
            results[f"{case.name} on {case.devices}"] = {"runs": found, "limit": case.limit}
            if case.limit is not None:
                figures.append(f"{case.name} on {case.devices:,} devices {frontier:.2f} s (limit {case.limit:g} s)")  # fmt: skip
                if frontier >= case.limit:
                    misses.append(f"{case.name} on {case.devices:,} devices: {frontier:.2f} s, limit {case.limit:g} s")  # fmt: skip
    print_table(
        ("model", "devices", "nodes", "groups", "configurations", *(f"{p} s" for p in PARTS), "frontier s",
         "spread", "fastest s", "of it making the plan", "points", "exact", "held GB", "limit s"),
        rows,
    )  # fmt: skip
    for table in ("layers", "devices"):
        counts, seconds = [c for c, _, _ in tables[table]], [s for _, s, _ in tables[table]]
        figures.append(f"grows with the power {growth(counts, seconds):.2f} of the {table}")
    as_called(options, misses, figures, results)
    print("AutoParallel on llama-8b-4, 8 x 8 devices: 147 s to build, 156 s to solve")
    path = save_result("search_growth", options, results)
    if path is not None:
        draw(tables, path.with_suffix(".png"), options.seed)
    return finish(options, misses, "; ".join(figures))


if __name__ == "__main__":
    sys.exit(main())
