"""A memory plan: in which order operators run, where every tensor lies, what leaves and returns.

    run conv1 -> A1 at 2048             compute
    out A0                              to the host, while others compute
    in  W2 at 0                         from the host

Three streams work at once: compute, out, in. Each takes its actions in the order of the plan. An
action also waits for the ends of earlier ones on the other streams: `after` has the number of the
latest of each, or -1 (the control edges of SwapAdvisor, section 4.3.2). What is dropped without a
copy needs no action; its place is simply taken by another tensor.

Places are offsets in one arena of `arena` bytes, whatever chose them: `pool` says which size
classes it was cut into, and is empty where tensors lie at any offset. `residents` are where they
were when an iteration begins, and lie there again when it ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from graphwright.errors import PlanFormatError
from graphwright.frozen import FrozenDict
from graphwright.plans.plan import read_field, read_json, refuse_unknown, write_json
from graphwright.version import __version__

Stream = Literal["compute", "out", "in"]
STREAMS: tuple[Stream, ...] = ("compute", "out", "in")
After = tuple[int, int, int]
FORMAT, VERSION = "graphwright memory plan", 1


@dataclass(frozen=True, slots=True)
class Run:
    """An operator, and the offsets of what it makes; `again` where it ran before."""

    stream: ClassVar[Stream] = "compute"
    name: str
    places: Mapping[str, int]
    after: After
    again: bool = False

    def __str__(self) -> str:
        made = ", ".join(f"{name} at {offset}" for name, offset in self.places.items())
        return f"{'again' if self.again else 'run'} {self.name}{f' -> {made}' if made else ''}"


@dataclass(frozen=True, slots=True)
class SwapOut:
    """A storage is copied to the host; its place is free when the copy has ended."""

    stream: ClassVar[Stream] = "out"
    name: str
    after: After

    def __str__(self) -> str:
        return f"out {self.name}"


@dataclass(frozen=True, slots=True)
class SwapIn:
    """A storage comes back from the host, to an offset."""

    stream: ClassVar[Stream] = "in"
    name: str
    offset: int
    after: After

    def __str__(self) -> str:
        return f"in {self.name} at {self.offset}"


Action = Run | SwapOut | SwapIn


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Places of one size in a pool."""

    nbytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemoryPlan:
    """What happens in one iteration, where, and when by prediction (picoseconds)."""

    capacity: int
    arena: int
    actions: tuple[Action, ...]
    residents: Mapping[str, int] = field(default_factory=FrozenDict)
    pool: tuple[SizeClass, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    algorithm: str = ""
    seed: int | None = None
    graph_hash: str = ""
    made_by: str = __version__

    @property
    def makespan(self) -> int:
        """Predicted picoseconds of an iteration."""
        return max(self.ends, default=0)

    @property
    def order(self) -> tuple[str, ...]:
        """The operators as they run."""
        return tuple(a.name for a in self.actions if isinstance(a, Run) and not a.again)

    def count(self, stream: Stream) -> int:
        """How many actions a stream has."""
        return sum(action.stream == stream for action in self.actions)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON: all of it, or nothing."""
        write_json(Path(path), _to_json(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a saved plan; `verify_memory` says whether it serves a problem."""
        try:
            return cls(**_fields(read_json(Path(path))))
        except PlanFormatError as error:
            raise PlanFormatError(f"{path}: {error}") from None

    def __str__(self) -> str:
        lines = [f"resident {name} at {offset}" for name, offset in self.residents.items()]
        for number, action in enumerate(self.actions):
            after = [n for n in action.after if n >= 0]
            lines.append(f"{number:>5}  {action}" + (f"  after {after}" if after else ""))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"MemoryPlan({self.count('compute'):,} operators, {self.count('out'):,} swaps out, "
            f"{self.count('in'):,} in, {self.arena / 1e6:,.4g} MB, {self.makespan / 1e9:,.4g} ms)"
        )


# -- JSON -----------------------------------------------------------------------------------------

_KINDS = {"run": Run, "again": Run, "out": SwapOut, "in": SwapIn}
_FIELDS = (
    "capacity", "arena", "actions", "residents", "pool", "starts", "ends", "algorithm", "seed",
    "graph_hash", "made_by",
)  # fmt: skip


def _to_json(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph_hash": plan.graph_hash,
        "made_by": plan.made_by,
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "capacity": plan.capacity,
        "arena": plan.arena,
        "pool": [[c.nbytes, c.count] for c in plan.pool],
        "residents": dict(plan.residents),
        "actions": [_action_to_json(action) for action in plan.actions],
        "starts": list(plan.starts),
        "ends": list(plan.ends),
    }


def _action_to_json(action: Action) -> list[Any]:
    match action:
        case Run():
            kind = "again" if action.again else "run"
            return [kind, action.name, list(action.after), dict(action.places)]
        case SwapOut():
            return ["out", action.name, list(action.after)]
        case SwapIn():
            return ["in", action.name, list(action.after), action.offset]


def _fields(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanFormatError(f"not a memory plan: the field format has to be {FORMAT!r}")
    if document.get("version") != VERSION:
        raise PlanFormatError(
            f"version {document.get('version')!r}; this Graphwright reads version {VERSION}: plan "
            "again with gw.swap"
        )
    body = {name: value for name, value in document.items() if name not in ("format", "version")}
    refuse_unknown(body, _FIELDS)
    seed = body.get("seed")
    if seed is not None and type(seed) is not int:
        raise PlanFormatError(f"seed has to be a whole number, not {seed!r}")
    actions = read_field(body, "actions", list)
    return {
        "capacity": read_field(body, "capacity", int),
        "arena": read_field(body, "arena", int),
        "actions": tuple(_action(entry, f"actions[{n}]") for n, entry in enumerate(actions)),
        "residents": FrozenDict(_offsets(read_field(body, "residents", dict), "residents")),
        "pool": tuple(_size_class(entry) for entry in read_field(body, "pool", list)),
        "starts": _numbers(read_field(body, "starts", list), "starts"),
        "ends": _numbers(read_field(body, "ends", list), "ends"),
        "algorithm": read_field(body, "algorithm", str),
        "seed": seed,
        "graph_hash": read_field(body, "graph_hash", str),
        "made_by": read_field(body, "made_by", str),
    }


def _action(entry: Any, where: str) -> Action:
    if not isinstance(entry, list) or len(entry) < 3 or entry[0] not in _KINDS:
        raise PlanFormatError(f"{where} is no action: {entry!r}")
    kind, name, after, *rest = entry
    if not isinstance(name, str) or not isinstance(after, list) or len(after) != len(STREAMS):
        raise PlanFormatError(f"{where} needs a name and one number for each stream: {entry!r}")
    out, back, come = _numbers(after, where)
    match kind, rest:
        case (("run" | "again"), [dict(places)]):
            offsets = FrozenDict(_offsets(places, where))
            return Run(name, offsets, (out, back, come), kind == "again")
        case "out", []:
            return SwapOut(name, (out, back, come))
        case "in", [int(offset)]:
            return SwapIn(name, offset, (out, back, come))
    raise PlanFormatError(f"{where} is no action: {entry!r}")


def _size_class(entry: Any) -> SizeClass:
    if not isinstance(entry, list) or len(entry) != 2:
        raise PlanFormatError(f"pool has pairs of bytes and a count, not {entry!r}")
    nbytes, count = _numbers(entry, "pool")
    return SizeClass(nbytes=nbytes, count=count)


def _offsets(table: Mapping[Any, Any], where: str) -> dict[str, int]:
    _numbers(list(table.values()), where)
    return dict(table)


def _numbers(values: list[Any], where: str) -> tuple[int, ...]:
    if not all(type(value) is int for value in values):
        raise PlanFormatError(f"{where} holds whole numbers, not {values!r:.80}")
    return tuple(values)
