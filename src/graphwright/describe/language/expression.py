"""The expression tree of a description: one output element as a function of input elements.

    lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

        Reduce("sum", (k,), extents=(a.1,))
        └─ Call("mul")
           ├─ Access(0, (i, k))
           └─ Access(1, (k, j))

This module holds only values; the other modules of the package analyse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphwright.errors import DescriptionError
from graphwright.symbolic import Poly, Symbol

Number = int | float | bool


def infix(name: str, reflected: bool = False) -> Callable[[Any, object], Expr]:
    """The method of an operand for a binary operator whose result is an expression."""
    if reflected:
        return lambda self, other: call(name, other, self)
    return lambda self, other: call(name, self, other)


class Expr:
    """A value for every combination of the index variables."""

    __slots__ = ()

    __add__, __radd__ = infix("add"), infix("add", reflected=True)
    __sub__, __rsub__ = infix("sub"), infix("sub", reflected=True)
    __mul__, __rmul__ = infix("mul"), infix("mul", reflected=True)
    __truediv__, __rtruediv__ = infix("div"), infix("div", reflected=True)
    __pow__, __rpow__ = infix("pow"), infix("pow", reflected=True)
    __and__, __or__ = infix("and"), infix("or")
    __lt__, __le__, __gt__, __ge__ = infix("lt"), infix("le"), infix("gt"), infix("ge")

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __bool__(self) -> bool:
        raise DescriptionError(
            f"{self!r} has a value per element, so Python cannot branch on it: "
            "use where(condition, a, b)"
        )

    def __invert__(self) -> Expr:
        return call("not", self)


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
    """A random number for every element of an output.

    It depends only on the operator's seed, `name` and the element's index in the whole output: a
    part draws the numbers of its own region from a counter-based generator (one counter per
    element). So the values do not depend on the split, a reduced index sees one number, and the
    same name in two outputs of one shape is the same number.
    """

    name: str

    def __repr__(self) -> str:
        return f"random.{self.name}()"


@dataclass(frozen=True, slots=True)
class Access(Expr):
    """One element of an input, or a slice where an index is None.

    An index that is an expression is data-dependent. `fill` is the value outside of the tensor, or
    None if the description never reads there.
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
    """`body` reduced by `reducer` over all values of `variables`."""

    reducer: str
    variables: tuple[Symbol, ...]
    extents: tuple[Poly, ...]
    body: Expr

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.variables))
        return f"{self.reducer.capitalize()}({names}: {self.body!r})"


@dataclass(frozen=True, slots=True)
class OpaqueFunction:
    """A function that the language cannot express; the reference evaluator calls `numpy`."""

    name: str
    numpy: Callable[..., Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OpaqueCall(Expr):
    """One element of the result of an opaque function of slices of the inputs."""

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
    """Apply `function` to expressions, numbers or indices."""
    return Call(function, tuple(lift(a) for a in args))


def lift(value: object) -> Expr:
    """Convert a number or an index to an expression."""
    if isinstance(value, Expr):
        return value
    poly = getattr(value, "poly", None)
    if isinstance(poly, Poly):
        return IndexValue(poly)
    if isinstance(value, int | float):
        return Const(value)
    raise TypeError(f"{value!r} is neither a number, an index nor an expression")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions of `expr`, including data-dependent indices."""
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
    """`expr` and all its subexpressions, parents first, once for every use."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def distinct(expr: Expr) -> Iterator[Expr]:
    """The same, but each object once."""
    stack = [expr]
    seen: set[int] = set()
    while stack:
        top = stack.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            stack.extend(reversed(children(top)))


def indices_of(expr: Expr) -> tuple[Poly, ...]:
    """The index expressions of `expr` itself, without its subexpressions."""
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
    """The operands of a conjunction."""
    match condition:
        case Call("and", (a, b)):
            return [*conjuncts(a), *conjuncts(b)]
        case _:
            return [condition]


def free_indices(expr: Expr) -> frozenset[Symbol]:
    """The index variables that `expr` depends on, without those it reduces."""
    own = (index.indices for index in indices_of(expr))
    free = frozenset[Symbol]().union(*own, *map(free_indices, children(expr)))
    return free - set(expr.variables) if isinstance(expr, Reduce) else free


def rename_bound(expr: Expr, names: Mapping[Symbol, Poly] | None = None, depth: int = 0) -> Expr:
    """Name reduced variables by depth: expressions that differ only in names become equal."""
    names = names or {}

    def rename(part: Poly | Expr | None) -> Poly | Expr | None:
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
            return Access(tensor, tuple(rename(i) for i in index), fill, name)
        case OpaqueCall(function, args, index):
            renamed = tuple(rename_bound(a, names, depth) for a in args)
            return OpaqueCall(function, renamed, tuple(i.substitute(names) for i in index))
        case _:
            return expr
