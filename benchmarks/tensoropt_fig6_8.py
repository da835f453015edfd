"""TensorOpt's figures 6 to 8: frontiers of RNN, WideResNet and Transformer beside other systems,
and what moves them.

Figure 6, 16 GPUs on two nodes: our frontier, Data Parallel, OptCNN, Tofu and Mesh-TensorFlow, by the additive estimate that the paper plots and by
simulation (ours: `gw.plan`). Mesh-TensorFlow is the frontier of the same search with every axis kept to samples or to everything else, for all ways to say which.
Figure 7, Transformer: hidden sizes, links between nodes (half and four times as fast), NVLink or a twentieth of it within a node.
Figure 8: the fastest step on 1 to 32 GPUs, and whether Data Parallel, OptCNN and Tofu fit.
Targets: none of them lies below our frontier by more than 1% (estimated, the precision of tracking) or 2% (simulated), and OptCNN's time is that of our fast end. The paper counts no gradients, so
that memory differs: Data Parallel keeps 109 GB for RNN in the paper, the weights and a sixteenth of the rest, and here the gradients too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from time import perf_counter

import graphwright as gw
from _reference_searches.seeded import assignment_of
from _report import commit, finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.ir import Graph
from graphwright.machine import Cluster, cluster
from graphwright.partition import (
    Assignment,
    Coarse,
    Estimate,
    Space,
    coarsen,
    make_estimate,
    narrow,
    other_plan,
    sizes_of,
    track,
)
from graphwright.partition.plan import MARGIN
from graphwright.partition.search.frontier.candidates import spread
from graphwright.plans import Figures, Frontier, Plan, figures_of, make_frontier
from graphwright.report import plot_frontier
from graphwright.report.pictures.style import (
    HUES,
    INK,
    add_caption,
    add_title,
    new_figure,
    plain,
    plain_ticks,
    save_figure,
)
from graphwright.simulate import CostModel, Simulator, figures

MODELS = ("tensoropt-rnn", "tensoropt-wresnet", "tensoropt-transformer")
PAPER = {
    ("tensoropt-rnn", "data"): "109 GB, 39 s",
    ("tensoropt-wresnet", "data"): "one point with Mesh-TensorFlow's",
    "optcnn": "our fast end",
    "tofu": "little memory, slow",
    "mesh-tensorflow": "above ours, needs more memory at least",
}
SYSTEMS = ("data", "optcnn", "tofu")
SYMBOLS = {"data": "s", "optcnn": "D", "tofu": "^", "mesh-tensorflow": "v"}
PRECISION = 0.01
ROOM = {"estimated": 1 + PRECISION, "simulated": 1.02}
"""A point below our frontier by more than this is a miss: the precision of tracking; what the
estimate that was searched does not know of overlap."""
SIMULATED, SIMULATED_QUICKLY = 24, 12
"""So many plans of our estimated frontier are simulated, and half as many of Mesh-TensorFlow's."""
FAR = 3.0
"""What needs so many times our largest memory is not drawn."""
SIZES = (1920, 2688, 3840)
COUNTS = (1, 2, 4, 8, 16, 32)
COSTS = CostModel(measured=False)
Point = tuple[float, float]
"""Seconds and bytes."""
ByCount = Mapping[int, Mapping[str, tuple[float | None, int]]]
"""Seconds, None where it does not fit, and bytes, by number of devices and system."""


@dataclass(kw_only=True)
class Case:
    """One model of figure 6: points by the estimate and by simulation, each by the name of who made them."""

    name: str
    estimated: dict[str, list[Point]] = field(default_factory=dict)
    simulated: dict[str, list[Point]] = field(default_factory=dict)
    turning: Point = (0.0, 0.0)
    frontier: Frontier | None = None
    seconds: float = 0.0
    planned: float = 0.0


# -- figure 6 -----------------------------------------------------------------------------------------


def compare(name: str, on: Cluster, num_simulated: int) -> Case:
    """Our frontier and the others' points for a model."""
    graph = zoo.load(name).capture()
    coarse, case = coarsen(graph), Case(name=name)
    plans = [other_plan(system, coarse, on, COSTS) for system in SYSTEMS]
    simulator, start = Simulator(coarse.facts, on, COSTS), perf_counter()
    model = make_estimate(coarse, on, COSTS, Space(), plans=plans)
    model = narrow(model, model.space.width)
    points = track(model.problem(), precision=PRECISION).points
    case.seconds = perf_counter() - start
    case.estimated["ours"] = [(p.time, p.memory) for p in points]
    case.turning = turning_point(plans[0], case.estimated["ours"])
    start = perf_counter()
    case.frontier = gw.plan(graph, on, costs=COSTS, points=num_simulated)
    case.planned = perf_counter() - start
    case.simulated["ours"] = [_point(p) for p in case.frontier]
    others: dict[str, Plan] = {}
    for number, system in enumerate(SYSTEMS):
        found = assignment_of(model, number)
        estimate = None if found is None else (found.time, found.memory)
        others[system] = evaluate(simulator, plans[number], estimate)
        case.estimated[system] = [] if estimate is None else [estimate]
        case.simulated[system] = [_point(others[system])]
    mesh = mesh_tensorflow(coarse, on)
    case.estimated["mesh-tensorflow"] = [(p.time, p.memory) for p, _ in mesh]
    chosen = {id(p) for p in spread([p for p, _ in mesh], max(2, num_simulated // 2))}
    laid = [
        evaluate(simulator, m.plan(p, "mesh-tensorflow"), (p.time, p.memory))
        for p, m in mesh
        if id(p) in chosen
    ]
    case.simulated["mesh-tensorflow"] = [_point(p) for p in laid]
    best = make_frontier(laid)
    for words, plan in (("small", best.smallest()), ("fast", best.fastest())):
        others[f"mesh-tensorflow, {words}"] = plan
    case.frontier = replace(case.frontier, others=others)
    return case


def evaluate(simulator: Simulator, plan: Plan, estimate: Point | None = None) -> Plan:
    """The plan with its simulated figures beside the estimate."""
    return replace(plan, figures=figures(simulator.run(plan), estimate))


def mesh_tensorflow(coarse: Coarse, on: Cluster) -> list[tuple[Assignment, Estimate]]:
    """The frontier over all ways to give axes to samples or to all other dims; axes of one level are alike."""
    levels = [
        [("sample",) * n + ("other",) * (count - n) for n in range(count + 1)]
        for count in (
            sum(a.level == level for a in on.axes) for level in {a.level for a in on.axes}
        )
    ]
    found: list[tuple[Assignment, Estimate]] = []
    for roles in product(*levels):
        space = Space(roles=tuple(role for level in roles for role in level))
        model = narrow(make_estimate(coarse, on, COSTS, space), space.width)
        tracked = track(model.problem(), precision=PRECISION)
        found += [(point, model) for point in tracked.points]
    kept: list[tuple[Assignment, Estimate]] = []
    for point, model in sorted(found, key=lambda f: (f[0].memory, f[0].time)):
        if not kept or point.time < kept[-1][0].time:
            kept.append((point, model))
    return kept


def _point(plan: Plan) -> Point:
    found = figures_of(plan)
    return found.time, float(found.memory)


def turning_point(any_plan: Plan, points: Iterable[Point]) -> Point:
    """Where more memory stops paying, of an estimated frontier."""
    plans = (replace(any_plan, figures=Figures(time=t, memory=round(m))) for t, m in points)
    return _point(make_frontier(plans).turning_point())


def below(points: Sequence[Point], frontier: Sequence[Point], room: float) -> list[Point]:
    """The points that no point of a frontier is about as good as."""
    return [
        (time, memory)
        for time, memory in points
        if not any(t <= time * room and m <= memory * room for t, m in frontier)
    ]


def check(case: Case) -> list[str]:
    """What was missed: points below ours, OptCNN away from our fast end."""
    misses: list[str] = []
    for how, found in (("estimated", case.estimated), ("simulated", case.simulated)):
        for system, points in found.items():
            for time, memory in below(points, found["ours"], ROOM[how]) if system != "ours" else ():
                misses.append(
                    f"{case.name}, {how}: {system} with {time:.4g} s and {memory / 1e9:.4g} GB lies below our frontier"
                )
    fast, optcnn = case.estimated["ours"][-1][0], case.estimated["optcnn"][0][0]
    if abs(optcnn - fast) > PRECISION * fast:
        misses.append(f"{case.name}: OptCNN takes {optcnn:.4g} s, our fast end {fast:.4g} s")
    return misses


def rows_of(case: Case) -> list[tuple[object, ...]]:
    rows = []
    for system, points in case.estimated.items():
        simulated = case.simulated[system]
        said = PAPER.get((case.name, system), PAPER.get(system, ""))
        rows.append(
            (
                case.name,
                system,
                len(points),
                _range([m / 1e9 for _, m in points]),
                _range([t for t, _ in points]),
                _range([m / 1e9 for _, m in simulated]),
                _range([t for t, _ in simulated]),
                len(below(points, case.estimated["ours"], 1.0)),
                len(below(simulated, case.simulated["ours"], 1.0)),
                f"turning point {case.turning[1] / 1e9:.3g} GB, {case.turning[0]:.3g} s"
                if system == "ours"
                else said,
            )
        )
    return rows


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


# -- figure 7 -----------------------------------------------------------------------------------------


def influences(quick: bool) -> dict[str, dict[str, tuple[Graph, Cluster]]]:
    """The panels of figure 7: what is looked at under which name."""
    base = cluster("v100-2x8")
    one = base.resized({"node": 1})
    graph = zoo.load("tensoropt-transformer").capture()
    panels = {
        "links between nodes": {
            "no RDMA (0.5x)": (graph, faster(base, 0, 0.5)),
            "RDMA": (graph, base),
            "4x RDMA": (graph, faster(base, 0, 4.0)),
        },
        "links within a node": {
            "NVLink": (graph, one),
            "PCIe (1/20)": (graph, faster(one, 1, 1 / 20)),
        },
    }
    if quick:
        return panels
    sizes = {
        f"hidden {size}": (zoo.load(f"transformer-{size}", batch_size=256).capture(), base)
        for size in SIZES
    }
    return {"hidden size": sizes, **panels}


def faster(on: Cluster, level: int, times: float) -> Cluster:
    """A cluster with another bandwidth in one level."""
    levels = list(on.levels)
    levels[level] = replace(levels[level], bandwidth=levels[level].bandwidth * times)
    return replace(on, name=f"{on.name}-{times:g}x", levels=tuple(levels))


def frontier_points(graph: Graph, on: Cluster) -> tuple[list[Point], Point]:
    """The estimated frontier and its turning point."""
    model = make_estimate(coarsen(graph), on, COSTS, Space())
    model = narrow(model, model.space.width)
    points = track(model.problem(), precision=PRECISION).points
    found = [(p.time, p.memory) for p in points]
    return found, turning_point(model.plan(points[0], "frontier"), found)


# -- figure 8 -----------------------------------------------------------------------------------------


def by_devices(name: str, counts: Sequence[int]) -> dict[int, dict[str, tuple[float | None, int]]]:
    """For each number of devices and each system its time, None where it does not fit, and its memory."""
    graph = zoo.load(name).capture()
    whole = cluster("v100-2x8").resized({"node": 4})
    sizes = sizes_of(whole, counts)
    coarse = coarsen(graph)
    found: dict[int, dict[str, tuple[float | None, int]]] = {}
    rows = gw.profile(graph, whole, devices=counts, costs=COSTS)
    for ours in rows:
        on = sizes[ours.num_devices]
        limit, simulator = on.devices[0].memory / MARGIN, Simulator(coarse.facts, on, COSTS)
        row: dict[str, tuple[float | None, int]] = {"ours": (ours.time, ours.memory)}
        for system in SYSTEMS if on.num_devices > 1 else ():
            time, memory = _point(evaluate(simulator, other_plan(system, coarse, on, COSTS)))
            row[system] = (time if memory <= limit else None, int(memory))
        found[on.num_devices] = row
    return found


# -- pictures -----------------------------------------------------------------------------------------


def draw_cases(cases: Sequence[Case], path: Path, seed: int) -> None:
    """Figure 6: lines and points by the estimate, hollow ones by simulation; what is far off is
    said, not drawn, as in the paper."""
    figure = new_figure(5.4 * len(cases), 4.8)
    for axes, case in zip(figure.subplots(1, len(cases), squeeze=False)[0], cases, strict=True):
        most = FAR * max(m for _, m in case.estimated["ours"])
        for number, system in enumerate(("ours", "mesh-tensorflow", *SYSTEMS)):
            hue, mark = HUES[number], SYMBOLS.get(system, "o")
            points = [p for p in case.estimated[system] if p[1] <= most]
            label = system if points else _far(system, case.estimated[system])
            x, y = [m / 1e9 for _, m in points], [t for t, _ in points]
            if system in SYSTEMS:
                axes.plot(x, y, mark, color=hue, markersize=9, label=label, zorder=4)
            else:
                axes.plot(x, y, color=hue, drawstyle="steps-post", linewidth=2, label=label)
            simulated = [p for p in case.simulated[system] if p[1] <= most]
            axes.plot(
                [m / 1e9 for _, m in simulated], [t for t, _ in simulated], mark, color=hue,
                markerfacecolor="none", markersize=6, linestyle="none", zorder=3,
            )  # fmt: skip
        time, memory = case.turning
        axes.plot(
            memory / 1e9, time, "o", markersize=13, color=INK, markerfacecolor="none", linestyle="none",
            label="turning point",
        )  # fmt: skip
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="memory of a device (GB)",
            ylabel="time of one step (s)",
        )
        for which in ("x", "y"):
            plain_ticks(axes, which)
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
        add_title(axes, case.name)
    add_caption(
        figure,
        (
            f"lines and filled: additive estimate; hollow: simulated · v100-2x8 · seed {seed} · {commit()[:12]}",
        ),
    )
    save_figure(figure, path)


def _far(system: str, points: Sequence[Point]) -> str:
    return f"{system}: {points[0][1] / 1e9:.3g} GB, {points[0][0]:.3g} s" if points else system


def draw_influences(
    panels: Mapping[str, Mapping[str, Sequence[Point]]], path: Path, seed: int
) -> None:
    """Figure 7: estimated frontiers."""
    figure = new_figure(5.0 * len(panels), 4.6)
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, lines) in zip(every, panels.items(), strict=True):
        for number, (label, points) in enumerate(lines.items()):
            x, y = [m / 1e9 for _, m in points], [t for t, _ in points]
            axes.plot(x, y, drawstyle="steps-post", color=HUES[number], linewidth=2, label=label)
        axes.set(yscale="log", xlabel="memory of a device (GB)", ylabel="time of one step (s)")
        plain_ticks(axes, "y")
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
        add_title(axes, title)
    words = "Transformer on v100-2x8, additive estimate; within a node: 8 devices"
    add_caption(figure, (f"{words} · seed {seed} · {commit()[:12]}",))
    save_figure(figure, path)


def draw_counts(counts: Mapping[str, ByCount], path: Path, seed: int) -> None:
    """Figure 8: the fastest simulated step that fits; a cross on the ground where none does."""
    figure = new_figure(5.4 * len(counts), 4.6)
    every = figure.subplots(1, len(counts), squeeze=False)[0]
    for axes, (name, found) in zip(every, counts.items(), strict=True):
        for number, system in enumerate(("ours", *SYSTEMS)):
            hue, mark = HUES[number], SYMBOLS.get(system, "o")
            pairs = [(c, row[system][0]) for c, row in found.items() if system in row]
            x = [c for c, t in pairs if t is not None]
            axes.plot(
                x, [t for _, t in pairs if t is not None], marker=mark, color=hue, label=system
            )
            missing = [c for c, t in pairs if t is None]
            height = [0.03 + 0.04 * number] * len(missing)
            axes.plot(missing, height, "x", color=hue, transform=axes.get_xaxis_transform())
        axes.set(xscale="log", yscale="log", xlabel="devices (x: does not fit)")
        axes.set(ylabel="time of one step (s)")
        axes.set_xticks(list(found), [str(c) for c in found])
        axes.minorticks_off()
        plain_ticks(axes, "y")
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
        add_title(axes, name)
    add_caption(figure, (f"v100-2x8 resized, simulated · seed {seed} · {commit()[:12]}",))
    save_figure(figure, path)


# -- all of it ----------------------------------------------------------------------------------------


def main() -> int:
    options = parse_options(__doc__)
    on = cluster("v100-2x8")
    cases, misses = [], []
    for name in (MODELS[0], MODELS[2]) if options.quick else MODELS:
        case = compare(name, on, SIMULATED_QUICKLY if options.quick else SIMULATED)
        cases.append(case)
        misses += check(case)
    print_table(
        ("model", "system", "points", "est. GB", "est. s", "sim. GB", "sim. s", "below ours", "below, sim.", "the paper"),
        [row for case in cases for row in rows_of(case)],
    )  # fmt: skip

    panels: dict[str, dict[str, list[Point]]] = {}
    rows = []
    for panel, lines in influences(options.quick).items():
        for label, (graph, where) in lines.items():
            points, (time, memory) = frontier_points(graph, where)
            panels.setdefault(panel, {})[label] = points
            rows.append((panel, label, len(points), _range([m / 1e9 for _, m in points]),
                         _range([t for t, _ in points]), memory / 1e9, time))  # fmt: skip
    print()
    print_table(("figure 7", "case", "points", "GB", "s", "turning GB", "turning s"), rows)

    counts = {
        name: by_devices(name, (8, 16) if options.quick else COUNTS)
        for name in (MODELS[2:] if options.quick else MODELS[1:])
    }
    print()
    print_table(
        ("figure 8", "devices", "ours", *SYSTEMS),
        [
            (name, str(count), *(_time(row.get(system)) for system in ("ours", *SYSTEMS)))
            for name, found in counts.items()
            for count, row in found.items()
        ],
    )
    results = {
        "figure 6": {
            c.name: {
                "estimated": c.estimated, "simulated": c.simulated, "turning": c.turning, "seconds": c.seconds,
                "planned": c.planned,
            }
            for c in cases
        },
        "figure 7": panels,
        "figure 8": {name: {str(c): r for c, r in found.items()} for name, found in counts.items()},
    }  # fmt: skip
    path = save_result("tensoropt_fig6_8", options, results)
    if path is not None:
        draw_cases(cases, path.with_name(f"{path.stem}-fig6.png"), options.seed)
        for case in cases:
            assert case.frontier is not None
            plot_frontier(case.frontier, path.with_name(f"{path.stem}-{case.name}.png"))
        draw_influences(panels, path.with_name(f"{path.stem}-fig7.png"), options.seed)
        draw_counts(counts, path.with_name(f"{path.stem}-fig8.png"), options.seed)
    figure = "; ".join(
        f"{c.name} {c.estimated['ours'][-1][0]:.3g} to {c.estimated['ours'][0][0]:.3g} s, "
        f"turning at {c.turning[1] / 1e9:.3g} GB and {c.turning[0]:.3g} s"
        for c in cases
    )
    return finish(options, misses, figure)


def _time(found: tuple[float | None, int] | None) -> str:
    if found is None:
        return ""
    time, memory = found
    return (
        f"needs {memory / 1e9:.3g} GB" if time is None else f"{time:.3g} s, {memory / 1e9:.3g} GB"
    )


if __name__ == "__main__":
    sys.exit(main())
