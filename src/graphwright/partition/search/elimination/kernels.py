"""The hot loops of `weighted`: the least alpha * time + beta * memory of an elimination circuit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats
from graphwright.tasks import compiled

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

# The columns of a circuit's operations.
LEFT, RIGHT, SHARED, FIRST, VARIABLE, LAST, LEFT_MAP, RIGHT_MAP = range(8)


@compiled
def weigh_leaves(
    time: Floats,
    memory: Floats,
    leaf_begin: Int64s,
    num_options: Int64s,
    slot_begin: Int64s,
    alpha: float,
    beta: float,
    values: Floats,
) -> None:
    """The values of the unit and of the leaves: the best option of every entry."""
    values[0] = 0.0
    for leaf in range(len(num_options)):
        options = num_options[leaf]
        at = leaf_begin[leaf]
        for e in range(slot_begin[leaf + 1], slot_begin[leaf + 2]):
            best = np.inf
            for _ in range(options):
                if time[at] < np.inf:
                    best = min(best, alpha * time[at] + beta * memory[at])
                at += 1
            values[e] = best


@compiled
def run_operations(
    operations: Int64s, maps: Int32s, slot_begin: Int64s, first_slot: int, values: Floats
) -> None:
    """The values of all results, from those of the leaves: min-plus products of matrices."""
    for o in range(len(operations)):
        shared, first = operations[o, SHARED], operations[o, FIRST]
        variable, last = operations[o, VARIABLE], operations[o, LAST]
        left = slot_begin[operations[o, LEFT]]
        right = slot_begin[operations[o, RIGHT]]
        left_map, right_map = operations[o, LEFT_MAP], operations[o, RIGHT_MAP]
        out = slot_begin[first_slot + o]
        operand = np.empty(variable * last)
        for s in range(shared):
            for i in range(variable * last):
                operand[i] = values[right + maps[right_map + s * variable * last + i]]
            for f in range(first):
                row = values[out + (s * first + f) * last : out + (s * first + f + 1) * last]
                row[:] = np.inf
                at = left_map + (s * first + f) * variable
                for v in range(variable):
                    a = values[left + maps[at + v]]
                    if a < np.inf:
                        others = operand[v * last : (v + 1) * last]
                        for b in range(last):
                            x = a + others[b]
                            row[b] = x if x < row[b] else row[b]


@compiled
def run_outside(
    operations: Int64s,
    maps: Int32s,
    slot_begin: Int64s,
    first_slot: int,
    root: int,
    values: Floats,
    outside: Floats,
) -> None:
    """For every entry of every slot the least that all the rest takes, over all instances."""
    outside[:] = np.inf
    outside[slot_begin[root]] = 0.0
    for o in range(len(operations) - 1, -1, -1):
        shared, first = operations[o, SHARED], operations[o, FIRST]
        variable, last = operations[o, VARIABLE], operations[o, LAST]
        left = slot_begin[operations[o, LEFT]]
        right = slot_begin[operations[o, RIGHT]]
        left_map, right_map = operations[o, LEFT_MAP], operations[o, RIGHT_MAP]
        out = slot_begin[first_slot + o]
        operand = np.empty(variable * last)  # of right, as [last, variable]
        to_right = np.empty(variable * last)
        to_left = np.empty(variable)
        for s in range(shared):
            to_right[:] = np.inf
            for v in range(variable):
                for b in range(last):
                    entry = maps[right_map + (s * variable + v) * last + b]
                    operand[b * variable + v] = values[right + entry]
            for f in range(first):
                row = outside[out + (s * first + f) * last : out + (s * first + f + 1) * last]
                at = left_map + (s * first + f) * variable
                to_left[:] = np.inf
                for b in range(last):
                    above = row[b]
                    if above < np.inf:
                        others = operand[b * variable : (b + 1) * variable]
                        for v in range(variable):
                            x = above + others[v]
                            to_left[v] = x if x < to_left[v] else to_left[v]
                for v in range(variable):
                    entry = left + maps[at + v]
                    outside[entry] = min(outside[entry], to_left[v])
                    a = values[entry]
                    if a < np.inf:
                        target = to_right[v * last : (v + 1) * last]
                        for b in range(last):
                            x = a + row[b]
                            target[b] = x if x < target[b] else target[b]
            for i in range(variable * last):
                entry = right + maps[right_map + s * variable * last + i]
                outside[entry] = min(outside[entry], to_right[i])


@compiled
def unroll_values(
    operations: Int64s,
    maps: Int32s,
    slot_begin: Int64s,
    first_slot: int,
    instance_slot: Int64s,
    instance_left: Int64s,
    instance_right: Int64s,
    values: Floats,
) -> Int64s:
    """The entry of every instance in the best assignment; the root is the last instance."""
    entries = np.zeros(len(instance_slot), np.int64)
    for i in range(len(instance_slot) - 1, -1, -1):
        if instance_left[i] < 0:
            continue
        o = instance_slot[i] - first_slot
        first, variable, last = operations[o, FIRST], operations[o, VARIABLE], operations[o, LAST]
        left = slot_begin[operations[o, LEFT]]
        right = slot_begin[operations[o, RIGHT]]
        row, b = entries[i] // last, entries[i] % last
        s = row // first
        best = np.inf
        for v in range(variable):
            x = maps[operations[o, LEFT_MAP] + row * variable + v]
            y = maps[operations[o, RIGHT_MAP] + (s * variable + v) * last + b]
            cost = values[left + x] + values[right + y]
            if cost < best or v == 0:
                best = cost
                entries[instance_left[i]] = x
                if instance_right[i] > 0:
                    entries[instance_right[i]] = y
    return entries


@compiled
def best_options(
    time: Floats,
    memory: Floats,
    leaf_begin: Int64s,
    num_options: Int64s,
    leaf_of: Int64s,
    entries: Int64s,
    alpha: float,
    beta: float,
) -> Int64s:
    """The best option of each table's entry."""
    best_option = np.zeros(len(leaf_of), np.int64)
    for i in range(len(leaf_of)):
        options = num_options[leaf_of[i]]
        at = leaf_begin[leaf_of[i]] + entries[i] * options
        best = np.inf
        for option in range(options):
            if time[at + option] < np.inf:
                cost = alpha * time[at + option] + beta * memory[at + option]
                if cost < best:
                    best = cost
                    best_option[i] = option
    return best_option
