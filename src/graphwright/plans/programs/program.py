"""What one rank does in a step: calls of operators on its own parts, and its share of what moves.

    %3 = take fc.weight[0:4, 0:8]                      a part that lives here between steps
    %7 = aten.mm(%2, %3[0:4, 0:2])  # mm[0:3, 0:2]     a node's call, and its part of the output
    %8 = all_reduce(%7; mm, sum, ranks 0, 1)
    ...
    fc.weight <- %40                                   its new value

Values are local tensors by number. Regions count from a value's own first element and may reach
beyond it, where a fill value stands. The text shows everything but what all ranks have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from graphwright.frozen import FrozenDict
from graphwright.ir import Attr, Attrs, TensorType
from graphwright.plans.sharding import Box, Sharding
from graphwright.plans.transfers import CollectiveKind

Shape = tuple[int, ...]


def _spell(region: Box, fills: tuple[float | None, ...] = ()) -> str:
    """A region in words: [0:4, -1:8 else 0.0]."""
    words = [f"{start}:{stop}" for start, stop in region]
    for dim, fill in enumerate(fills):
        words[dim] += "" if fill is None else f" else {fill}"
    return f"[{', '.join(words)}]"


def _join(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An argument of a call: a value, or a region of it.

    `fills` are the values beyond its edges, dim by dim.
    """

    value: int
    region: Box | None = None
    fills: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        region = "" if self.region is None else _spell(self.region, self.fills)
        return f"%{self.value}{region}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The part holds rows [low, end) of a table of `size` (see `describe.Mask`).

    Argument `index` moves down by `low`, and what it finds elsewhere counts as 0.
    """

    index: int
    dims: tuple[int, ...]
    scattered: int | None
    low: int
    end: int
    size: int

    def __str__(self) -> str:
        dims = f" along {_join(self.dims)}" if self.dims else ""
        into = "" if self.scattered is None else f" into dim {self.scattered}"
        rows = f"{self.low}:{self.end} of {self.size}"
        return f"rows {rows} by argument {self.index}{dims}{into}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator on this rank's part.

    `number`, `shape` and `box` are those of the node and its first output, for what it draws if
    it `is_random`. `alike` are the operands with the type of the first output, `free` those of
    them whose memory nobody reads any more; `by_element`: an output may be written over any of
    these. It draws as operator `draw`, or if that is None by its `number`.
    """

    node: str
    op: str
    attrs: Attrs
    inputs: tuple[Operand | None, ...]
    outputs: tuple[int, ...]
    rows: tuple[Rows, ...] = ()
    number: int = 0
    shape: Shape = ()
    box: Box = ()
    is_random: bool = False
    alike: tuple[int, ...] = ()
    by_element: bool = False
    free: tuple[int, ...] = ()
    draw: int | None = None

    def __str__(self) -> str:
        made = ", ".join(f"%{v}" for v in self.outputs)
        given = ", ".join("_" if o is None else str(o) for o in self.inputs)
        attrs = f"; {Attrs(self.attrs).text}" if self.attrs else ""
        words = [f"{made} = {self.op}({given}{attrs})", *map(str, self.rows)]
        if self.by_element and self.alike:
            words.append(f"over argument {_join(self.alike)}")
        if self.free:
            words.append(f"free {_join(self.free)}")
        return f"{', '.join(words)}  # {self.node}{_spell(self.box)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A small tensor with its elements."""

    node: str
    value: Attr
    type: TensorType
    output: int

    def __str__(self) -> str:
        return f"%{self.output} = constant({self.type}; {self.value})  # {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """What the ranks of a group do together with their values.

    `sizes` are those of their parts along `dim`. `free`: the value may be overwritten. With an
    `order`, values are seen with their dims in this order, as they lie in memory, and so is `dim`;
    the result is turned back. The `tag` is the same on all ranks of the group, as an exchange's is.
    """

    kind: CollectiveKind
    tensor: str
    group: tuple[int, ...]
    value: int
    output: int
    reducer: str = "sum"
    dim: int = 0
    sizes: tuple[int, ...] = ()
    free: bool = False
    order: tuple[int, ...] | None = None
    tag: int = 0

    def __str__(self) -> str:
        words = [self.tensor]
        words += [self.reducer] if self.kind.reduces else []
        words += [f"dim {self.dim} in parts of {_join(self.sizes)}"] if self.sizes else []
        words += [] if self.order is None else [f"dims in order {_join(self.order)}"]
        words += ["in place"] if self.free else []
        words.append(f"ranks {_join(self.group)}")
        return f"%{self.output} = {self.kind}(%{self.value}; {', '.join(words)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Regions that are sent to and received from other ranks, and those that this one has itself.

    `sends` are (rank, region of the value), `receives` (rank, region of the output), `own` (region
    of the value, of the output), each in an order that both sides share. Without a value there is
    nothing to send, without an output nothing to receive. With an `order`, values, regions and
    `type` have their dims in this order, as they lie in memory, and the result is turned back.
    """

    tensor: str
    tag: int
    value: int | None
    output: int | None
    type: TensorType
    sends: tuple[tuple[int, Box], ...]
    receives: tuple[tuple[int, Box], ...]
    own: tuple[tuple[Box, Box], ...]
    order: tuple[int, ...] | None = None

    def __str__(self) -> str:
        made = "_" if self.output is None else f"%{self.output}"
        words = [f"{self.tensor}, {self.type}, tag {self.tag}"]
        words += [f"{_spell(region)} to {rank}" for rank, region in self.sends]
        words += [f"{_spell(region)} from {rank}" for rank, region in self.receives]
        words += [f"{_spell(source)} to own {_spell(target)}" for source, target in self.own]
        words += [] if self.order is None else [f"dims in order {_join(self.order)}"]
        given = "_" if self.value is None else f"%{self.value}"
        return f"{made} = exchange({given}; {', '.join(words)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A region of a value, or, for terms of a sum that others have, `zero` of the same shape."""

    value: int
    output: int
    region: Box
    zero: bool = False

    def __str__(self) -> str:
        return f"%{self.output} = {'0 * ' if self.zero else ''}%{self.value}{_spell(self.region)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Sums over one group that are added up at once."""

    sums: tuple[Collective, ...]

    def __str__(self) -> str:
        return "together: " + "; ".join(map(str, self.sums))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Until what an earlier instruction, by its number, began has ended.

    Its copies are not to be held any longer. Readers of its result wait in any case.
    """

    begun: int

    def __str__(self) -> str:
        return f"wait for instruction {self.begun}"


Instruction = Call | Constant | Collective | Together | Exchange | Cut | Wait


def values_read(instruction: Instruction) -> Iterator[int]:
    """The values that an instruction reads."""
    match instruction:
        case Call():
            yield from (o.value for o in instruction.inputs if o is not None)
        case Cut() | Collective():
            yield instruction.value
        case Together():
            yield from (each.value for each in instruction.sums)
        case Exchange(value=value) if value is not None:
            yield value
        case Exchange() | Constant() | Wait():
            return


def values_made(instruction: Instruction) -> tuple[int, ...]:
    """The values that an instruction makes."""
    match instruction:
        case Call():
            return instruction.outputs
        case Together():
            return tuple(each.output for each in instruction.sums)
        case Exchange():
            return () if instruction.output is None else (instruction.output,)
        case Constant() | Cut() | Collective():
            return (instruction.output,)
        case Wait():
            return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One rank's step: the values that it takes by name, and the `updates` and `results` it leaves.

    `homes` are the boxes in which inputs live here. A result that this rank has no part of is not
    among `results`. All ranks' programs have in common where inputs and results are (`shardings`),
    which ranks gather or reduce something together (`groups`), and what is done in which order
    (`digest`). `types` are those of this rank's values, by number.
    """

    rank: int
    inputs: Mapping[str, int]
    homes: Mapping[str, Box]
    instructions: tuple[Instruction, ...]
    updates: Mapping[str, int]
    results: Mapping[str, int]
    shardings: Mapping[str, Sharding]
    groups: tuple[tuple[int, ...], ...]
    digest: str
    types: Mapping[int, TensorType] = field(default_factory=FrozenDict)

    def __str__(self) -> str:
        lines = [f"%{v} = take {name}{_spell(self.homes[name])}" for name, v in self.inputs.items()]
        lines += map(str, self.instructions)
        lines += [f"{name} <- %{value}" for name, value in self.updates.items()]
        lines += [f"return {name} = %{value}" for name, value in self.results.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Program(rank {self.rank}, {len(self.instructions):,} instructions)"
