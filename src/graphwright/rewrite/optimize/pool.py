"""Every distinct term once, with its shape and price: what a search over graphs works on.

A graph is the tuple of its outputs, each the number of a term in the pool. Terms with the same
operator, parameters and arguments are one term, so that

    equal graphs are equal tuples             no graph is visited twice
    a match belongs to a term                 found once, for all graphs that have the term
    a changed graph shares the rest           its price is a sum over known prices

Kinds of terms, beside the operators of substitutions (`substitutions.graphs.operators`):

    input      a tensor that is given: its number, type, and whether it is a weight
    call       any other ATen call, which no rule looks into; `item` is one of its results
    spread     a vector along one dim of a shape: a bias, or the factors of a batch norm
    C_pool...  constants, with their sizes

Convolutions have no activation here: `conv(s, p, relu, x, w)` is `relu(conv(s, p, none, x, w))`.
Arguments of sums and element-wise products are in order of their numbers, and the padding of a
kernel of 1 x 1 is `same`. A split of a concatenation is the part that was joined, and both splits
of a tensor, joined again, are the tensor.

A term that depends on weights alone is *fixed*: it is computed once, ahead of inference, and costs
nothing. Neither does a bias that is added to a convolution or a product: the kernel adds it.

Where images may have their channels last in memory, a graph costs what it does in the layouts that
are cheapest for it (`layouts`), with the inputs in those that they are given in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphwright.describe import Types
from graphwright.ir import Attr, Attrs, TensorType
from graphwright.rewrite.optimize.layouts import (
    IN_ORDER,
    LAST,
    ChannelsLast,
    Placement,
    Price,
    is_image,
)
from graphwright.rewrite.substitutions import (
    CONSTANTS,
    PARAMETERS,
    Call,
    Shape,
    program_of,
    sizes_of,
)

Graph = tuple[int, ...]
"""The outputs of a graph, by the numbers of their terms."""

COMMUTATIVE = frozenset({"ewadd", "ewmul"})
SPLITS = ("split0", "split1")
PRODUCTS = frozenset({"conv", "matmul"})
VIEWS = frozenset({"split0", "split1", "item", "input", "spread", *CONSTANTS})


@dataclass(frozen=True, slots=True)
class Entry:
    """A term: an operator, its parameters and the numbers of its arguments."""

    op: str
    params: tuple[Any, ...]
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The parameters of a `call`; its inputs are numbers of arguments, None where one is absent."""

    op: str
    attrs: Attrs
    inputs: tuple[int | None, ...]
    outputs: tuple[TensorType, ...]
    drawn: str = ""
    """The name of a call that draws at random, so that no two of them are one."""


_MAKERS = frozenset({"full", "zeros", "ones", "arange", "eye", "scalar_tensor", "constant"})
_DRAWING = ("rand", "bernoulli", "dropout", "multinomial", "normal_", "empty")


def is_random(op: str) -> bool:
    """Whether a call may give something else each time."""
    name = op.split(".")[1]
    return any(word in name for word in _DRAWING) or name == "normal"


def is_steady(op: str, inputs: Sequence[object]) -> bool:
    """Whether a call is a function of its inputs, or fills a tensor with the same each time."""
    return bool(inputs or op.split(".")[1] in _MAKERS) and not is_random(op)


class Pool:
    """Terms by number, with what is known about each; they are only ever added."""

    def __init__(self, price: Price, last: ChannelsLast | None = None) -> None:
        self._price, self.last = price, last
        self._numbers: dict[Entry, int] = {}
        self._prices: dict[tuple[int, bool], float] = {}
        self._copies: dict[int, float] = {}
        self._keeps: dict[int, bool] = {}
        self._images: dict[int, tuple[int, ...]] = {}
        self._reachable: dict[int, frozenset[int]] = {}
        self.entries: list[Entry] = []
        self.shapes: list[Shape] = []
        self.sizes: list[tuple[int, ...]] = []
        self.dtypes: list[str] = []
        self.fixed: list[bool] = []
        self.varies: list[frozenset[int]] = []

    def __len__(self) -> int:
        return len(self.entries)

    # -- making terms --------------------------------------------------------------------------

    def input(self, number: int, type: TensorType, *, fixed: bool, last: bool = False) -> int:
        """A tensor that is given, perhaps with its channels last."""
        entry = Entry("input", (number, type, fixed, last), ())
        return self._add(entry, type.shape, type.dtype, fixed)

    def call(self, call: AtenCall, args: Iterable[int]) -> int:
        """Another ATen call; `item` gives its results."""
        given = tuple(args)
        entry = Entry("call", (call,), given)
        first = call.outputs[0]
        fixed = is_steady(call.op, given) and self._all_fixed(given)
        return self._add(entry, first.shape, first.dtype, fixed)

    def item(self, call: int, which: int) -> int:
        """One of the results of a call."""
        made = self.entries[call].params[0]
        assert isinstance(made, AtenCall)
        type = made.outputs[which]
        return self._add(Entry("item", (which,), (call,)), type.shape, type.dtype, self.fixed[call])

    def spread(self, vector: int, shape: tuple[int, ...], dim: int) -> int:
        """A vector along one dim of a shape, the same along all others."""
        entry = Entry("spread", (shape, dim), (vector,))
        made = self._add(entry, shape, self.dtypes[vector], self.fixed[vector])
        self.varies[made] = frozenset((dim,))
        return made

    def constant(self, op: str, params: tuple[Any, ...], shape: Shape, dtype: str) -> int | None:
        """A constant of substitutions, None where it cannot have the shape."""
        if program_of(op, params, (shape,)) is None:
            return None
        return self._add(Entry(op, (params, sizes_of(shape), dtype), ()), shape, dtype, True)

    def make(self, op: str, params: tuple[Any, ...], args: tuple[int, ...]) -> int | None:
        """An operator of substitutions, None where shapes do not fit."""
        if op in COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        if op == "conv" and self.sizes[args[1]][2:] == (1, 1):
            params = (params[0], "same", *params[2:])  # nothing is padded either way
        entry = Entry(op, params, args)
        known = self._numbers.get(entry)
        if known is not None:
            return known
        undone = self._undone(op, params, args)
        if undone is not None:
            return undone
        dtype = self.dtypes[args[0]]
        if any(self.dtypes[a] != dtype for a in args):
            return None
        program = program_of(op, params, [self.shapes[a] for a in args])
        if program is None:
            return None
        made = self._add(entry, program.shape, dtype, self._all_fixed(args))
        self.varies[made] = self._varying(entry, made)
        return made

    def _undone(self, op: str, params: tuple[Any, ...], args: tuple[int, ...]) -> int | None:
        """What a split of a concatenation, or a concatenation of both splits, gives back."""
        first = self.entries[args[0]]
        if op in SPLITS and (first.op, first.params) == ("concat", params):
            return first.args[SPLITS.index(op)]
        if op == "concat":
            both = [self.entries[a] for a in args]
            if all((e.op, e.params) == (s, params) for e, s in zip(both, SPLITS, strict=True)):
                return first.args[0] if both[0].args == both[1].args else None
        return None

    def rebuilt(self, entry: Entry, args: tuple[int, ...]) -> int | None:
        """The same term of other arguments that have the same types."""
        match entry.op:
            case "call":
                call = entry.params[0]
                assert isinstance(call, AtenCall)
                return self.call(call, args)
            case "item":
                return self.item(args[0], entry.params[0])
            case "spread":
                return self.spread(args[0], *entry.params)
            case _:
                return self.make(entry.op, entry.params, args)

    def _add(self, entry: Entry, shape: Shape, dtype: str, fixed: bool) -> int:
        known = self._numbers.get(entry)
        if known is not None:
            return known
        number = self._numbers[entry] = len(self.entries)
        self.entries.append(entry)
        self.shapes.append(shape)
        self.sizes.append(sizes_of(shape))
        self.dtypes.append(dtype)
        self.fixed.append(fixed)
        self.varies.append(frozenset(range(len(shape))))
        return number

    def _all_fixed(self, args: tuple[int, ...]) -> bool:
        return all(self.fixed[a] for a in args)

    def _varying(self, entry: Entry, made: int) -> frozenset[int]:
        """The dims along which the values of a term may differ."""
        every = frozenset(range(len(self.shapes[made])))
        match entry.op:
            case "ewadd" | "ewmul" | "relu" | "split0" | "split1":
                return frozenset().union(*(self.varies[a] for a in entry.args))
            case "smul":
                return self.varies[entry.args[0]]
            case "concat":
                axis = int(entry.params[0])
                joined = {axis % len(every)}
                return frozenset(joined).union(*(self.varies[a] for a in entry.args))
            case _:
                return every

    # -- graphs --------------------------------------------------------------------------------

    def replace(self, graph: Graph, replaced: Mapping[int, int]) -> Graph | None:
        """The graph with terms in place of others; None where shapes no longer fit."""
        known = dict(replaced)
        for number in self.reachable(graph):
            if number not in known:
                entry = self.entries[number]
                args = tuple(known[a] for a in entry.args)
                made = number if args == entry.args else self.rebuilt(entry, args)
                if made is None or self.sizes[made] != self.sizes[number]:
                    return None  # a split goes by what was joined last, which may have changed
                known[number] = made
        return tuple(known[output] for output in graph)

    def reachable(self, graph: Graph) -> list[int]:
        """Every term of a graph, arguments before what uses them."""
        return sorted(frozenset().union(*map(self.below, graph)))

    def below(self, number: int) -> frozenset[int]:
        """A term and all that it is made from."""
        known = self._reachable.get(number)
        if known is None:
            waiting = [number]
            while waiting:
                top = waiting[-1]
                missing = [a for a in self.entries[top].args if a not in self._reachable]
                if missing:
                    waiting += missing
                    continue
                waiting.pop()
                parts = (self._reachable[a] for a in self.entries[top].args)
                self._reachable[top] = frozenset((top,)).union(*parts)
            known = self._reachable[number]
        return known

    def cost(self, graph: Graph) -> float:
        """Seconds of all that is computed for each inference."""
        numbers = self.reachable(graph)
        return sum(map(self.price, numbers)) if self.last is None else self._placed(numbers)

    def _placed(self, numbers: Sequence[int]) -> float:
        """The cost in the cheapest layouts; what the graph returns may have either."""
        placement, cost = Placement(), 0.0
        maker: dict[int, int] = {}
        for number in numbers:
            if self.fixed[number]:
                continue
            entry = self.entries[number]
            read = self.images(number)
            if entry.op == "item":
                maker[number] = maker[entry.args[0]]
            elif not read:
                cost += self.price(number)
                maker[number] = LAST if entry.op == "input" and entry.params[3] else IN_ORDER
            else:
                own = placement.call(self.price(number), self.price(number, last=True))
                for arg in read:
                    placement.read(arg, maker[arg], own, self.copy(arg))
                maker[number] = own if self.keeps(number) else IN_ORDER
        return cost + placement.solve()[0]

    def is_image(self, number: int) -> bool:
        """Whether a term has a layout, or results of it have."""
        entry = self.entries[number]
        if entry.op == "call":
            return any(map(is_image, entry.params[0].outputs))
        return is_image(self.type(number))

    def images(self, number: int) -> tuple[int, ...]:
        """The arguments that are images; weights lie as they are needed."""
        known = self._images.get(number)
        if known is None:
            args = dict.fromkeys(self.entries[number].args)
            known = tuple(a for a in args if not self.fixed[a] and self.is_image(a))
            self._images[number] = known
        return known

    def keeps(self, number: int) -> bool:
        """Whether a term has its channels last in memory if what it is made of has."""
        known = self._keeps.get(number)
        if known is None:
            assert self.last is not None
            entry = self.entries[number]
            known = entry.op == "item" or self.last.keeps(*list(self._calls(number))[-1])
            self._keeps[number] = known
        return known

    def copy(self, number: int) -> float:
        """Seconds of bringing a term to the other layout."""
        known = self._copies.get(number)
        if known is None:
            assert self.last is not None
            type = self.type(number)
            known = self._copies[number] = self.last.copy(type) if is_image(type) else 0.0
        return known

    def price(self, number: int, *, last: bool = False) -> float:
        """Seconds that a term adds to what its arguments take, which may have channels last."""
        known = self._prices.get((number, last))
        if known is None:
            known = self._prices[number, last] = self._priced(number, last=last)
        return known

    def is_bias(self, number: int) -> bool:
        """Whether a term adds a bias to a product, which is no kernel of its own."""
        return self.bias_of(number) is not None

    def bias_of(self, number: int) -> tuple[int, int] | None:
        """The product and the bias that a term is the sum of."""
        entry = self.entries[number]
        if entry.op != "ewadd":
            return None
        rank = len(self.sizes[number])
        dims = frozenset((1,)) if rank in (2, 4) else frozenset[int]()
        for product, bias in (entry.args, entry.args[::-1]):
            multiplies = self.entries[product].op in PRODUCTS and not self.fixed[product]
            if multiplies and dims and self.fixed[bias] and self.varies[bias] <= dims:
                return product, bias
        return None

    def _priced(self, number: int, *, last: bool = False) -> float:
        if self.is_bias(number):
            return 0.0
        entry, total = self.entries[number], self.price_alone(number, last=last)
        if entry.op == "concat":  # one kernel joins all parts of a concatenation of concatenations
            inner = (a for a in entry.args if self._continues(a, entry))
            total -= sum(self.price_alone(a, last=last) for a in inner)
        return max(0.0, total)

    def price_alone(self, number: int, *, last: bool = False) -> float:
        """Seconds of a term as a kernel of its own, that is part of none before it."""
        if self.fixed[number] or self.entries[number].op in VIEWS:
            return 0.0
        price = self._price if not last or self.last is None else self.last.price
        return sum(price(*call) for call in self._calls(number))

    def _calls(self, number: int) -> Iterator[tuple[str, Mapping[str, Attr], Types]]:
        """The ATen calls that a term is written as, and priced by."""
        entry = self.entries[number]
        if entry.op == "call":
            made = entry.params[0]
            assert isinstance(made, AtenCall)
            given = [None if i is None else self.type(entry.args[i]) for i in made.inputs]
            yield made.op, made.attrs, Types(tuple(given), made.outputs)
            return
        types: list[TensorType | None] = [self.type(a) for a in entry.args]
        if entry.op == "pool_max":  # written without the places of the maxima
            (call,) = self.program(number)
            yield "aten.max_pool2d", call.attrs, Types(tuple(types), (self.type(number),))
        elif entry.op == "transpose":  # a view, but what reads it reads across memory
            yield "aten.clone", Attrs(), Types(tuple(types), (self.type(number),))
        elif entry.op == "matmul" and len(self.sizes[number]) == 2 and self.fixed[entry.args[1]]:
            rows, columns = self.sizes[entry.args[1]]  # written as a linear map
            weights = TensorType((columns, rows), self.dtypes[number])
            yield "aten.linear", Attrs(), Types((types[0], weights, None), (self.type(number),))
        else:
            for call in self.program(number):
                out = TensorType(call.shapes[0], self.dtypes[number])
                inputs = tuple(None if i is None else types[i] for i in call.inputs)
                yield call.op, call.attrs, Types(inputs, (out,))
                types.append(out)

    def _continues(self, arg: int, entry: Entry) -> bool:
        other = self.entries[arg]
        return (other.op, other.params) == (entry.op, entry.params)

    def type(self, number: int) -> TensorType:
        """The type of a term's value."""
        return TensorType(self.sizes[number], self.dtypes[number])

    def program(self, number: int) -> tuple[Call, ...]:
        """The ATen calls of an operator of substitutions."""
        entry = self.entries[number]
        assert entry.op in PARAMETERS
        shapes = [self.shapes[a] for a in entry.args]
        program = program_of(entry.op, entry.params, shapes)
        assert program is not None
        return program.calls
