"""The tree that a description becomes: what one element of an output is, over elements of the inputs.

    lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

        Reduce("sum", (k,), extents=(a.1,))
        └─ Call("mul")
           ├─ Access(0, (i, k))
           └─ Access(1, (k, j))

Values only; what is derived from them lives in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphwright.errors import DescriptionError
from graphwright.symbolic import Poly, Symbol

Number = int | float | bool


class Expr:
    """One value per setting of the index variables."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return call("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return call("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return call("div", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return call("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return call("pow", other, self)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __bool__(self) -> bool:
        raise DescriptionError(
            f"{self!r} differs from element to element, so Python cannot decide by it: use where(condition, a, b)"
        )

    def __invert__(self) -> Expr:
        return call("not", self)

    def __and__(self, other: Operand) -> Expr:
        return call("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return call("or", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return call("ge", self, other)


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal number."""

    value: Number

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class IndexValue(Expr):
    """An index, a size or an integer attribute used as a value."""

    index: Poly

    def __repr__(self) -> str:
        return f"⟨{self.index!r}⟩" if len(self.index.terms) > 1 else repr(self.index)


@dataclass(frozen=True, slots=True)
class Scalar(Expr):
    """An attribute that is a real number."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Random(Expr):
    """A number drawn anew for every element of an output; what draws it is `name`.

    It is a function of the operator's seed, of `name` and of the element's index in the whole output, and of nothing else:
    what runs a part draws the numbers of the part's own region with a generator that can be positioned (one counter for
    each element). So the values do not depend on how the operator is split, a reduced index sees one number, and the
    same name in two outputs of one shape is the same number.
    """

    name: str

    def __repr__(self) -> str:
        return f"random.{self.name}()"


@dataclass(frozen=True, slots=True)
class Access(Expr):
    """One element of an input, or a slice of it where an index is None.

    An index that is itself an expression is data-dependent. `fill` is the value outside of the tensor, None where
    the description never reads outside.
    """

    tensor: int
    index: tuple[Poly | Expr | None, ...]
    fill: float | None = None
    name: str = field(default="", compare=False)

    def __repr__(self) -> str:
        index = ", ".join(":" if i is None else repr(i) for i in self.index)
        outside = "" if self.fill is None else f".pad({self.fill:g})"
        return f"{self.name or f'%{self.tensor}'}{outside}[{index}]"


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An arithmetic operation or an intrinsic function of scalars; see `scalar.FUNCTIONS`."""

    function: str
    args: tuple[Expr, ...]

    def __repr__(self) -> str:
        infix = INFIX.get(self.function)
        if infix and len(self.args) == 2:
            return f"({self.args[0]!r} {infix} {self.args[1]!r})"
        return f"{self.function}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """`body` for all values of `variables`, put together by `reducer`."""

    reducer: str
    variables: tuple[Symbol, ...]
    extents: tuple[Poly, ...]
    body: Expr

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.variables))
        return f"{self.reducer.capitalize()}({names}: {self.body!r})"


@dataclass(frozen=True, slots=True)
class OpaqueFunction:
    """A function that the language cannot say; `numpy` computes it for the reference evaluator."""

    name: str
    numpy: Callable[..., Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OpaqueCall(Expr):
    """One element of what an opaque function makes of slices of the inputs."""

    function: OpaqueFunction
    args: tuple[Expr, ...]
    index: tuple[Poly, ...]

    def __repr__(self) -> str:
        args = ", ".join(map(repr, self.args))
        return f"Opaque({self.function.name!r})({args})[{', '.join(map(repr, self.index))}]"


Operand = Expr | int | float | bool

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "pow": "**",
}  # fmt: skip


def call(function: str, *args: object) -> Expr:
    """`function` of `args`, which may be numbers and indices."""
    return Call(function, tuple(lift(a) for a in args))


def lift(value: object) -> Expr:
    """A number, an index or an expression, as an expression."""
    if isinstance(value, Expr):
        return value
    poly = getattr(value, "poly", None)
    if isinstance(poly, Poly):
        return IndexValue(poly)
    if isinstance(value, int | float):
        return Const(value)
    raise TypeError(f"{value!r} is neither a number, an index nor an expression")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly beneath `expr`, data-dependent indices included."""
    match expr:
        case Call(_, args) | OpaqueCall(_, args, _):
            return args
        case Reduce(body=body):
            return (body,)
        case Access(index=index):
            return tuple(i for i in index if isinstance(i, Expr))
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything beneath it, parents first; what is used twice comes twice."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def distinct(expr: Expr) -> Iterator[Expr]:
    """The same, each object once however often it is used."""
    stack = [expr]
    seen: set[int] = set()
    while stack:
        top = stack.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            stack.extend(reversed(children(top)))


def indices_of(expr: Expr) -> tuple[Poly, ...]:
    """The index expressions that stand in `expr` itself."""
    match expr:
        case IndexValue(index):
            return (index,)
        case Access(index=index):
            return tuple(i for i in index if isinstance(i, Poly))
        case OpaqueCall(index=index):
            return index
        case _:
            return ()


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that have to hold together for `condition`."""
    match condition:
        case Call("and", (a, b)):
            return [*conjuncts(a), *conjuncts(b)]
        case _:
            return [condition]


def free_indices(expr: Expr) -> frozenset[Symbol]:
    """The index variables that `expr` depends on and does not itself reduce."""
    found: set[Symbol] = set().union(*(index.indices for index in indices_of(expr)))
    for child in children(expr):
        found |= free_indices(child)
    if isinstance(expr, Reduce):
        found -= set(expr.variables)
    return frozenset(found)


def rename_bound(expr: Expr, names: Mapping[Symbol, Poly] | None = None, depth: int = 0) -> Expr:
    """`expr` with reduced variables named by their depth, so that expressions that differ in names alone are equal."""
    names = names or {}

    def again(part: Poly | Expr | None) -> Poly | Expr | None:
        if isinstance(part, Poly):
            return part.substitute(names)
        return None if part is None else rename_bound(part, names, depth)

    match expr:
        case Reduce(reducer, variables, extents, body):
            fresh = tuple(Symbol(f"#{depth + n}") for n in range(len(variables)))
            inner = {**names, **{v: Poly.of(f) for v, f in zip(variables, fresh, strict=True)}}
            sizes = tuple(extent.substitute(names) for extent in extents)
            return Reduce(reducer, fresh, sizes, rename_bound(body, inner, depth + len(variables)))
        case Call(function, args):
            return Call(function, tuple(rename_bound(a, names, depth) for a in args))
        case IndexValue(index):
            return IndexValue(index.substitute(names))
        case Access(tensor, index, fill, name):
            return Access(tensor, tuple(again(i) for i in index), fill, name)
        case OpaqueCall(function, args, index):
            renamed = tuple(rename_bound(a, names, depth) for a in args)
            return OpaqueCall(function, renamed, tuple(i.substitute(names) for i in index))
        case _:
            return expr
