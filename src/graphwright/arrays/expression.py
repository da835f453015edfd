"""Expressions: what arrays are made of, before and after they are computed.

    x = ga.random.normal(size=(1000, 8));  y = (x - x.mean(0)) @ x.T

    y -> matmul -> subtract -> x -> random          nothing has been computed
                            -> divide -> sum -> x

An expression is a call of an operator on outputs of other expressions. It is immutable but for
`values`: what has been computed of it, as long as an array of the user's shows that, or something
that is still to be computed reads it (`x = step(x)` in a loop). Equal expressions are one object
(`call`), so common subexpressions are computed once, whoever wrote them.
An expression never forgets what it was made of: from that a value is made again when the workers
that held it are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.errors import UnsupportedDtype
from graphwright.ir import DTYPE_BYTES, Attr, Attrs, TensorType

SOURCE = "source"
SHARED_BYTES = 64
"""Sources of so few bytes are the same if their elements are."""

VIEWS = frozenset(
    {"aten.expand", "aten.permute", "aten.slice.Tensor", "aten.select.int", "aten.reshape"}
)
"""What costs nothing to compute again, so that it is not kept."""

Value = Any
"""A NumPy array, or one that is spread over workers (`graphwright.arrays.running`)."""


class Output(NamedTuple):
    """One output of an expression."""

    expression: Expression
    number: int

    @property
    def type(self) -> TensorType:
        return self.expression.types[self.number]

    @property
    def value(self) -> Value | None:
        return self.expression.values.get(self.number)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Expression:
    """A call of an operator.

    `shown` counts the arrays of the user that show each output, `readers` the expressions that are
    still to be computed from it; `unread` are the inputs of this one, until it is computed.
    """

    op: str
    inputs: tuple[Output | None, ...]
    attrs: Attrs
    types: tuple[TensorType, ...]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    shown: dict[int, int] = field(default_factory=dict)
    readers: dict[int, int] = field(default_factory=dict)
    unread: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        for given in self.inputs:
            if given is not None and given.expression.op != SOURCE:
                self.unread.append(given)
                readers = given.expression.readers
                readers[given.number] = readers.get(given.number, 0) + 1

    def __del__(self) -> None:
        self.has_read()

    def has_read(self) -> None:
        """It is computed, or nobody can ask for it any more: its inputs are free to go."""
        while self.unread:
            expression, number = self.unread.pop()
            expression.readers[number] -= 1
            expression._let_go(number)

    def show(self, number: int) -> None:
        """An array shows an output."""
        self.shown[number] = self.shown.get(number, 0) + 1

    def hide(self, number: int) -> None:
        """It does not any more."""
        self.shown[number] -= 1
        self._let_go(number)

    def _let_go(self, number: int) -> None:
        """A value goes when nobody needs it, unless it was given."""
        needed = self.shown.get(number) or self.readers.get(number)
        if not needed and self.op != SOURCE:
            self.values.pop(number, None)

    def __repr__(self) -> str:
        return f"{self.op}({', '.join('_' if i is None else repr(i.type) for i in self.inputs)})"


_KNOWN: WeakValueDictionary[object, Expression] = WeakValueDictionary()
_NAMES: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()
_numbers = count()


def call(
    op: str,
    inputs: Sequence[Output | None],
    attrs: Mapping[str, Attr],
    types: Sequence[TensorType],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Expression:
    """The expression of a call: the one that is known already, or a new one."""
    given = Attrs(attrs)
    ids = tuple(None if i is None else (id(i.expression), i.number) for i in inputs)
    key = (op, ids, given.text, tuple(types))
    known = _KNOWN.get(key)
    if known is None:
        known = Expression(op, tuple(inputs), given, tuple(types), functions or {})
        _KNOWN[key] = known
    return known


def source(value: NDArray[Any]) -> Expression:
    """An array that is given."""
    type = TensorType(value.shape, dtype_name(value.dtype))
    if value.nbytes > SHARED_BYTES:
        return Expression(SOURCE, (), Attrs(), (type,), {}, {0: value})
    key = (SOURCE, type, value.tobytes())
    known = _KNOWN.get(key)
    if known is None:
        own = value.copy()  # the elements are part of its identity: nobody may change them
        own.flags.writeable = False
        known = _KNOWN[key] = Expression(SOURCE, (), Attrs(), (type,), {}, {0: own})
    return known


def name_function(function: Callable[..., Any]) -> str:
    """The name of a user's function in graphs."""
    try:
        name = _NAMES.get(function)
        if name is None:
            name = _NAMES[function] = f"user.{next(_numbers)}"
    except TypeError:  # some callables cannot be referred to weakly
        name = f"user.{next(_numbers)}"
    return name


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, in graphs as in NumPy."""
    name = dtype.newbyteorder("=").name
    if name not in DTYPE_BYTES:
        raise UnsupportedDtype(
            f"arrays hold numbers and truth values, not {dtype}; convert to one of bool, int8 to "
            "int64, uint8 to uint64, float16 to float64, complex64 and complex128"
        )
    return name


def needed(roots: Iterable[Output], known: Callable[[Output], bool]) -> list[Expression]:
    """The expressions to compute for `roots`, each behind what it reads; `known` ends the walk."""
    order: list[Expression] = []
    seen: set[Expression] = set()
    stack: list[tuple[Expression, Iterator[Output]]] = []

    def enter(output: Output) -> None:
        if output.expression not in seen and not known(output):
            seen.add(output.expression)
            stack.append((output.expression, (i for i in output.expression.inputs if i)))

    for root in roots:
        enter(root)
        while stack:
            expression, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                order.append(expression)
                stack.pop()
            else:
                enter(following)
    return order
