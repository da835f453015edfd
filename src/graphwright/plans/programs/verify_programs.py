"""The rules that the programs of all ranks obey together, besides those of each alone.

| rule      | what has to hold                                                                   |
| --------- | ---------------------------------------------------------------------------------- |
| alike     | groups, shardings and digest are the same; inputs and results are where these say  |
| order     | ranks that wait for each other at every transfer all reach their end               |
| message   | regions sent have the sizes and the dtype of those received, in the same order     |
| shape     | values that meet in a collective differ along the dim of a gathering only          |

`order` is checked by walking all programs at once: a rank passes a transfer when all others that
take part in it have come to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphwright.plans.programs.program import (
    Collective,
    Exchange,
    Instruction,
    Program,
    Shape,
    Together,
)
from graphwright.plans.programs.verify_program import ProgramCheck, fail, shape_of
from graphwright.plans.sharding import boxes

Key = tuple[object, ...]
"""What all ranks that take part in a transfer call it."""


def verify_programs(programs: Sequence[Program]) -> None:
    """Raise InvalidProgram unless the programs of all ranks are valid, and fit together."""
    checks = [ProgramCheck(program) for program in programs]
    for check in checks:
        check.run()
    for rank, program in enumerate(programs):
        if program.rank != rank:
            fail("alike", program, f"stands at place {rank}; give the programs of all ranks")
    _verify_alike(programs)
    _verify_order(programs)
    _verify_messages(programs)
    _verify_shapes(checks)


def _verify_alike(programs: Sequence[Program]) -> None:
    first = programs[0]
    for program in programs:
        for what in ("digest", "groups", "shardings"):
            if getattr(program, what) != getattr(first, what):
                fail("alike", program, f"has other {what} than rank {first.rank}")
    for name, sharding in first.shardings.items():
        homes = {p.rank: p.homes[name] for p in programs if name in p.homes}
        for program in programs:
            has = name in program.inputs or name in program.results
            if has != (program.rank in sharding.mesh.devices):
                fail("alike", program, f"has {'' if has else 'no '}{name}, which is {sharding}")
        if homes:
            rank_of_tensor = len(next(iter(homes.values())))
            shape = tuple(max(box[d][1] for box in homes.values()) for d in range(rank_of_tensor))
            for device, bounds in zip(sharding.mesh.devices, boxes(sharding, shape), strict=True):
                if device in homes and bounds.tolist() != [list(pair) for pair in homes[device]]:
                    fail("alike", programs[device], f"has {homes[device]} of {name}, {sharding}")


def _transfers(program: Program) -> list[tuple[Key, frozenset[int], Instruction]]:
    """What a rank does together with others: its name, the others, and the instruction."""
    made: list[tuple[Key, frozenset[int], Instruction]] = []
    for i in program.instructions:
        match i:
            case Collective(group=group):
                made.append((_key(i), frozenset(group), i))
            case Together(sums=sums):
                made.append((tuple(map(_key, sums)), frozenset(sums[0].group), i))
            case Exchange(sends=sends, receives=receives) if sends or receives:
                others = frozenset(rank for rank, _ in (*sends, *receives))
                made.append((("exchange", i.tensor, i.tag, i.order), others, i))
            case _:
                pass
    return [(key, others - {program.rank}, i) for key, others, i in made]


def _key(c: Collective) -> Key:
    return c.kind, c.tensor, c.group, c.reducer, c.dim, c.sizes, c.order


def _verify_order(programs: Sequence[Program]) -> None:
    """Walk all programs at once; whoever waits when nobody can go on waits for ever."""
    todo = [_transfers(program) for program in programs]
    at = [0] * len(programs)
    arrived: list[Counter[Key]] = [Counter() for _ in programs]
    for rank, transfers in enumerate(todo):
        if transfers:
            arrived[rank][transfers[0][0]] += 1
    ready = list(range(len(programs)))
    while ready:
        rank = ready.pop()
        while at[rank] < len(todo[rank]):
            key, others, _ = todo[rank][at[rank]]
            if any(other >= len(at) for other in others):
                break
            if any(arrived[other][key] < arrived[rank][key] for other in others):
                break
            at[rank] += 1
            if at[rank] < len(todo[rank]):
                key, others, _ = todo[rank][at[rank]]
                arrived[rank][key] += 1
                ready += [other for other in others if other < len(at)]
    for rank, program in enumerate(programs):
        if at[rank] < len(todo[rank]):
            key, others, instruction = todo[rank][at[rank]]
            late = min(o for o in others if o >= len(at) or arrived[o][key] < arrived[rank][key])
            known = late < len(at) and at[late] < len(todo[late])
            where = f"is at  {todo[late][at[late]][2]}" if known else "never comes to it"
            fail("order", program, f"waits for rank {late}, which {where}", instruction)


def _verify_messages(programs: Sequence[Program]) -> None:
    """What is sent is what is received: as many regions, of the same sizes and dtype."""
    sent: dict[tuple[int, int, int], list[Key]] = {}
    received: dict[tuple[int, int, int], list[Key]] = {}
    for program in programs:
        for i in program.instructions:
            if isinstance(i, Exchange):
                what = (i.tensor, i.order, i.type.dtype)
                for rank, region in i.sends:
                    pair = (i.tag, program.rank, rank)
                    sent.setdefault(pair, []).append((*what, shape_of(region)))
                for rank, region in i.receives:
                    pair = (i.tag, rank, program.rank)
                    received.setdefault(pair, []).append((*what, shape_of(region)))
    for pair in sent.keys() | received.keys():
        given, got = sent.get(pair, []), received.get(pair, [])
        if given != got:
            tag, sender, receiver = pair
            words = f"sends rank {receiver} {given}, which receives {got} (tag {tag})"
            fail("message", programs[sender], words)


def _verify_shapes(checks: Sequence[ProgramCheck]) -> None:
    """Values that meet in a collective have the same sizes, but along the dim of a gathering."""
    first: dict[tuple[Key, int], Shape] = {}
    for check in checks:
        seen: Counter[Key] = Counter()
        for i in check.program.instructions:
            for c in i.sums if isinstance(i, Together) else (i,):
                if not isinstance(c, Collective):
                    continue
                shape = check.shapes[c.value]
                seen[_key(c)] += 1
                if shape is None:
                    continue
                order = c.order or tuple(range(len(shape)))
                given = tuple(shape[dim] for dim in order)
                if not c.kind.reduces:
                    given = (*given[: c.dim], 0, *given[c.dim + 1 :])
                if first.setdefault((_key(c), seen[_key(c)]), given) != given:
                    fail("shape", check.program, f"has a value of shape {shape} for others'", c)
