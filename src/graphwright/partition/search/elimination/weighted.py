"""The least of time + weight * memory, by elimination (OptCNN section 5: node and edge elimination,
and wider).

    least(problem, weight)     least time + weight * memory; infinity asks for the least memory
    sweep(problem, weights)    the same for many weights in parallel, with one order and one sharing

In the algebra of (min, +), a step of `elimination.circuit` is a product of matrices:

    result[a, b] = min over v of left[a, v] + right[v, b]

and the choice of v is found again while unrolling, for the one entry that was chosen.

    sharing      equal sub-problems (repeated layers) are computed once
    exactness    exact where elimination is narrow enough (`limit` products in the widest step).
                 Elsewhere some variables are fixed (`elimination.fixing`): all configurations are
                 tried if they are few (exact), else improved in turns (then `exact` is false)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import inf, isinf, prod

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import num_cores
from graphwright.partition.estimate import Assignment, Floats, Pair, Problem
from graphwright.partition.search.elimination.circuit import (
    Circuit,
    Domains,
    all_configurations,
    compile_problem,
)
from graphwright.partition.search.elimination.fixing import choose_fixed
from graphwright.partition.search.elimination.kernels import (
    best_options,
    run_operations,
    run_outside,
    unroll_values,
    weigh_leaves,
)
from graphwright.partition.search.elimination.order import Method

WIDEST = 30_000_000
"""The most additions in one step: beyond, variables are fixed."""

MOST_TRIALS = 400
"""All ways to fix variables are tried if there are no more."""

MOST_TURNS = 60
"""Else so many problems are solved, for each weight, while fixed variables are improved in
turns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Least(Assignment):
    """The assignment found, and whether it is known to be the least."""

    exact: bool = True


def least(
    problem: Problem, weight: float = 0.0, *, method: Method = "ldp", limit: int = WIDEST
) -> Least:
    """The assignment of least time + weight * memory; time is infinite where none is possible."""
    return sweep(problem, (weight,), method=method, limit=limit, threads=1)[0]


def sweep(
    problem: Problem,
    weights: Sequence[float],
    *,
    method: Method = "ldp",
    limit: int = WIDEST,
    threads: int | None = None,
) -> tuple[Least, ...]:
    """`least` for every weight."""
    domains = all_configurations(problem)
    fixed = choose_fixed(problem, domains, method, limit)
    if not fixed:
        numbers = Numbers(problem, domains, method)
        return tuple(numbers.sweep(weights, threads=threads))
    return tuple(_with_fixed(problem, domains, fixed, weights, method, threads))


def scalars(weight: float) -> tuple[float, float]:
    """What to multiply time and memory with."""
    return (0.0, 1.0) if isinf(weight) else (1.0, weight)


class Numbers:
    """A circuit packed for the kernels, slot after slot. Calls may run in parallel."""

    def __init__(
        self, problem: Problem, domains: Domains, method: Method = "ldp", *, share: bool = True
    ) -> None:
        self.problem = problem
        self.domains = domains
        self.circuit: Circuit = compile_problem(problem, domains, method, share=share)
        circuit = self.circuit
        self.slot_begin = np.cumsum([0, *circuit.slot_sizes()])
        self.first_slot = 1 + len(circuit.leaves)
        self.leaf_time = _joined([leaf.time.ravel() for leaf in circuit.leaves])
        self.leaf_memory = _joined([leaf.memory.ravel() for leaf in circuit.leaves])
        self.leaf_begin = np.cumsum([0, *(leaf.time.size for leaf in circuit.leaves)])
        self.num_options = np.array([leaf.time.shape[1] for leaf in circuit.leaves], np.int64)
        place: dict[int, int] = {}
        parts: list[NDArray[np.int32]] = []
        size = 0
        rows = []
        for operation in circuit.operations:
            for part in (operation.left_map, operation.right_map):
                if id(part) not in place:
                    place[id(part)] = size
                    parts.append(part.ravel())
                    size += part.size
            rows.append(
                (
                    *(operation.left, operation.right, *operation.shape),
                    *(place[id(operation.left_map)], place[id(operation.right_map)]),
                )
            )
        self.operations = np.array(rows, np.int64).reshape(-1, 8)
        self.maps = np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def values(self, alpha: float, beta: float) -> Floats:
        """The least alpha * time + beta * memory of every entry of every slot."""
        values = np.empty(self.slot_begin[-1])
        weigh_leaves(
            self.leaf_time, self.leaf_memory, self.leaf_begin, self.num_options, self.slot_begin,
            alpha, beta, values,
        )  # fmt: skip
        run_operations(self.operations, self.maps, self.slot_begin, self.first_slot, values)
        return values

    def total(self, values: Floats) -> float:
        """The whole problem's value."""
        return float(values[self.slot_begin[self.root_slot]])

    @property
    def root_slot(self) -> int:
        return int(self.circuit.instance_slot[self.circuit.root])

    def outside(self, values: Floats) -> Floats:
        """For every entry of every slot the least of all that is not in it."""
        outside = np.empty(self.slot_begin[-1])
        run_outside(
            self.operations, self.maps, self.slot_begin, self.first_slot, self.root_slot,
            values, outside,
        )  # fmt: skip
        return outside

    def assignment(self, values: Floats, alpha: float, beta: float, *, exact: bool = True) -> Least:
        """The assignment that has the whole problem's value."""
        circuit, problem = self.circuit, self.problem
        entries = unroll_values(
            self.operations, self.maps, self.slot_begin, self.first_slot,
            circuit.instance_slot, circuit.instance_left, circuit.instance_right, values,
        )  # fmt: skip
        num_tables = len(circuit.pairs)
        leaf_of = circuit.instance_slot[1 : num_tables + 1] - 1
        entries = entries[1 : num_tables + 1]
        chosen = best_options(
            self.leaf_time, self.leaf_memory, self.leaf_begin, self.num_options, leaf_of, entries,
            alpha, beta,
        )  # fmt: skip
        choices = np.array(
            [self.domains[v][entries[v]] for v in range(problem.num_variables)], np.int64
        )
        at = self.leaf_begin[leaf_of] + entries * self.num_options[leaf_of] + chosen
        several = self.num_options[leaf_of] > 1
        options = {circuit.pairs[i]: int(chosen[i]) for i in np.nonzero(several)[0].tolist()}
        return Least(
            choices=choices,
            options=options,
            time=_total(self.leaf_time[at]),
            memory=_total(self.leaf_memory[at]),
            exact=exact,
        )

    def least(self, weight: float, *, exact: bool = True) -> Least:
        """The assignment of least time + weight * memory."""
        alpha, beta = scalars(weight)
        return self.assignment(self.values(alpha, beta), alpha, beta, exact=exact)

    def sweep(self, weights: Sequence[float], *, threads: int | None = None) -> Iterator[Least]:
        """The assignments for all weights."""
        threads = min(num_cores() if threads is None else threads, len(weights))
        if threads < 2:
            yield from map(self.least, weights)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(self.least, weights)


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _total(values: Floats) -> float:
    """The sum in the order in which `Problem.evaluate` adds."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def objective(assignment: Assignment, weight: float) -> float:
    """What an assignment is compared by."""
    if isinf(assignment.time):
        return inf
    alpha, beta = scalars(weight)
    return alpha * assignment.time + beta * assignment.memory


def fixed_domains(domains: Domains, values: dict[int, int]) -> dict[int, NDArray[np.int64]]:
    """The domains with some variables fixed to a configuration."""
    return {**domains, **{v: np.array([value]) for v, value in values.items()}}


def _with_fixed(
    problem: Problem,
    domains: Domains,
    fixed: Sequence[int],
    weights: Sequence[float],
    method: Method,
    threads: int | None,
) -> Iterator[Least]:
    """`least` for every weight, by trying or improving what the fixed variables are."""
    if prod(len(domains[v]) for v in fixed) <= MOST_TRIALS:
        best: list[Least | None] = [None] * len(weights)
        for values in product(*(domains[v].tolist() for v in fixed)):
            numbers = Numbers(
                problem, fixed_domains(domains, dict(zip(fixed, values, strict=True))), method
            )
            for i, solution in enumerate(numbers.sweep(weights, threads=threads)):
                old = best[i]
                if old is None or objective(solution, weights[i]) < objective(old, weights[i]):
                    best[i] = solution
        yield from (solution for solution in best if solution is not None)
        return
    for weight in weights:
        yield improve_in_turns(problem, domains, fixed, weight, method)


def improve_in_turns(
    problem: Problem, domains: Domains, fixed: Sequence[int], weight: float, method: Method
) -> Least:
    """Fix, solve the rest, choose the fixed anew given the rest, and again until nothing improves.

    Each fixed variable's configurations are tried in the order of what they cost with all the
    others as they are.
    """
    alpha, beta = scalars(weight)
    neighbours: dict[int, list[Pair]] = {v: [] for v in fixed}
    for pair in problem.pairs:
        for v in pair:
            if v in neighbours:
                neighbours[v].append(pair)

    def weighed(time: Floats, memory: Floats) -> Floats:
        """The best option's value for every entry."""
        cost = np.where(
            np.isinf(time), inf, alpha * np.where(np.isinf(time), 0, time) + beta * memory
        )
        return np.asarray(cost.min(axis=-1))

    def costs_given(v: int, choices: NDArray[np.int64] | None) -> Floats:
        """The value of each configuration of v, given `choices` or its neighbours' best."""
        cost = weighed(problem.unary[v].time, problem.unary[v].memory)
        for pair in neighbours[v]:
            table = problem.pairs[pair]
            values = weighed(table.time, table.memory)
            values = values if pair[0] == v else values.T
            other = pair[1] if pair[0] == v else pair[0]
            cost = cost + (values.min(axis=1) if choices is None else values[:, choices[other]])
        return cost[domains[v]]

    def solve(values: dict[int, int]) -> Least:
        return Numbers(problem, fixed_domains(domains, values), method).least(weight, exact=False)

    values = {v: int(domains[v][np.argmin(costs_given(v, None))]) for v in fixed}
    best = solve(values)
    trials = 0
    while True:
        before = objective(best, weight)
        for v in fixed:
            ranked = domains[v][np.argsort(costs_given(v, best.choices), kind="stable")]
            for value in ranked[: max(1, MOST_TURNS // (2 * len(fixed)))].tolist():
                if value == values[v] or trials >= MOST_TURNS:
                    continue
                trials += 1
                solution = solve({**values, v: value})
                if objective(solution, weight) < objective(best, weight):
                    best, values = solution, {**values, v: value}
        if trials >= MOST_TURNS or not objective(best, weight) < before:
            return best
