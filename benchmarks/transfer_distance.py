"""How far swap planners are from the fewest bytes that have to come from the host (ROC's dynamic programme), on small graphs.

Random graphs of 4 to 9 operators, with a capacity between what one operator needs and what all of them hold. The reference may take any order.
Planners minimise time, not bytes, so that more bytes need not be worse: the distance says how much they copy beyond the least.
"""

from __future__ import annotations

import sys

import numpy as np

from _report import finish, parse_options, print_table, save_result
from graphwright.memory import Choice, Planner, find_plan, least_bytes_in, program_order
from graphwright.plans import MemoryPlan, MemoryProblem, Operator, Storage

CHOICES = {
    "lru": Choice(policy="lru", lookahead=8),
    "belady": Choice(policy="belady"),
    "cost": Choice(),
}


def draw(random: np.random.Generator) -> MemoryProblem:
    """A graph of operators with up to three inputs each, over two inputs from the host."""
    storages = [_storage(f"x{n}", random, given=True) for n in range(2)]
    operators = []
    for i in range(int(random.integers(4, 10))):
        count = min(len(storages), int(random.integers(1, 4)))
        reads = random.choice(len(storages), size=count, replace=False)
        operators.append(
            Operator(name=f"o{i}", reads=tuple(map(int, reads)), makes=(len(storages),), duration=4)
        )
        storages.append(_storage(f"t{i}", random, given=False))
    return MemoryProblem(operators=tuple(operators), storages=tuple(storages))


def _storage(name: str, random: np.random.Generator, given: bool) -> Storage:
    nbytes = int(random.integers(1, 9))
    return Storage(name=name, nbytes=nbytes, out_time=nbytes, in_time=nbytes, begins_on_host=given)


def bytes_in(plan: MemoryPlan, problem: MemoryProblem) -> int:
    nbytes = {s.name: s.nbytes for s in problem.storages}
    return sum(nbytes[a.name] for a in plan.actions if a.stream == "in")


def main() -> int:
    options = parse_options(__doc__)
    random = np.random.default_rng(options.seed)
    excess: dict[str, list[float]] = {name: [] for name in (*CHOICES, "greedy search")}
    for _ in range(30 if options.quick else 300):
        problem = draw(random)
        low, high = max(problem.needs), problem.held_at_once()
        capacity = int(low + random.random() * max(0, high - low))
        least = least_bytes_in(problem, capacity)
        planner = Planner(problem)
        plans = {
            name: planner.plan(program_order(problem), capacity, choice)
            for name, choice in CHOICES.items()
        }
        plans["greedy search"] = find_plan(problem, capacity, searches=("greedy",)).plan
        for name, plan in plans.items():
            assert plan is not None
            excess[name].append(bytes_in(plan, problem) / least - 1 if least else 0.0)
    rows = [
        (
            name,
            f"{np.mean(found):.1%}",
            f"{np.median(found):.1%}",
            f"{np.max(found):.0%}",
            f"{np.mean(np.array(found) <= 0):.0%}",
        )
        for name, found in excess.items()
    ]
    print_table(("planner", "bytes beyond the least, mean", "median", "most", "at the least"), rows)
    save_result(
        "transfer_distance",
        options,
        {name: {"mean": float(np.mean(f)), "max": float(np.max(f))} for name, f in excess.items()},
    )
    return finish(options, [], f"mean excess: {', '.join(f'{row[0]} {row[1]}' for row in rows)}")


if __name__ == "__main__":
    sys.exit(main())
