"""The rules that the program of one rank obeys; `verify_programs` has those of all together.

| rule      | what has to hold                                                                   |
| --------- | ---------------------------------------------------------------------------------- |
| value     | a value is made once, and before it is read; updates and results are made          |
| input     | what is taken has a home; what is updated is taken and keeps its shape             |
| region    | a region lies inside its value, except where a fill value stands beyond the edge   |
| cover     | every element of an exchange's result is received, or the rank's own               |
| group     | a collective's group has the rank, is one of `groups`, and has a size for each     |
| wait      | what is waited for began earlier, and is waited for once                           |

A shape is known for what an input, a collective, an exchange or a cut makes, and for the first
output of a call; what is not known is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from graphwright.errors import InvalidProgram
from graphwright.plans.programs.program import (
    Call,
    Collective,
    Constant,
    Cut,
    Exchange,
    Instruction,
    Operand,
    Program,
    Shape,
    Together,
    Wait,
    values_made,
    values_read,
)
from graphwright.plans.sharding import Box


def verify_program(program: Program) -> None:
    """Raise InvalidProgram, naming the rule and the instruction, unless the program is valid."""
    ProgramCheck(program).run()


def fail(rule: str, program: Program, what: str, at: Instruction | None = None) -> NoReturn:
    """Raise InvalidProgram for a rule that a rank's program breaks, at an instruction."""
    where = "" if at is None else f"\n  at  {at}"
    raise InvalidProgram(f"{rule}: rank {program.rank} {what}{where}", rule=rule, rank=program.rank)


def shape_of(region: Box) -> Shape:
    """The sizes of a region."""
    return tuple(stop - start for start, stop in region)


def _is_covered(shape: Shape, regions: Iterable[Box]) -> bool:
    """Whether regions have every element of a shape: looked at between their edges alone."""
    regions = list(regions)
    edges = [
        np.unique([0, size, *(edge for region in regions for edge in region[dim])])
        for dim, size in enumerate(shape)
    ]
    covered = np.zeros([len(each) - 1 for each in edges], dtype=np.bool_)
    for region in regions:
        cells = (np.searchsorted(each, r) for each, r in zip(edges, region, strict=True))
        covered[tuple(slice(*cell) for cell in cells)] = True
    return bool(covered.all())


def _is_inside(region: Box, shape: Shape) -> bool:
    return len(region) == len(shape) and all(
        0 <= start <= stop <= size for (start, stop), size in zip(region, shape, strict=True)
    )


class ProgramCheck:
    """One walk over a program; `shapes` are those of the values made so far, None if unknown."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.shapes: dict[int, Shape | None] = {}
        self.at: Instruction | None = None

    def run(self) -> None:
        program = self.program
        if program.inputs.keys() != program.homes.keys():
            names = program.inputs.keys() ^ program.homes.keys()
            self.fail("input", f"has {min(names)} among its inputs or its homes, not in both")
        for name, value in program.inputs.items():
            self.make(value, shape_of(program.homes[name]))
        begun: set[int] = set()
        for number, self.at in enumerate(program.instructions):
            for value in values_read(self.at):
                if value not in self.shapes:
                    self.fail("value", f"reads %{value} before it is made")
            self.check(self.at, begun)
            shapes = self.shapes_made(self.at)
            for value, shape in zip(values_made(self.at), shapes, strict=True):
                self.make(value, shape)
            if isinstance(self.at, Collective | Together | Exchange):
                begun.add(number)
        self.at = None
        for name, value in (*program.updates.items(), *program.results.items()):
            if value not in self.shapes:
                self.fail("value", f"leaves %{value} as {name}, which nothing makes")
        for name, value in program.updates.items():
            if name not in program.inputs:
                self.fail("input", f"updates {name}, which it does not take")
            home = shape_of(program.homes[name])
            if self.shapes[value] not in (None, home):
                self.fail("input", f"updates {name} of {home} with {self.shapes[value]}")

    def make(self, value: int, shape: Shape | None) -> None:
        if value in self.shapes:
            self.fail("value", f"makes %{value} twice")
        self.shapes[value] = shape

    def shapes_made(self, instruction: Instruction) -> list[Shape | None]:
        match instruction:
            case Call(outputs=outputs, box=box):
                return [shape_of(box), *(None for _ in outputs[1:])]
            case Constant(type=type):
                return [type.shape]
            case Cut(region=region):
                return [shape_of(region)]
            case Collective():
                return [self.shape_of_collective(instruction)]
            case Together(sums=sums):
                return [self.shape_of_collective(each) for each in sums]
            case Exchange(output=output, type=type, order=order):
                return [] if output is None else [_turned_back(type.shape, order)]
            case Wait():
                return []

    def shape_of_collective(self, collective: Collective) -> Shape | None:
        shape = self.shapes[collective.value]
        if shape is None or not collective.sizes:
            return shape
        order = collective.order or tuple(range(len(shape)))
        dim, place = order[collective.dim], collective.group.index(self.program.rank)
        gathers = not collective.kind.reduces
        given, made = collective.sizes[place], sum(collective.sizes)
        given, made = (given, made) if gathers else (made, given)
        if shape[dim] != given:
            self.fail("region", f"has {shape[dim]} along dim {dim} for a {collective.kind}")
        return (*shape[:dim], made, *shape[dim + 1 :])

    def check(self, instruction: Instruction, begun: set[int]) -> None:
        match instruction:
            case Call(inputs=inputs):
                for operand in inputs:
                    if operand is not None and operand.region is not None:
                        self.check_operand(operand, operand.region)
            case Cut(value=value, region=region):
                self.check_region(region, self.shapes[value])
            case Collective():
                self.check_group(instruction)
            case Together(sums=sums):
                for each in sums:
                    self.check_group(each)
                if len({(s.kind, s.group, s.reducer) for s in sums}) != 1:
                    self.fail("group", "adds up together what differs in group or reducer")
            case Exchange():
                self.check_exchange(instruction)
            case Wait(begun=number):
                if number not in begun:
                    self.fail("wait", "waits for what has not begun, or has been waited for")
                begun.remove(number)
            case Constant():
                pass

    def check_operand(self, operand: Operand, region: Box) -> None:
        shape = self.shapes[operand.value]
        if shape is None:
            return
        fills = operand.fills or (None,) * len(region)
        if not len(region) == len(shape) == len(fills):
            self.fail("region", f"reads {operand} of a value of shape {shape}")
        for (start, stop), size, fill in zip(region, shape, fills, strict=True):
            if start > stop or (fill is None and not 0 <= start <= stop <= size):
                self.fail("region", f"reads {operand} of a value of shape {shape}")

    def check_region(self, region: Box, shape: Shape | None) -> None:
        if shape is not None and not _is_inside(region, shape):
            self.fail("region", f"has region {region} of a value of shape {shape}")

    def check_group(self, collective: Collective) -> None:
        group = collective.group
        if self.program.rank not in group or len(set(group)) != len(group):
            self.fail("group", f"does a collective of ranks {group}")
        if len(group) > 1 and group not in self.program.groups:
            self.fail("group", f"does a collective of ranks {group}, which is none of its groups")
        if len(collective.sizes) != (0 if collective.kind.in_place else len(group)):
            self.fail("group", f"has {len(collective.sizes)} sizes for {len(group)} ranks")

    def check_exchange(self, exchange: Exchange) -> None:
        order, made = exchange.order, exchange.type.shape
        shape = None if exchange.value is None else self.shapes[exchange.value]
        if shape is not None and order is not None:
            shape = tuple(shape[dim] for dim in order)
        if exchange.value is None and (exchange.sends or exchange.own):
            self.fail("value", "sends a part of nothing")
        if exchange.output is None and (exchange.receives or exchange.own):
            self.fail("value", "receives a part of nothing")
        for region in (*(r for _, r in exchange.sends), *(r for r, _ in exchange.own)):
            self.check_region(region, shape)
        if exchange.output is None:
            return
        parts = [*(r for _, r in exchange.receives), *(r for _, r in exchange.own)]
        for region in parts:
            self.check_region(region, made)
        if not _is_covered(made, parts):
            self.fail("cover", "does not get every element of what it makes")
        for source, target in exchange.own:
            if shape_of(source) != shape_of(target):
                self.fail("region", f"moves its own {source} to {target}")

    def fail(self, rule: str, what: str) -> NoReturn:
        fail(rule, self.program, what, self.at)


def _turned_back(shape: Shape, order: tuple[int, ...] | None) -> Shape:
    """The sizes of dims from the order in which they lie in memory."""
    return shape if order is None else tuple(shape[order.index(d)] for d in range(len(shape)))
