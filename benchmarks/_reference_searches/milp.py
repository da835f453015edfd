"""The exact answer by mixed-integer programming (HiGHS), for any graph: a reference for the other
searches.

    minimise    time + weight * memory (or memory) of all entries and options that are chosen
    subject to  y[v, c, option] >= 0,  their sum = 1                            one configuration a variable
                sum over option of y[v, c, option] = x[v, c], which is 0 or 1
                sum over d, option of y[u, v, c, d, option] = x[u, c]           a pair's entry agrees with both ends
                sum over c, option of y[u, v, c, d, option] = x[v, d]
                memory <= limit

All of it is in `_Model`: `add_variable` and `add_pair` have the constraints. Only x is whole: given
x, one entry of each table is left, and choosing among its options needs whole numbers only where a
limit cuts between them. Options that another one of the entry beats in both are left out, as are
those of infinite time.

Costs are scaled to about 1; HiGHS keeps a limit to a millionth of that.
"""

from __future__ import annotations

from math import inf, isinf
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import DoesNotFit, NothingFound
from graphwright.partition.estimate import Floats, Pair, Problem, Table
from graphwright.partition.search.elimination import Least, least

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Ints = NDArray[np.int64]

_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2
"""Statuses of scipy.optimize.milp."""


def solve(
    problem: Problem,
    *,
    memory_limit: float | None = None,
    objective: Literal["time", "memory"] = "time",
    weight: float = 0.0,
    time_limit: float | None = None,
) -> Least:
    """The assignment of least time (+ weight * memory) or least memory, within a limit of memory if
    one is given.

    After `time_limit` seconds the best so far, then with `exact` false; NothingFound if there is
    none. DoesNotFit where no assignment keeps the limit.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if problem.num_variables == 0:
        return _checked(problem, np.zeros(0, np.int64), {}, exact=True)
    model = _Model(problem, whole_options=memory_limit is not None)
    constraints = [LinearConstraint(model.matrix(), model.right, model.right)]
    if memory_limit is not None:
        scale = _scale(model.memory)
        row = model.memory[None, :] / scale
        constraints.append(LinearConstraint(row, -np.inf, memory_limit / scale))
    cost = model.memory if objective == "memory" else model.time + weight * model.memory
    found = milp(
        cost / _scale(cost),
        integrality=model.whole,
        bounds=Bounds(0.0, 1.0),
        constraints=constraints,
        options={"mip_rel_gap": 0.0, "time_limit": inf if time_limit is None else time_limit},
    )
    if found.x is None:
        raise _failure(problem, int(found.status), str(found.message), memory_limit, time_limit)
    return _checked(problem, *model.read(found.x), exact=found.status == _OPTIMAL)


def _failure(
    problem: Problem,
    status: int,
    message: str,
    memory_limit: float | None,
    time_limit: float | None,
) -> DoesNotFit | NothingFound:
    if status == _LIMIT:
        return NothingFound(
            f"no assignment of {problem.num_variables} variables was found within {time_limit} s; "
            "allow more time, or use the frontier"
        )
    if status == _INFEASIBLE and memory_limit is not None:
        smallest = least(problem, np.inf)
        if not isinf(smallest.time):
            return DoesNotFit(
                f"no assignment needs at most {memory_limit:,.0f} bytes; the smallest needs {smallest.memory:,.0f}",
                limit=int(memory_limit),
                needed=int(smallest.memory),
            )
    if status == _INFEASIBLE:
        return NothingFound("every assignment takes infinite time: some pair has no possible entry")
    return NothingFound(f"HiGHS ended with: {message}")


def _checked(problem: Problem, choices: Ints, options: dict[Pair, int], *, exact: bool) -> Least:
    time, memory = problem.evaluate(choices.tolist(), options)
    return Least(choices=choices, options=options, time=time, memory=memory, exact=exact)


def _scale(values: Floats) -> float:
    """A typical size of the values, to divide by."""
    sizes = np.abs(values[values != 0])
    return float(sizes.mean()) if len(sizes) else 1.0


class _Model:
    """Columns x and y with their costs, and rows of constraints, all equations."""

    def __init__(self, problem: Problem, *, whole_options: bool) -> None:
        self.problem = problem
        self.whole_options = whole_options
        self.num_columns = 0
        self.num_rows = 0
        self._columns: list[tuple[Floats, Floats, NDArray[np.int64]]] = []  # time, memory, whole
        self._cells: list[tuple[Ints, Ints, Floats]] = []  # rows, columns, values
        self._right: list[Floats] = []
        self.first_x: list[int] = []
        self.chosen: dict[Pair, tuple[int, Ints, Ints]] = {}  # first column, entries, options
        for v, table in enumerate(problem.unary):
            self.add_variable(v, table)
        for pair, table in problem.pairs.items():
            self.add_pair(pair, table)
        self.time, self.memory, self.whole = (
            np.concatenate(part) for part in zip(*self._columns, strict=True)
        )
        self.right = np.concatenate(self._right)

    def add_variable(self, v: int, table: Table) -> None:
        """x of a variable, y of its own options, and that one is chosen."""
        num = len(table.time)
        self.first_x.append(self.num_columns)
        self._add_columns(np.zeros(num), np.zeros(num), np.ones(num, np.int64))
        first, entries = self._add_table((v, v), table)
        columns = np.arange(first, first + len(entries))
        self._add_rows(1, np.zeros(len(entries), np.int64), columns, 1.0, right=1.0)
        self._agree(entries, columns, v)

    def add_pair(self, pair: Pair, table: Table) -> None:
        """y of a pair, which agrees with x of both ends."""
        first, entries = self._add_table(pair, table)
        columns = np.arange(first, first + len(entries))
        last = table.time.shape[1]
        self._agree(entries // last, columns, pair[0])
        self._agree(entries % last, columns, pair[1])

    def _add_table(self, pair: Pair, table: Table) -> tuple[int, Ints]:
        """A column for every option worth having; the first, and the entries of all."""
        time = table.time.reshape(-1, table.time.shape[-1])
        memory = table.memory.reshape(time.shape)
        entries, options = np.nonzero(_worth(time, memory))
        first = self.num_columns
        several = np.bincount(entries, minlength=len(time))[entries] > 1
        whole = (several & self.whole_options).astype(np.int64)
        self._add_columns(time[entries, options], memory[entries, options], whole)
        self.chosen[pair] = (first, entries, options)
        return first, entries

    def _agree(self, configurations: Ints, columns: Ints, v: int) -> None:
        """The columns of each configuration add up to x."""
        num = len(self.problem.unary[v].time)
        x = np.arange(num)
        rows = np.concatenate([configurations, x])
        values = np.concatenate([np.ones(len(columns)), -np.ones(num)])
        self._add_rows(num, rows, np.concatenate([columns, self.first_x[v] + x]), values, right=0.0)

    def _add_columns(self, time: Floats, memory: Floats, whole: NDArray[np.int64]) -> None:
        self._columns.append((time, memory, whole))
        self.num_columns += len(time)

    def _add_rows(
        self, num: int, rows: Ints, columns: Ints, values: Floats | float, *, right: float
    ) -> None:
        self._cells.append(
            (rows + self.num_rows, columns, np.broadcast_to(np.asarray(values, float), rows.shape))
        )
        self._right.append(np.full(num, right))
        self.num_rows += num

    def matrix(self) -> csr_array[np.float64]:
        """The constraints' coefficients, sparse."""
        from scipy.sparse import csr_array

        rows, columns, values = (np.concatenate(part) for part in zip(*self._cells, strict=True))
        return csr_array((values, (rows, columns)), shape=(self.num_rows, self.num_columns))

    def read(self, solution: Floats) -> tuple[Ints, dict[Pair, int]]:
        """The configurations and options that a solution has chosen."""
        sizes = [len(table.time) for table in self.problem.unary]
        choices = np.array(
            [
                int(np.argmax(solution[first : first + size]))
                for first, size in zip(self.first_x, sizes, strict=True)
            ],
            np.int64,
        )
        options: dict[Pair, int] = {}
        for (u, v), (first, entries, numbers) in self.chosen.items():
            entry = choices[u] if u == v else choices[u] * sizes[v] + choices[v]
            columns = np.nonzero(entries == entry)[0]
            options[u, v] = int(numbers[columns[np.argmax(solution[first + columns])]])
        return choices, options


def _worth(time: Floats, memory: Floats) -> NDArray[np.bool_]:
    """Which options of each entry no other one beats or, if it comes earlier, equals."""
    worth = np.isfinite(time)
    num_options = time.shape[1]
    for i in range(num_options):
        for j in range(num_options):
            if i != j:
                no_worse = (time[:, j] <= time[:, i]) & (memory[:, j] <= memory[:, i])
                equal = (time[:, j] == time[:, i]) & (memory[:, j] == memory[:, i])
                worth[:, i] &= ~(no_worse & (~equal | (j < i)))
    return worth
