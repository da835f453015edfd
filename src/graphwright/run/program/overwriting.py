"""Which operands a call may overwrite: memory that nobody reads any more (Tofu section 6: buffers are reused as soon as on one device).

    %5 = mul(%buffer, 0.9)        %buffer is read here for the last time, so %5 may take its memory
    %6 = add(%5, %grad)           and %6 that of %5
    weight <- ...

A view, a slice and what they show share memory: it is free after the last reader of any of them. What is being sent is read until the
result is waited for. Memory that is not the step's own, data and parameters that no step updates, is never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from graphwright.aten import overload_of
from graphwright.plans import (
    Call,
    Collective,
    Cut,
    Exchange,
    Instruction,
    Program,
    Together,
    Wait,
    values_made,
    values_read,
)


def mark_free(program: Program) -> tuple[Instruction, ...]:
    """The instructions, each with the operands that it may overwrite."""
    instructions = program.instructions
    foreign = [v for name, v in program.inputs.items() if name not in program.updates]
    kept = (*program.updates.values(), *program.results.values())
    root = find_roots(instructions)
    last: dict[int, int] = {}
    sent: dict[int, dict[int, int]] = {}
    waits = _find_waits(instructions)
    for at, instruction in enumerate(instructions):
        for value in values_read(instruction):
            shared = root.get(value, value)
            last[shared] = at
            if not isinstance(instruction, Call | Cut):
                sent.setdefault(shared, {})[at] = waits[at]
    for value in (*foreign, *kept):
        last[root.get(value, value)] = len(instructions)
    marked: list[Instruction] = []
    for at, i in enumerate(instructions):
        match i:
            case Call():
                i = replace(i, free=_free(i, at, root, last, sent))
            case Collective(kind="all_reduce"):
                i = replace(i, free=_summed_in_place(i, at, root, last, sent))
            case Together():
                sums = (replace(s, free=_summed_in_place(s, at, root, last, sent)) for s in i.sums)
                i = Together(sums=tuple(sums))
            case _:
                pass
        marked.append(i)
    return tuple(marked)


def _free(
    call: Call,
    at: int,
    root: dict[int, int],
    last: dict[int, int],
    sent: dict[int, dict[int, int]],
) -> tuple[int, ...]:
    memory = [root.get(o.value, o.value) for o in call.inputs if o is not None]
    return tuple(
        arg
        for arg, operand in enumerate(call.inputs)
        if operand is not None
        and arg in call.alike
        and operand.region is None
        and operand.value not in root
        and last[operand.value] == at
        and all(wait <= at for wait in sent.get(operand.value, {}).values())
        and memory.count(operand.value) == 1
    )


def _summed_in_place(
    total: Collective,
    at: int,
    root: dict[int, int],
    last: dict[int, int],
    sent: dict[int, dict[int, int]],
) -> bool:
    others = (wait for by, wait in sent[root.get(total.value, total.value)].items() if by != at)
    return total.value not in root and last[total.value] == at and all(w <= at for w in others)


def find_roots(instructions: Sequence[Instruction]) -> dict[int, int]:
    """For every value that may share another one's memory, the value that the memory belongs to."""
    root: dict[int, int] = {}
    for i in instructions:
        if isinstance(i, Cut) and not i.zero:
            root[i.output] = root.get(i.value, i.value)
        elif isinstance(i, Call) and shares_memory(i.op):
            viewed = next(o.value for o in i.inputs if o is not None)
            root.update(dict.fromkeys(i.outputs, root.get(viewed, viewed)))
    return root


@cache
def shares_memory(op: str) -> bool:
    """Whether what an operator returns may lie in the memory of what it is given, by its schema."""
    return any(found.alias_info is not None for found in overload_of(op)._schema.returns)


def _find_waits(instructions: Sequence[Instruction]) -> dict[int, int]:
    """For every instruction that moves something, the one that waits for it, or at which its result, or the last of several, is first read; the end for none."""
    made: dict[int, int] = {}
    waits: dict[int, int] = {}
    for at, instruction in enumerate(instructions):
        for value in values_read(instruction):
            if value in made:
                by = made.pop(value)
                waits[by] = len(instructions) if by in made.values() else at
        if isinstance(instruction, Wait):
            waits[instruction.begun] = at
        elif isinstance(instruction, Collective | Together | Exchange):
            waits[at] = len(instructions)
            made.update(dict.fromkeys(values_made(instruction), at))
    return waits
