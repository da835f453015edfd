"""Proposals a second with full and with delta simulation, beside FlexFlow's table 3.4.

The paper searches with Markov chain Monte Carlo: each proposal gives one random operator a random configuration, and its cost is the simulated
time. Its table 3.4 gives the seconds of whole searches where every proposal is simulated in full (the task graph is built again and timed)
and where only the difference is. Here both ways evaluate the same proposals with the same decisions, on the paper's K80
cluster (4 devices a node), and every pair of results has to be equal, to the picosecond:

    full     the task graph assembled from cached parts, and simulated
    timing   the simulation of it alone, as if the task graph cost nothing; not a way to search, but a fair one to compare with
    delta    `simulate.Incremental`: blocks replaced, edges linked, times found
    cold     delta on the first pass, where operators' parts and reshardings are met for the first time

The paper's seconds are of a search of a length that it does not state, on its own machine; so its speed-ups are compared, not its seconds.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from random import Random
from time import perf_counter

from _report import Options, finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.ir import Graph
from graphwright.machine import PICOSECONDS, Cluster, cluster
from graphwright.partition import data_parallel
from graphwright.partition.space.strategies import valid_strategy
from graphwright.plans import Plan, Strategy
from graphwright.simulate import CostModel, Incremental, schedule
from graphwright.tasks import Expansion, GraphFacts, assemble

PAPER = {  # model: devices: (seconds in full, seconds with delta), Jia's thesis, table 3.4
    "alexnet": {4: (0.11, 0.04), 8: (0.40, 0.13), 16: (1.4, 0.48), 32: (5.3, 1.8), 64: (18, 5.9)},
    "resnet101": {4: (1.4, 0.4), 8: (4.5, 1.4), 16: (22, 7.3), 32: (107, 33), 64: (515, 158)},
    "inception-v3": {4: (14, 4.1), 8: (66, 17), 16: (388, 77), 32: (1746, 298), 64: (8817, 1278)},
    "rnntc": {4: (16, 7.5), 8: (91, 39), 16: (404, 170), 32: (1358, 516), 64: (4404, 1489)},
    "rnnlm": {4: (21, 9.2), 8: (76, 31), 16: (327, 121), 32: (1102, 342), 64: (3406, 969)},
    "nmt": {4: (40, 16), 8: (178, 65), 16: (998, 328), 32: (2698, 701), 64: (8982, 2190)},
}
DEVICES_PER_NODE = 4
TASKS_PER_SECOND = 1e6
GREED = 100.0
"""A proposal that is slower by 1% is accepted with probability 1/e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model on one number of devices."""

    model: str
    devices: int
    tasks: int
    full: float
    timing: float
    delta: float
    cold: float
    tasks_per_second: float
    retimed: float
    unequal: int

    @property
    def speedup(self) -> float:
        return self.delta / self.full


def main() -> int:
    options = parse_options(__doc__)
    counts = (4, 16, 64) if options.quick else (4, 8, 16, 32, 64)
    rows = []
    small = zoo.load("mlp", small=True).capture()
    measure("alexnet", small, 4, options)  # compiled code is loaded
    for model in PAPER:
        graph = zoo.load(model).capture()
        for devices in counts:
            rows.append(measure(model, graph, devices, options))
            show(rows[-1])
    print()
    print_table(
        ("model", "devices", "tasks", "full/s", "timing/s", "delta/s", "cold/s", "speed-up", "paper", "over timing",
         "paper full s", "delta s", "retimed", "Mtasks/s"),
        [
            (r.model, r.devices, r.tasks, r.full, r.timing, r.delta, r.cold, f"{r.speedup:.1f}x",
             f"{paper(r)[0] / paper(r)[1]:.1f}x", f"{r.delta / r.timing:.2f}x", *paper(r), f"{r.retimed:.0%}",
             r.tasks_per_second / 1e6)
            for r in rows
        ],
    )  # fmt: skip
    misses = find_misses(rows)
    slowest = min(r.tasks_per_second for r in rows if r.tasks > 10_000)
    least = min((r for r in rows if r.devices >= 16), key=lambda r: r.speedup)
    save_result(
        "flexflow_table34",
        options,
        {
            f"{r.model} on {r.devices}": {k: getattr(r, k) for k in Row.__dataclass_fields__}
            for r in rows
        },
    )
    figure = (
        f"delta over full on 16 devices or more: least {least.speedup:.1f}x ({least.model} on {least.devices}), most "
        f"{max(r.speedup for r in rows):.1f}x (paper 2.4x to 6.9x), over the timing alone {min(r.delta / r.timing for r in rows if r.devices >= 16):.1f}x to "
        f"{max(r.delta / r.timing for r in rows):.0f}x; full simulation at least {slowest / 1e6:.1f} million "
        f"tasks/s (target 1); unequal results: {sum(r.unequal for r in rows)}"
    )
    return finish(options, misses, figure)


def paper(row: Row) -> tuple[float, float]:
    return PAPER[row.model][row.devices]


def find_misses(rows: list[Row]) -> list[str]:
    misses = []
    for r in rows:
        where = f"{r.model} on {r.devices}"
        if r.unequal:
            misses.append(f"{where}: {r.unequal} proposals differ between full and delta")
        if r.devices >= 16 and r.speedup <= 1:
            misses.append(f"{where}: delta is not faster than full ({r.speedup:.2f}x)")
        if r.tasks > 10_000 and r.tasks_per_second < TASKS_PER_SECOND:
            misses.append(f"{where}: {r.tasks_per_second:,.0f} tasks/s")
    return misses


def show(row: Row) -> None:
    print(
        f"{row.model} on {row.devices}: full {row.full:.3g}/s, delta {row.delta:.3g}/s, {row.speedup:.1f}x "
        f"(paper {paper(row)[0] / paper(row)[1]:.1f}x)",
        flush=True,
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """One operator's new strategy and, once decided, whether it was taken."""

    node: str
    strategy: Strategy


def measure(model: str, graph: Graph, devices: int, options: Options) -> Row:
    on = cluster(f"flexflow-k80:{devices // DEVICES_PER_NODE}")
    plan, costs, facts = data_parallel(graph, on), CostModel(measured=False), GraphFacts(graph)
    num_delta = 60 if options.quick else 300
    num_full = 6 if options.quick else 20
    expansion = Expansion(facts, plan, costs)
    proposals = draw(facts, on, num_delta, options.seed)

    run = Incremental(graph, plan, costs, expansion)
    started = perf_counter()
    times, taken = follow(run, proposals, options.seed)
    cold = num_delta / (perf_counter() - started)

    expansion = renewed(expansion, facts, plan, costs)
    run = Incremental(graph, plan, costs, expansion)
    started = perf_counter()
    again, _ = follow(run, proposals, options.seed)
    delta = num_delta / (perf_counter() - started)
    assert again == times
    stats = run.delta.stats

    expansion = renewed(expansion, facts, plan, costs)
    wrong, tasks, simulated, spent = 0, 0, 0.0, 0.0
    for number, proposal in enumerate(proposals[:num_full]):
        position = facts.position[proposal.node]
        before = expansion.placed[position]
        started = perf_counter()
        expansion.placed[position] = expansion.place(graph.nodes[position], proposal.strategy)
        task_graph = assemble(expansion)
        built = perf_counter()
        found = schedule(task_graph).makespan
        done = perf_counter()
        spent += done - started
        simulated += done - built
        tasks += len(task_graph)
        wrong += found != times[number]
        if not taken[number]:
            expansion.placed[position] = before
    return Row(
        model=model,
        devices=devices,
        tasks=tasks // num_full,
        full=num_full / spent,
        timing=num_full / simulated,
        delta=delta,
        cold=cold,
        tasks_per_second=tasks / simulated,
        retimed=stats.total_retimed / stats.evaluations / (tasks / num_full),
        unequal=wrong,
    )


def renewed(expansion: Expansion, facts: GraphFacts, plan: Plan, costs: CostModel) -> Expansion:
    """The plan as it was at first, with all that has been worked out since."""
    fresh = Expansion(facts, plan, costs)
    fresh.cache = expansion.cache
    return fresh


def draw(facts: GraphFacts, on: Cluster, count: int, seed: int) -> list[Proposal]:
    rng = Random(seed)
    nodes = [rng.choice(facts.graph.nodes) for _ in range(count)]
    return [Proposal(n.name, valid_strategy(rng, facts, n, on)) for n in nodes]


def follow(run: Incremental, proposals: list[Proposal], seed: int) -> tuple[list[int], list[bool]]:
    """Metropolis: the makespan of every proposal, and which were taken."""
    rng, now = Random(seed), run.makespan
    times, taken = [], []
    for proposal in proposals:
        seconds = run.propose({proposal.node: proposal.strategy})
        times.append(round(seconds * PICOSECONDS))
        accept = seconds <= now or rng.random() < math.exp(GREED * (now - seconds) / now)
        taken.append(accept)
        if accept:
            run.accept()
            now = seconds
        else:
            run.reject()
    return times, taken


if __name__ == "__main__":
    sys.exit(main())
