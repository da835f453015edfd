"""Our fastest plan against DistributedDataParallel and FSDP2 on two hosts, over links of 0.1 to 10 Gb/s and several latencies.

Two network namespaces with a link of limited rate between them are the hosts (`_hosts.py`), torchrun starts one process on each, and nothing is told to the planner but a cluster file of two
levels. Four models train on links of three rates, two of them with latency as well. On every link: transfers between the hosts are measured (`torchrun ... -m graphwright calibrate --cluster` does the same), the calls of the plans as well, and the plans are predicted by that; only then they train, in turns with
DistributedDataParallel in the same processes. FSDP2 follows on the same link in processes of its own, as it crashes over Gloo now and then (docs/decisions/0011). At the end, what training by every plan that was found ends with is compared
with one device in float64, over the fastest link, as no result depends on the rate; small models of the zoo are compared with two processes on each host as well. How far it is goes to stderr.

Targets: exact; predictions off by 15% on average and 30% at most; never slower than the best of the others (by 5%); at least 1.3 times as fast as DistributedDataParallel up to 1 Gb/s where fully-connected or embedding
weights dominate. Where namespaces are not allowed, it says why and ends with status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median, quantiles
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from _hosts import HostFailed, Hosts, NoNamespaces, Wire, two_hosts, why_not
from _report import commit, finish, machine, parse_options, print_table, save_result
from _two_hosts import DATA, FSDP2, MODELS, OURS
from graphwright.machine import Cluster, cluster, hosts, to_toml
from graphwright.run import DDP

WIRES = (
    Wire(rate=1e8),
    Wire(rate=1e9),
    Wire(rate=1e10),
    Wire(rate=1e9, latency=1e-3),
    Wire(rate=1e9, latency=5e-3),
    Wire(rate=1e8, latency=5e-3),
)
LATE_MODELS = ("alexnet", "gpt")
"""The models on links with latency: a convolutional network and a transformer, as each link takes minutes."""
QUICK_WIRES, QUICK_MODELS = (Wire(rate=1e9),), ("alexnet", "mlp")
COMPARED, QUICK_COMPARED = ("lenet", "gpt2", "dlrm", "vgg16"), ("lenet",)
HEAVY = ("alexnet", "mlp", "dlrm")
"""Where fully-connected or embedding weights dominate."""
MEAN_ERROR, MOST_ERROR, LEVEL, OVER_DDP = 0.15, 0.30, 1.05, 1.3
BUSY = 0.05
"""Steps that wait for a core for more of their time are disturbed by other programs."""
FASTEST = Wire(rate=1e10)
BEGAN = monotonic()
WORKER = Path(__file__).with_name("_two_hosts.py")
Results = dict[str, dict[str, Any]]


def cluster_of(wire: Wire, processes: int) -> Cluster:
    """Two hosts, each with half of this machine's cores: the file that the planner is given."""
    half = cluster(f"local:{2 * processes}")
    level = replace(half.levels[0], count=processes)
    one = replace(half, levels=(level,), devices=half.devices[:processes])
    latency = wire.latency + half.levels[0].latency
    return hosts(2, one, bandwidth=wire.rate / 8, latency=latency, name="two-hosts")


def run(on: Hosts, folder: Path, wire: Wire, kind: str, models: Sequence[str], **more: Any) -> Results:  # fmt: skip
    """Run a job on both hosts, and once more if it crashes; what was found until then."""
    processes = more.pop("processes", 1)
    # A step of 52 MB of gradients takes four seconds at 0.1 Gb/s.
    rounds, steps = (3, 2) if wire.rate < 1e9 else (6, 4)
    job = {
        "kind": kind,
        "folder": str(folder),
        "models": list(models),
        "cluster": to_toml(cluster_of(wire, processes)),
        "device": f"local:{2 * processes}",
        "threads": 1,
        "rounds": rounds,
        "steps": steps,
        "largest": 2**20 if wire.rate < 1e9 else 2**24,
        "wire": f"{wire}, {kind}",
        "began": BEGAN,
        "progress": f"/proc/{os.getpid()}/fd/2",
    }
    (folder / "job.json").write_text(json.dumps(job | more))
    result = folder / "result.json"
    for attempt in range(2):
        result.unlink(missing_ok=True)
        try:
            on.torchrun([str(WORKER), str(folder / "job.json")], processes=processes, seconds=1500)
            break
        except HostFailed as error:
            print(f"{wire}, {kind}: {str(error)[-1500:]}", file=sys.stderr)
            if kind != "fsdp":
                raise
            print(f"{wire}: FSDP2 failed in attempt {attempt + 1}")
    found: Results = json.loads(result.read_text()) if result.exists() else {}
    return found


def on_wire(wire: Wire, models: Sequence[str], folder: Path, fsdp: bool) -> Results:
    """What all ways take over one link, by model."""
    with two_hosts(wire, folder) as made:
        found = run(made, folder, wire, "ours", models)
        others = run(made, folder, wire, "fsdp", models) if fsdp else {}
    for name in models:
        found[name]["seconds"] |= others.get(name, {}).get("seconds", {})
    return {name: found[name] for name in models}


def compare(on: Hosts, folder: Path, results: Mapping[str, Results]) -> None:
    """Train by every plan that was found, once where links share it, and note on each link whether the result is that of one device."""
    plans: dict[str, str] = {}
    for found in results.values():
        for name, result in found.items():
            known = [key for key, text in plans.items() if key.split()[0] == name]
            same = next((key for key in known if plans[key] == result["plan"]), None)
            result["compared as"] = same or f"{name} {len(known) + 1}"
            plans[result["compared as"]] = result["plan"]
    compared = run(on, folder, FASTEST, "same", (), plans=plans)
    for found in results.values():
        for result in found.values():
            result |= compared[result["compared as"]]


def rows_of(wire: str, found: Results) -> list[tuple[object, ...]]:
    """A row for each model and way."""
    rows: list[tuple[object, ...]] = []
    for name, result in found.items():
        ddp = median(result["seconds"][DDP]) if DDP in result["seconds"] else None
        for way, seconds in result["seconds"].items():
            low, middle, high = quantiles(seconds, n=4)
            predicted = result["predicted"].get(way)
            rows.append(
                (
                    wire, name, way, middle * 1e3, f"{low * 1e3:.4g} to {high * 1e3:.4g}",
                    "" if predicted is None else f"{predicted * 1e3:.4g}",
                    "" if predicted is None else f"{predicted / middle - 1:+.0%}",
                    "" if ddp is None else f"{ddp / middle:.2f}x",
                )
            )  # fmt: skip
    return rows


def errors(results: Mapping[str, Results]) -> list[float]:
    """How far every prediction is off, relative to the median step."""
    return [
        predicted / median(result["seconds"][way]) - 1
        for found in results.values()
        for result in found.values()
        for way, predicted in result["predicted"].items()
    ]


def misses_of(wire: Wire, found: Results) -> list[str]:
    """Which targets are missed on one link."""
    misses = []
    for name, result in found.items():
        time = {way: median(seconds) for way, seconds in result["seconds"].items()}
        where = f"{wire}, {name}"
        if not result["exact"] or result["dtype"] != "float64":
            misses.append(f"{where}: {result['difference']:.1e} from one device, in {result['dtype']}")  # fmt: skip
        best = min((time[way] for way in (DDP, FSDP2) if way in time), default=None)
        if best is not None and time[OURS] > LEVEL * best:
            misses.append(f"{where}: ours {time[OURS] * 1e3:.0f} ms, the best of the others {best * 1e3:.0f} ms")  # fmt: skip
        if name in HEAVY and wire.rate <= 1e9 and time[DDP] < OVER_DDP * time[OURS]:
            misses.append(f"{where}: {time[DDP] / time[OURS]:.2f} times as fast as DDP, target {OVER_DDP}")  # fmt: skip
        for way, predicted in result["predicted"].items():
            if abs(predicted / time[way] - 1) > MOST_ERROR:
                misses.append(f"{where}: {way} predicted {predicted * 1e3:.0f} ms, measured {time[way] * 1e3:.0f}, target {MOST_ERROR:.0%}")  # fmt: skip
    return misses


def draw(results: Mapping[str, Results], path: Path) -> None:
    """For every model: the step of every way over the links without latency, measured and predicted."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {w: results[str(w)] for w in WIRES if not w.latency and str(w) in results}
    models = list(next(iter(shown.values())))
    figure, axes = pyplot.subplots(1, len(models), figsize=(3.1 * len(models), 3.6), squeeze=False)
    colours = {DDP: "#8c8c8c", FSDP2: "#c9a227", DATA: "#5b8db8", OURS: "#c0392b"}
    for axis, name in zip(axes[0], models, strict=True):
        for way, colour in colours.items():
            known = [(w.rate / 1e9, found[name]) for w, found in shown.items() if way in found[name]["seconds"]]  # fmt: skip
            if not known:
                continue
            rates = [rate for rate, _ in known]
            axis.plot(rates, [median(r["seconds"][way]) * 1e3 for _, r in known], color=colour, marker="o", markersize=4, label=way)  # fmt: skip
            if way in known[0][1]["predicted"]:
                axis.plot(rates, [r["predicted"][way] * 1e3 for _, r in known], color=colour, marker="x", linestyle="none", markersize=8)  # fmt: skip
        axis.set(xscale="log", yscale="log", title=name, xlabel="Gb/s between the hosts")
        axis.grid(alpha=0.25)
    axes[0][0].set_ylabel("ms a step")
    axes[0][0].legend(fontsize=7, frameon=False)
    figure.suptitle("A training step on two hosts: dots measured, crosses predicted", fontsize=11)
    about = machine()
    figure.text(0.5, 0.005, f"commit {commit()[:10]}, seed 0, {about['processor']}, {about['cores']} cores: one for each host", ha="center", fontsize=7, color="#666666")  # fmt: skip
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=130)


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", nargs="+", choices=MODELS, help="only these")
    own.add_argument("--gbit", nargs="+", type=float, help="only links of these rates, in Gb/s")
    own.add_argument("--ms", nargs="+", type=float, help="only links of these latencies, in ms")
    own.add_argument("--no-fsdp", action="store_true", help="leave FSDP2 out")
    own.add_argument("--no-zoo", action="store_true", help="leave small models of the zoo out")
    own.add_argument("--plot", type=Path, help="draw the steps over the links' rates")
    options = parse_options(__doc__, own)
    given, _ = own.parse_known_args()
    if (reason := why_not()) is not None:
        print(f"no two hosts on this machine: {reason}")
        return 0
    wires = QUICK_WIRES if options.quick else WIRES
    wires = tuple(w for w in wires if not given.gbit or w.rate / 1e9 in given.gbit)
    wires = tuple(w for w in wires if not given.ms or w.latency * 1e3 in given.ms)
    every = given.models or (QUICK_MODELS if options.quick else MODELS)
    late = given.models or LATE_MODELS
    results: dict[str, Results] = {}
    misses: list[str] = []
    rows: list[tuple[object, ...]] = []
    try:
        with TemporaryDirectory(prefix="graphwright-hosts-") as name:
            folder = Path(name)
            for wire in wires:
                models = late if wire.latency else every
                results[str(wire)] = on_wire(wire, models, folder, not given.no_fsdp)
            compared = QUICK_COMPARED if options.quick else COMPARED
            with two_hosts(FASTEST, folder) as made:
                compare(made, folder, results)
                exact = (
                    {}
                    if given.no_zoo
                    else run(made, folder, FASTEST, "exact", compared, processes=2)
                )
    except NoNamespaces as error:
        print(f"no two hosts on this machine: {error}")
        return 0
    except KeyboardInterrupt:
        print("stopped; the namespaces are gone")
        return 130
    for wire in wires:
        rows += rows_of(str(wire), results[str(wire)])
        misses += misses_of(wire, results[str(wire)])
    print_table(("link", "model", "way", "ms a step", "quartiles", "predicted", "off", "over DDP"), rows)  # fmt: skip
    for name, result in exact.items():
        print(f"{name} on 2 hosts with 2 processes each: {result['difference']:.1e} from one device, in {result['dtype']}")  # fmt: skip
        if not result["exact"]:
            misses.append(f"{name} on 2x2: {result['difference']:.1e} from one device")
    off = [abs(error) for error in errors(results)]
    if fmean(off) > MEAN_ERROR:
        misses.append(f"predictions are off by {fmean(off):.0%} on average, target {MEAN_ERROR:.0%}")  # fmt: skip
    waited = max(max(r["waited"].values()) for found in results.values() for r in found.values())
    if waited > BUSY:
        print(f"note: ranks waited for a core for up to {waited:.0%} of a way's time, in the calmest turns")  # fmt: skip
    path = save_result("two_hosts", options, {"links": results, "exact": exact, "wires": [asdict(w) for w in wires]})  # fmt: skip
    if given.plot is not None:
        draw(results, given.plot)
    elif path is not None and not options.quick:
        draw(results, path.with_suffix(".png"))
    best = {(row[0], row[1]): row[7] for row in rows if row[2] == OURS}
    figure = "; ".join(f"{wire}, {name} {speed}" for (wire, name), speed in best.items())
    return finish(options, misses, f"over DDP: {figure}; predictions off by {fmean(off):.0%} on average")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
