"""Which operands a call may overwrite, and the operators that do (Tofu section 6).

    %5 = mul(%buffer, 0.9)        %buffer is read here for the last time, so %5 may take its memory
    %6 = add(%5, %grad)           and %6 that of %5
    weight <- ...

A view, a slice and what they show share memory: it is free after the last reader of any of them.
What is being sent is read until its result is waited for, and what an update reads that may wait
for others (`postponed`) until the end. Memory that is not the step's own (data, parameters that no
step updates) is never overwritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

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
    transfers,
    values_made,
    values_read,
)

_COPIES = "CompositeExplicitAutograd"
"""Where PyTorch registers variants with `out=` that have no kernel of their own."""


def mark_free(program: Program) -> tuple[Instruction, ...]:
    """The instructions, each with the operands that it may overwrite."""
    instructions = program.instructions
    foreign = [v for name, v in program.inputs.items() if name not in program.updates]
    kept = (*program.updates.values(), *program.results.values())
    root = find_roots(instructions)
    last: dict[int, int] = {}
    sent: dict[int, dict[int, int]] = {}
    waiting: dict[int, int] = {}
    waits = _find_waits(instructions)
    for at, instruction in enumerate(instructions):
        for value in values_read(instruction):
            shared = root.get(value, value)
            last[shared] = at
            if not isinstance(instruction, Call | Cut):
                sent.setdefault(shared, {})[at] = waits[at]
            elif isinstance(instruction, Call) and may_wait(instruction.op):
                waiting.setdefault(shared, at)
    for value in (*foreign, *kept):
        last[root.get(value, value)] = len(instructions)

    def is_free(value: int, at: int) -> bool:
        if value in root or last[value] > at or waiting.get(value, at) < at:
            return False
        return all(wait <= at for by, wait in sent.get(value, {}).items() if by != at)

    marked: list[Instruction] = []
    for at, i in enumerate(instructions):
        match i:
            case Call():
                memory = Counter(root.get(o.value, o.value) for o in i.inputs if o is not None)
                free = (
                    arg
                    for arg, o in enumerate(i.inputs)
                    if o is not None and arg in i.alike and o.region is None
                    and is_free(o.value, at) and memory[o.value] == 1
                )  # fmt: skip
                i = replace(i, free=tuple(free))
            case Collective(kind=transfers.AllReduce()):
                i = replace(i, free=is_free(i.value, at))
            case Together():
                sums = (replace(total, free=is_free(total.value, at)) for total in i.sums)
                i = Together(sums=tuple(sums))
            case _:
                pass
        marked.append(i)
    return tuple(marked)


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
    return any(result.alias_info is not None for result in overload_of(op)._schema.returns)


@cache
def find_in_place(overload: OpOverload) -> OpOverload | None:
    """The variant of an operator that writes over arguments of it, if there is one."""
    namespace, name = overload._schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    variant = getattr(packet, overload._overloadname, None)
    if not isinstance(variant, OpOverload):
        return None
    same = _signature(variant._schema.arguments) == _signature(overload._schema.arguments)
    return variant if same else None


@cache
def written_by(overload: OpOverload) -> tuple[int, ...]:
    """Which of its tensor arguments an operator writes over; its results are these, in order."""
    tensors = [a for a in overload._schema.arguments if "Tensor" in str(a.type)]
    return tuple(
        place
        for place, argument in enumerate(tensors)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@cache
def find_for_all(overload: OpOverload) -> OpOverload | None:
    """The variant of an operator for many tensors at once, each in the place of one: `adam_all_`
    of `adam_`."""
    namespace, name = overload._schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name.rstrip('_')}_all_", None)
    variant = getattr(packet, overload._overloadname, None)
    return variant if isinstance(variant, OpOverload) else None


@cache
def may_wait(op: str) -> bool:
    """Whether calls of an operator may wait for others like them, to be one kernel with these."""
    in_place = find_in_place(overload_of(op))
    return in_place is not None and find_for_all(in_place) is not None


@cache
def find_into_memory(overload: OpOverload) -> tuple[OpOverload, tuple[str, ...]] | None:
    """The variant that writes into memory that it is given, and as which arguments, if any.

    One that PyTorch makes up for completeness, which allocates and then copies, is none.
    """
    packet = overload.overloadpacket
    for name in packet.overloads():
        variant = getattr(packet, name)
        outs = [argument for argument in variant._schema.arguments if argument.is_out]
        others = [argument for argument in variant._schema.arguments if not argument.is_out]
        if (
            outs
            and all(str(argument.type) == "Tensor" for argument in outs)
            and len(outs) == len(overload._schema.returns)
            and _signature(others) == _signature(overload._schema.arguments)
            and not torch._C._dispatch_has_kernel_for_dispatch_key(variant.name(), _COPIES)
        ):
            return variant, tuple(argument.name for argument in outs)
    return None


def _signature(arguments: Sequence[Any]) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in arguments]


def _find_waits(instructions: Sequence[Instruction]) -> dict[int, int]:
    """For every transfer, the instruction that waits for it or first reads its (last) result.

    The number of instructions where there is none.
    """
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
