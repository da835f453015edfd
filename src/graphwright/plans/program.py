"""What one rank does in a step: calls of operators on its own parts, and its share of what moves.

    %3 = take fc.weight                              a part that lives here between steps
    %7 = aten.mm(%2, %3[0:4, :])
    %8 = all_reduce(%7; sum over ranks 0, 1)
    ...
    fc.weight <- %40                                 its new value

Values are local tensors by number; regions count from a value's own first element and may reach beyond it, where a fill value stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from graphwright.ir import Attr, Attrs, TensorType
from graphwright.plans.sharding import Box, Sharding

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An argument of a call: a value, or a region of it; `fills` are the values beyond its edges, dim by dim."""

    value: int
    region: Box | None = None
    fills: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        if self.region is None:
            return f"%{self.value}"
        return f"%{self.value}[{', '.join(f'{a}:{b}' for a, b in self.region)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The part holds rows [low, end) of a table of `size`: argument `index` moves down by `low`, and what it finds elsewhere counts as 0 (see `describe.Mask`)."""

    index: int
    dims: tuple[int, ...]
    scattered: int | None
    low: int
    end: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator on this rank's part.

    `number`, `shape` and `box` are those of the node and its first output, for what it draws at random. `alike` are the operands with the type of the first output,
    `free` those of them whose memory nobody reads any more; `by_element`: an output may be written over any of these.
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
    alike: tuple[int, ...] = ()
    by_element: bool = False
    free: tuple[int, ...] = ()

    def __str__(self) -> str:
        made = ", ".join(f"%{v}" for v in self.outputs)
        given = ", ".join("none" if o is None else str(o) for o in self.inputs)
        return f"{made} = {self.op}({given})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A small tensor with its elements."""

    node: str
    value: Attr
    type: TensorType
    output: int

    def __str__(self) -> str:
        return f"%{self.output} = constant({self.type})"


CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """What the ranks of a group do together with their values; `sizes` are those of their parts along `dim`. `free`: the value may be overwritten.

    With an `order`, values are seen with their dims in this order, as they lie in memory, and so is `dim`; the result is turned back.
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

    def __str__(self) -> str:
        ranks = ", ".join(map(str, self.group))
        return f"%{self.output} = {self.kind}(%{self.value}; {self.tensor}, ranks {ranks})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Regions that are sent to and received from other ranks, and those that this one has itself.

    `sends` are (rank, region of the value), `receives` (rank, region of the output), `own` (region of the value, of the output), each in an order
    that both sides share. Without a value there is nothing to send, without an output nothing to receive. With an `order`, values, regions and
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
        to = ", ".join(str(rank) for rank, _ in self.sends) or "nobody"
        from_ = ", ".join(str(rank) for rank, _ in self.receives) or "nobody"
        made = "nothing" if self.output is None else f"%{self.output}"
        given = "nothing" if self.value is None else f"%{self.value}"
        return f"{made} = exchange({given}; {self.tensor}, to {to}, from {from_})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A region of a value, or, for terms of a sum that others have, `zero` of the same shape."""

    value: int
    output: int
    region: Box
    zero: bool = False

    def __str__(self) -> str:
        words = ", ".join(f"{a}:{b}" for a, b in self.region)
        return f"%{self.output} = {'0 * ' if self.zero else ''}%{self.value}[{words}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Sums over one group that are added up at once."""

    sums: tuple[Collective, ...]

    def __str__(self) -> str:
        return "together: " + "; ".join(map(str, self.sums))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Until what an earlier instruction, by its number, began has ended: its copies are not to be held any longer. Readers of its result wait in any case."""

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
    """One rank's step: `inputs` are the values that it takes by name, `updates` and `results` those that it leaves.

    `homes` are the boxes in which inputs live here. A result that this rank has no part of is not among `results`. All ranks' programs have in
    common where inputs and results are (`shardings`), which ranks gather or reduce something together (`groups`), and what is done in which
    order (`digest`).
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

    def __str__(self) -> str:
        lines = [f"%{value} = take {name}" for name, value in self.inputs.items()]
        lines += [str(i) for i in self.instructions]
        lines += [f"{name} <- %{value}" for name, value in self.updates.items()]
        lines += [f"return {name} = %{value}" for name, value in self.results.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Program(rank {self.rank}, {len(self.instructions):,} instructions)"
