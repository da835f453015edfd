"""What the recorder writes down, before it becomes a graph.

A `Value` stands for one tensor of the step, an `Entry` for one operator application. Both stay
mutable while the step runs: a gradient learns only later whose gradient it is, and which entries
are dead is known only at the end. `assemble` turns the finished tape into an immutable `ir.Graph`.

`Frame` is one call of one module; frames form a linked stack, and each entry remembers the top of
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from graphwright.ir import Attr, Phase, Role, TensorType


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a module: its path, the number of the call, and the call that it happened in."""

    path: str
    call: int
    has_parameters: bool
    parent: Frame | None


@dataclass(slots=True, eq=False)
class Value:
    """One tensor of the step; `of` is the value that this is the gradient or the new state of.

    `content` is what a buffer holds that is a setting of the model (`values.known`), and `is_asked`
    whether the step took a turn by it.
    """

    type: TensorType
    role: Role = Role.ACTIVATION
    producer: Entry | None = None
    name: str | None = None
    of: Value | None = None
    content: Tensor | None = None
    is_asked: bool = False


@dataclass(slots=True, eq=False)
class Entry:
    """One operator application, with what is known of where it came from.

    `accumulates` marks the additions that autograd makes where a tensor is used more than once;
    `cell` is the (layer, time step) of an unrolled recurrence, `micro` the number of the
    micro-batch where gradients are accumulated over several.
    """

    op: str
    inputs: tuple[Value | None, ...]
    attrs: dict[str, Attr]
    outputs: tuple[Value, ...]
    phase: Phase
    frame: Frame | None
    index: int
    partner: Entry | None = None
    cell: tuple[int | None, int] | None = None
    micro: int | None = None
    random: bool = False
    accumulates: bool = False


@dataclass(slots=True, eq=False)
class TakenApart:
    """A kernel that was recorded as several entries (see `ir.Composite`)."""

    op: str
    inputs: tuple[Value | None, ...]
    attrs: dict[str, Attr]
    outputs: tuple[Value, ...]


@dataclass(slots=True)
class Tape:
    """Inputs in the order they were declared, entries in the order they ran."""

    inputs: list[Value] = field(default_factory=list[Value])
    entries: list[Entry] = field(default_factory=list[Entry])
    taken_apart: list[TakenApart] = field(default_factory=list[TakenApart])

    def postpone(self, first: int, last: int) -> None:
        """Let each of the entries from `first` to before `last` run when it is first needed."""
        waiting = {
            id(value): entry for entry in self.entries[first:last] for value in entry.outputs
        }
        ordered: list[Entry] = []
        for entry in self.entries[last:]:
            for value in entry.inputs:
                made = waiting.pop(id(value), None)
                if made is not None:
                    made.frame = entry.frame
                    ordered.append(made)
            ordered.append(entry)
        ordered += waiting.values()
        self.entries[first:] = ordered
        for number, entry in enumerate(ordered, first):
            entry.index = number

    def declare(self, name: str, type: TensorType, role: Role, of: Value | None = None) -> Value:
        """Add a graph input."""
        value = Value(type, role, name=name, of=of)
        self.inputs.append(value)
        return value

    def is_made_from_nothing(self, value: Value) -> bool:
        """Whether a value depends on no input and on no draw."""
        return value.producer is not None and not any(
            entry.random or any(v is not None and v.producer is None for v in entry.inputs)
            for entry in _leading_to([value.producer])
        )


def living(tape: Tape, roots: Iterable[Value]) -> list[Entry]:
    """Return the entries that matter, in order: what leads to `roots`, and every random draw."""
    draws = [entry for entry in tape.entries if entry.random]
    alive = _leading_to([*(value.producer for value in roots), *draws])
    return sorted(alive, key=lambda entry: entry.index)


def _leading_to(pending: list[Entry | None]) -> set[Entry]:
    """Return entries and all those that they need."""
    needed: set[Entry] = set()
    while pending:
        entry = pending.pop()
        if entry is not None and entry not in needed:
            needed.add(entry)
            pending.extend(v.producer for v in entry.inputs if v is not None)
    return needed
