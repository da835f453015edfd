"""An elimination as a circuit over distinct values: equal sub-problems are solved once.

    compile_problem    tables, domains -> order of elimination -> steps -> Circuit

Every factor has a key: a leaf that of its table's content, a result the hash of its step's form and
of its operands' keys. Equal keys are one slot; the circuit computes every slot once, whatever the
algebra: numbers in `eliminate`, frontiers in `frontier`.

    instances    layer 1   layer 2   ...  layer 24     one tree of steps, each with its variables
                       \\      |       /
    slots                 one value                    computed once; unrolled for each instance

A domain is the part of a variable's configurations that take part. A variable with one left is no
variable any more: it drops out of all scopes, which is how a variable is fixed (TensorOpt's
heuristic elimination) or all its configurations are tried in turn.

In the arrays of a circuit, a step's result has entries (shared, of left, of right), and its
operands are read through maps: left as [shared, of left, variable], right as [shared, variable, of
right]: a product of matrices for every shared entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats, Pair, Problem, Table
from graphwright.partition.search.elimination.order import (
    JOIN,
    NONE,
    Method,
    Order,
    Scope,
    find_order,
    find_steps,
    step_scope,
)

Domains = Mapping[int, NDArray[np.int64]]

UNIT = 0
"""The slot of the factor over nothing that costs nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A table's part within the domains: [entries, options]."""

    time: Floats
    memory: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One slot from two: see the module for the maps' shapes."""

    left: int
    right: int
    left_map: NDArray[np.int32]  # [shared, of left, variable]
    right_map: NDArray[np.int32]  # [shared, variable, of right]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many entries: shared, of left, of the eliminated variable, of right."""
        shared, first, variable = self.left_map.shape
        return shared, first, variable, self.right_map.shape[2]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Circuit:
    """Slots: UNIT, the leaves, then one for each operation. Instances: the unit, the factors, the
    steps; the root is the last.

    instance_slot    the slot that holds the instance's value
    instance_left    for a step its operands' instances; -1 for a factor
    pairs            for instance 1 + i the table of the problem that it came from
    """

    order: Order
    leaves: tuple[Leaf, ...]
    operations: tuple[Operation, ...]
    instance_slot: NDArray[np.int64]
    instance_left: NDArray[np.int64]
    instance_right: NDArray[np.int64]
    root: int
    pairs: tuple[Pair, ...]

    def slot_sizes(self) -> list[int]:
        """The number of entries of every slot."""
        sizes = [1, *(len(leaf.time) for leaf in self.leaves)]
        for operation in self.operations:
            shared, first, _, last = operation.shape
            sizes.append(shared * first * last)
        return sizes


def all_configurations(problem: Problem) -> dict[int, NDArray[np.int64]]:
    """The domains that leave out nothing."""
    return {v: np.arange(len(table.time)) for v, table in enumerate(problem.unary)}


def scopes_of(problem: Problem, domains: Domains) -> tuple[dict[int, int], list[Scope]]:
    """Variables with their numbers of choices, if several; the scopes of all tables."""
    sizes = {v: len(domain) for v, domain in domains.items() if len(domain) > 1}
    scopes: list[Scope] = [(v,) if v in sizes else () for v in range(problem.num_variables)]
    scopes += [tuple(v for v in pair if v in sizes) for pair in problem.pairs]
    return sizes, scopes


def compile_problem(
    problem: Problem, domains: Domains, method: Method = "ldp", *, share: bool = True
) -> Circuit:
    """The circuit that eliminates all variables; `share`: equal sub-problems are one slot."""
    sizes, scopes = scopes_of(problem, domains)
    order = find_order(sizes, scopes, method)
    steps = find_steps(sizes, scopes, order.variables)
    pairs: list[Pair] = [(v, v) for v in range(problem.num_variables)]
    pairs += problem.pairs
    tables: list[Table] = [*problem.unary, *problem.pairs.values()]

    slot_of_key: dict[bytes, int] = {}
    leaves: list[Leaf] = []
    instance_slot = [UNIT]
    scope_of: list[Scope] = [(), *scopes]
    keys: list[bytes] = [b"unit"]
    made: dict[tuple[bytes, ...], tuple[Leaf, bytes]] = {}
    content = {v: domain.tobytes() for v, domain in domains.items()}
    for number, (pair, table) in enumerate(zip(pairs, tables, strict=True)):
        origin = (table.key, content[pair[0]], content[pair[1]])
        if origin not in made:
            made[origin] = _leaf(table, pair, domains)
        leaf, key = made[origin]
        if not share:
            key += number.to_bytes(8, "little")
        if key not in slot_of_key:
            leaves.append(leaf)
            slot_of_key[key] = len(leaves)
        instance_slot.append(slot_of_key[key])
        keys.append(key)

    maps = _Maps(sizes)
    operations: list[Operation] = []
    left_of, right_of = [-1] * len(keys), [-1] * len(keys)
    for number, step in enumerate(steps):
        left, right = step.left + 1, step.right + 1 if step.right != NONE else 0
        form, left_map, right_map = maps.find(scope_of[left], scope_of[right], step.variable)
        key = blake2b(form + keys[left] + keys[right], digest_size=16).digest()
        if not share:
            key += number.to_bytes(8, "little")
        if key not in slot_of_key:
            slot_of_key[key] = 1 + len(leaves) + len(operations)
            operations.append(
                Operation(instance_slot[left], instance_slot[right], left_map, right_map)
            )
        instance_slot.append(slot_of_key[key])
        keys.append(key)
        scope_of.append(step.scope)
        left_of.append(left)
        right_of.append(right)
    return Circuit(
        order=order,
        leaves=tuple(leaves),
        operations=tuple(operations),
        instance_slot=np.array(instance_slot, np.int64),
        instance_left=np.array(left_of, np.int64),
        instance_right=np.array(right_of, np.int64),
        root=len(keys) - 1,
        pairs=tuple(pairs),
    )


def _ends(pair: Pair) -> tuple[int, ...]:
    return pair if pair[0] != pair[1] else pair[:1]


def _leaf(table: Table, pair: Pair, domains: Domains) -> tuple[Leaf, bytes]:
    """A table's entries within the domains, and a key: of little content, or of its origin."""
    ends = _ends(pair)
    num_options = table.time.shape[-1]
    if all(len(domains[v]) == size for v, size in zip(ends, table.time.shape, strict=False)):
        time, memory, key = table.time, table.memory, table.key
    else:
        index = np.ix_(*(domains[v] for v in ends), np.arange(num_options))
        time, memory = table.time[index], table.memory[index]
        digest = blake2b(digest_size=16)
        if min(len(domains[v]) for v in ends) > 1:
            digest.update(table.key)
            for v in ends:
                digest.update(len(domains[v]).to_bytes(8, "little"))
                digest.update(domains[v].tobytes())
        else:
            digest.update(num_options.to_bytes(8, "little"))
            digest.update(time.tobytes())
            digest.update(memory.tobytes())
        key = digest.digest()
    return Leaf(time.reshape(-1, num_options), memory.reshape(-1, num_options)), key


class _Maps:
    """The maps of steps, each made once."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.known: dict[bytes, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    def find(
        self, left: Scope, right: Scope, variable: int
    ) -> tuple[bytes, NDArray[np.int32], NDArray[np.int32]]:
        """The form of the step, the same for steps that do the same, and its two maps."""
        names = {v: i for i, v in enumerate(dict.fromkeys((*left, *right)))}
        form = repr(
            (
                [(names[v], self.sizes[v]) for v in left],
                [(names[v], self.sizes[v]) for v in right],
                names.get(variable, JOIN),
            )
        ).encode()
        if form not in self.known:
            scope = step_scope(left, right, variable)
            shared = [v for v in scope if v in left and v in right]
            chosen = [] if variable == JOIN else [variable]
            first = [v for v in scope if v not in right]
            last = [v for v in scope if v not in left]
            left_map = self._entries(left, shared, first, chosen)
            if (
                variable != JOIN and variable not in right
            ):  # one operand: the unit, for every configuration
                right_map = np.zeros((1, self.sizes[variable], 1), np.int32)
            else:
                right_map = self._entries(right, shared, chosen, last)
            self.known[form] = (left_map, right_map)
        return form, *self.known[form]

    def _entries(self, scope: Scope, *parts: Sequence[int]) -> NDArray[np.int32]:
        """The entries of a factor with its dims arranged in three parts."""
        shape = [self.sizes[v] for v in scope]
        entries = np.arange(prod(shape), dtype=np.int32).reshape(shape)
        entries = entries.transpose([scope.index(v) for part in parts for v in part])
        return np.ascontiguousarray(
            entries.reshape([prod(self.sizes[v] for v in part) for part in parts])
        )
