"""The language of descriptions.

    @describe("aten.mm")
    def mm(a, b):
        return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

The function's positional arguments are the operator's tensors, its keyword-only arguments the
attributes that it uses. It returns one lambda per output, from indices to the element there:

- ``lambda *i`` takes as many indices as the output has dims; ``x[i]`` broadcasts as PyTorch does.
- `Sum`, `Max`, `Min`, `Prod`, `Any` and `reducer(name)` reduce over the arguments of their lambda.
  A reduced index takes its extent from a dim that it indexes by itself, or from ``over=``.
- Sizes and integer attributes are symbols, and so is arithmetic on them. A Python decision
  (``if groups == 1``, ``range(n)``) records a guard; the analysis holds for all shapes that pass
  the guards.
- ``x.pad(0)[i - 1]`` defines the values outside of x; ``x[idx[i], j]`` is a data-dependent index;
  ``i // n`` and ``i % n`` express reshapes; ``x[b, :, :]`` is a slice, for an `Opaque` function.
- `fixed(n)` is a quantity that every part of a split keeps (the channels of one group);
  ``expect(n, formula)`` says that the kernel computes the size n itself, for a part too;
  ``in_multiples(n, 16)`` that it wants a part's size to be a multiple of 16.
- A keyword-only argument ``out`` (or ``outs``) is the output, for its shape.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from graphwright.describe.language.expression import (
    Access,
    Const,
    Expr,
    OpaqueCall,
    OpaqueFunction,
    Random,
    Reduce,
    Scalar,
    call,
    infix,
    lift,
    walk,
)
from graphwright.errors import DescriptionError
from graphwright.symbolic import Kind, Poly, Symbol


@dataclass(slots=True)
class Tracing:
    """The state of one run of a description: the values of its symbols, the decisions it took."""

    values: dict[Symbol, int]
    guards: list[tuple[str, Poly, bool | int]] = field(default_factory=list)
    fixed: dict[Symbol, Poly] = field(default_factory=dict)
    extents: dict[Symbol, Poly] = field(default_factory=dict)
    expected: list[Poly] = field(default_factory=list)
    multiples: list[tuple[Poly, int]] = field(default_factory=list)
    indices: set[Symbol] = field(default_factory=set)
    reals: dict[str, float] = field(default_factory=dict)
    pinned: dict[str, float] = field(default_factory=dict)

    def fresh(self, name: str) -> Symbol:
        """A new index variable; primes distinguish variables of the same name."""
        symbol = Symbol(name)
        while symbol in self.indices:
            symbol = Symbol(symbol.name + "'")
        self.indices.add(symbol)
        return symbol


TRACING: ContextVar[Tracing] = ContextVar("tracing")


_INTEGER: dict[str, Callable[[Poly, Poly], Poly]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}


def _arithmetic(name: str, reflected: bool = False) -> Callable[[Int, object], Int]:
    """The method of `Int` for a binary operator; with anything but an integer, an expression."""

    def method(self: Int, other: object) -> Int | Expr:
        left, right = (other, self) if reflected else (self, other)
        if isinstance(other, Int | int) and not isinstance(other, bool):
            return Int(_INTEGER[name](_poly(left), _poly(right)))  # type: ignore[arg-type]
        return call(name, left, right)

    return method  # type: ignore[return-value]


def _comparison(name: str) -> Callable[[Int, object], Expr | bool]:
    """The method of `Int` for a comparison: a value for indices, a guarded decision for sizes."""

    def method(self: Int, other: object) -> Expr | bool:
        if isinstance(other, Expr):
            return call(name, self, other)
        if not isinstance(other, Int | int):
            return call(name, self, other) if self.poly.indices else _numeric(self, other, name)
        difference = self.poly - _poly(other)
        if difference.indices:
            return call(name, Int(difference), 0)
        return _decide(name, difference)

    return method


class Int:
    """A size, an integer attribute, an index variable, or arithmetic on them."""

    __slots__ = ("poly",)

    def __init__(self, poly: Poly) -> None:
        self.poly = poly

    __add__, __radd__ = _arithmetic("add"), _arithmetic("add", reflected=True)
    __sub__, __rsub__ = _arithmetic("sub"), _arithmetic("sub", reflected=True)
    __mul__, __rmul__ = _arithmetic("mul"), _arithmetic("mul", reflected=True)
    __floordiv__, __mod__ = _arithmetic("floordiv"), _arithmetic("mod")

    __truediv__, __rtruediv__ = infix("div"), infix("div", reflected=True)
    __pow__, __rpow__ = infix("pow"), infix("pow", reflected=True)

    def __neg__(self) -> Int:
        return Int(-self.poly)

    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__, _equals = _comparison("gt"), _comparison("ge"), _comparison("eq")

    def __eq__(self, other: object) -> bool:
        answer = self._equals(other)
        if isinstance(answer, Expr):
            raise DescriptionError(f"{self!r} == {other!r}: compare indices with equal(a, b)")
        return answer

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        value = _value(self.poly)
        TRACING.get().guards.append(("is", self.poly, value))
        return value

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.poly)


def _poly(value: Int | int) -> Poly:
    return value.poly if isinstance(value, Int) else Poly.const(value)


def _value(poly: Poly) -> int:
    value = poly.constant
    return int(poly.evaluate(TRACING.get().values)) if value is None else value


COMPARE: dict[str, Callable[[float], bool]] = {
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
    "eq": lambda d: d == 0,
}


def _decide(name: str, difference: Poly) -> bool:
    answer = COMPARE[name](_value(difference))
    if difference.constant is None:
        TRACING.get().guards.append((name, difference, answer))
    return answer


def _numeric(left: Int, right: object, name: str) -> bool:
    return isinstance(right, float) and COMPARE[name](left.__index__() - right)


class Tensor:
    """An input that a description indexes, or an output whose shape it uses."""

    def __init__(
        self, name: str, position: int, shape: Sequence[Int], dtype: str, fill: float | None = None
    ) -> None:
        self.name, self.position, self.shape, self.dtype = name, position, tuple(shape), dtype
        self.fill = fill

    @property
    def rank(self) -> int:
        return len(self.shape)

    def pad(self, value: float) -> Tensor:
        """The same tensor, with `value` everywhere outside of its bounds."""
        return Tensor(self.name, self.position, self.shape, self.dtype, value)

    def __getitem__(self, key: object) -> Access:
        parts = list(key) if isinstance(key, tuple) else [key]
        parts = parts[max(0, len(parts) - self.rank) :]
        if len(parts) != self.rank:
            raise DescriptionError(f"{self.name} has {self.rank} dims, indexed with {len(parts)}")
        index = tuple(self._index(dim, part) for dim, part in enumerate(parts))
        return Access(self.position, index, self.fill, self.name)

    def _index(self, dim: int, part: object) -> Poly | Expr | None:
        if isinstance(part, slice):
            return None
        if isinstance(part, Expr):
            return part
        if not isinstance(part, Int | int):
            raise DescriptionError(f"{self.name} is indexed with {part!r}")
        poly = _poly(part)
        extent = TRACING.get().extents.get(poly.atom) if isinstance(poly.atom, Symbol) else None
        if extent is not None and extent != self.shape[dim].poly and self.fill is None:
            size = self.shape[dim]
            if size == 1 and Int(extent) != 1:
                return Poly.const(0)
        return poly


# -- reductions and functions --------------------------------------------------------------------


def reducer(name: str) -> Callable[..., Expr]:
    """A reduction by the commutative, associative function `name` (see `scalar.REDUCERS`)."""

    def reduce(
        body: Callable[..., object], over: Sequence[Int | int] | Int | int | None = None
    ) -> Expr:
        tracing = TRACING.get()
        given = [over] if isinstance(over, Int | int) else list(over) if over is not None else None
        names = index_names(body, len(given) if given is not None else None)
        variables = [tracing.fresh(name) for name in names]
        if given is not None:
            if any(_poly(n).indices for n in given):
                raise DescriptionError(f"over={given}: an extent must not depend on an index")
            tracing.extents.update(zip(variables, map(_poly, given), strict=True))
        expr = lift(body(*(Int(Poly.of(v)) for v in variables)))
        if given is None:
            tracing.extents.update({v: _extent(v, expr) for v in variables})
        return Reduce(name, tuple(variables), tuple(tracing.extents[v] for v in variables), expr)

    return reduce


def _extent(variable: Symbol, body: Expr) -> Poly:
    for expr in walk(body):
        if isinstance(expr, Access):
            for dim, index in enumerate(expr.index):
                if isinstance(index, Poly) and index.atom == variable:
                    return Poly.of(size_symbol(expr.name, dim))
    raise DescriptionError(
        f"the reduced index {variable!r} never indexes a dim by itself; give its extent with over="
    )


def size_symbol(name: str, dim: int) -> Symbol:
    """The symbol for the size of a tensor's dim."""
    return Symbol(f"{name}.{dim}", Kind.SIZE)


def index_names(body: Callable[..., object], count: int | None) -> list[str]:
    """The names of a lambda's indices; a starred argument takes the rest of `count`."""
    names: list[str] = []
    starred: tuple[int, str] | None = None
    for parameter in inspect.signature(body).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            starred = (len(names), parameter.name)
        else:
            names.append(parameter.name)
    if starred is not None:
        if count is None:
            raise DescriptionError(f"*{starred[1]} in a reduction needs over=")
        position, name = starred
        names[position:position] = [f"{name}{n}" for n in range(count - len(names))]
    if count is not None and len(names) != count:
        raise DescriptionError(f"the lambda takes {len(names)} indices where {count} are needed")
    return names


Sum, Max, Min, Prod, Any, All = map(reducer, ("sum", "max", "min", "prod", "any", "all"))
ArgMax, ArgMin = reducer("argmax"), reducer("argmin")


class Opaque:
    """A function along some dims that the language cannot express; other dims still split.

    ``Opaque("cholesky", numpy.linalg.cholesky)(a[b, :, :])[i, j]``
    """

    def __init__(self, name: str, numpy: Callable[..., object] | None = None) -> None:
        self.function = OpaqueFunction(name, numpy)

    def __call__(self, *args: object) -> OpaqueResult:
        return OpaqueResult(self.function, tuple(lift(a) for a in args))


@dataclass(frozen=True, slots=True)
class OpaqueResult:
    """The result of an opaque function; index it to get an element."""

    function: OpaqueFunction
    args: tuple[Expr, ...]

    def __getitem__(self, key: object) -> Expr:
        parts = key if isinstance(key, tuple) else (key,)
        return OpaqueCall(self.function, self.args, tuple(_poly(p) for p in parts))


def random(name: str) -> Expr:
    """A random number for every element, by its position in the whole output.

    If the kernel takes its output's shape from a tensor, the description must read that tensor, so
    that a part gets a smaller one: see `instead`.
    """
    return Random(name)


def instead(value: object, element: Expr) -> Expr:
    """`value` instead of an element of a tensor that the kernel reads only for its shape."""
    return where(True, value, element)


def number(value: Int | Scalar | float) -> float:
    """The value of a numeric attribute; the trace then holds only for calls with that value."""
    match value:
        case Scalar(name):
            tracing = TRACING.get()
            tracing.pinned[name] = tracing.reals[name]
            return tracing.reals[name]
        case Int():
            return value.__index__()
        case _:
            return value


def fixed(value: Int | int) -> Int:
    """A quantity from the operator's attributes that every part of a split keeps."""
    tracing = TRACING.get()
    poly = _poly(value)
    for symbol, known in tracing.fixed.items():
        if known == poly:
            return Int(Poly.of(symbol))
    symbol = Symbol(f"fixed.{len(tracing.fixed)}", Kind.ATTR)
    tracing.fixed[symbol] = poly
    tracing.values[symbol] = _value(poly)
    return Int(Poly.of(symbol))


def expect(size: Int, formula: Int) -> None:
    """State that the kernel computes `size` as `formula`; a split must keep that true."""
    TRACING.get().expected.append(_poly(size) - _poly(formula))


def whole(size: Int) -> None:
    """Keep this size in every part of a split: the kernel treats a smaller one differently."""
    expect(size, fixed(size))


def in_multiples(size: Int, of: int) -> None:
    """Cut this size only at multiples of a number, as some kernels want their memory."""
    TRACING.get().multiples.append((_poly(size), of))


def equal(a: object, b: object) -> Expr:
    """Whether two values are equal, as a value (``==`` on sizes is a Python decision)."""
    if isinstance(a, Int) and isinstance(b, Int | int):
        return call("eq", a - b, 0)
    return call("eq", a, b)


def where(condition: object, a: object, b: object) -> Expr:
    """`a` where `condition` holds, else `b`."""
    return call("where", condition, a, b)


def function(name: str) -> Callable[..., Expr]:
    """The intrinsic function `name` of scalars (see `scalar.FUNCTIONS`)."""
    return lambda *args: call(name, *args)


def constant(value: float) -> Expr:
    """A literal."""
    return Const(value)


def ignored(element: Expr) -> Expr:
    """Zero: reads, and so cuts, a tensor that the kernel takes only for its shape."""
    return call("ignored", element)


def regroup(index: Sequence[Int], shape: Sequence[Int], target: Sequence[Int]) -> tuple[Int, ...]:
    """Map an index into a tensor of shape `shape` to the same element under the shape `target`.

    Dims are matched in groups of equal size: a dim that a reshape keeps retains its plain index;
    only dims that are merged or split need ``//`` and ``%``.
    """
    result: list[Int] = []
    a = b = 0
    while a < len(shape) or b < len(target):
        left, right = [a], [b]
        if a >= len(shape) or b >= len(target):  # only dims of size 1 can remain
            result.extend(Int(Poly.const(0)) for _ in range(b, len(target)))
            break
        if shape[a] == 1 and target[b] != 1:
            a += 1
            continue
        if target[b] == 1 and shape[a] != 1:
            result.append(Int(Poly.const(0)))
            b += 1
            continue
        rows, columns = shape[a], target[b]
        while rows != columns:
            if rows < columns:
                left.append(left[-1] + 1)
                rows = rows * shape[left[-1]]
            else:
                right.append(right[-1] + 1)
                columns = columns * target[right[-1]]
        result.extend(
            _unravel([index[d] for d in left], [shape[d] for d in left], [target[d] for d in right])
        )
        a, b = left[-1] + 1, right[-1] + 1
    return tuple(result)


def _unravel(index: list[Int], shape: list[Int], target: list[Int]) -> list[Int]:
    flat = index[0]
    for i, size in zip(index[1:], shape[1:], strict=True):
        flat = flat * size + i
    result: list[Int] = []
    for size in reversed(target[1:]):
        result.append(flat % size)
        flat = flat // size
    return [flat, *reversed(result)]
