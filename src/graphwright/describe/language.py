"""What a description is written in.

    @describe("aten.mm")
    def mm(a, b):
        return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

The function's positional arguments are the operator's tensors, its keyword-only arguments the attributes it needs.
It returns one lambda per output, from index variables to the value of that element:

- ``lambda *i`` takes as many indices as the output has dims; ``x[i]`` then reads with PyTorch's broadcasting.
- `Sum`, `Max`, `Min`, `Prod`, `Any` and `reducer(name)` reduce over the arguments of their own lambda. A reduced
  index gets its extent from a dim that it indexes by itself, or from ``over=``.
- Sizes and integer attributes are symbols. Arithmetic on them stays symbolic; asking Python for a decision
  (``if groups == 1``, ``range(n)``) records a guard, and the analysis then serves all shapes that pass the guards.
- ``x.pad(0)[i - 1]`` says what lies outside of x; ``x[idx[i], j]`` is a data-dependent index;
  ``i // n`` and ``i % n`` write reshapes; ``x[b, :, :]`` is a slice, for an `Opaque` function.
- `fixed(n)` names a quantity that every part of a split keeps (the channels of one group); ``expect(n, formula)``
  says that the kernel computes the size n itself, so a part has to agree with it.
- A keyword-only argument ``out`` (or ``outs``) is the output, for its shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from graphwright.describe.expression import (
    Access,
    Const,
    Expr,
    OpaqueCall,
    OpaqueFunction,
    Random,
    Reduce,
    Scalar,
    call,
    lift,
    walk,
)
from graphwright.errors import DescriptionError
from graphwright.symbolic import Kind, Poly, Symbol


@dataclass(slots=True)
class Tracing:
    """What one run of a description collects: the values behind its symbols, and the decisions it took."""

    values: dict[Symbol, int]
    guards: list[tuple[str, Poly, bool | int]] = field(default_factory=list)
    fixed: dict[Symbol, Poly] = field(default_factory=dict)
    extents: dict[Symbol, Poly] = field(default_factory=dict)
    expected: list[Poly] = field(default_factory=list)
    indices: set[Symbol] = field(default_factory=set)
    reals: dict[str, float] = field(default_factory=dict)
    pinned: dict[str, float] = field(default_factory=dict)

    def fresh(self, name: str) -> Symbol:
        """A new index variable; a prime tells it from earlier ones of the same name."""
        symbol = Symbol(name)
        while symbol in self.indices:
            symbol = Symbol(symbol.name + "'")
        self.indices.add(symbol)
        return symbol


TRACING: ContextVar[Tracing] = ContextVar("tracing")


class Int:
    """A size, an integer attribute, an index variable, or arithmetic on them."""

    __slots__ = ("poly",)

    def __init__(self, poly: Poly) -> None:
        self.poly = poly

    def _arithmetic(self, other: object, name: str, reflected: bool = False) -> Int | Expr:
        if isinstance(other, Int | int) and not isinstance(other, bool):
            a, b = self.poly, _poly(other)
            a, b = (b, a) if reflected else (a, b)
            match name:
                case "add":
                    return Int(a + b)
                case "sub":
                    return Int(a - b)
                case "mul":
                    return Int(a * b)
                case "floordiv":
                    return Int(a // b)
                case "mod":
                    return Int(a % b)
                case _:
                    pass
        return call(name, other, self) if reflected else call(name, self, other)

    def __add__(self, other: object) -> Int:
        return self._arithmetic(other, "add")  # type: ignore[return-value]

    def __radd__(self, other: object) -> Int:
        return self._arithmetic(other, "add", True)  # type: ignore[return-value]

    def __sub__(self, other: object) -> Int:
        return self._arithmetic(other, "sub")  # type: ignore[return-value]

    def __rsub__(self, other: object) -> Int:
        return self._arithmetic(other, "sub", True)  # type: ignore[return-value]

    def __mul__(self, other: object) -> Int:
        return self._arithmetic(other, "mul")  # type: ignore[return-value]

    def __rmul__(self, other: object) -> Int:
        return self._arithmetic(other, "mul", True)  # type: ignore[return-value]

    def __floordiv__(self, other: object) -> Int:
        return self._arithmetic(other, "floordiv")  # type: ignore[return-value]

    def __mod__(self, other: object) -> Int:
        return self._arithmetic(other, "mod")  # type: ignore[return-value]

    def __truediv__(self, other: object) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: object) -> Expr:
        return call("div", other, self)

    def __pow__(self, other: object) -> Expr:
        return call("pow", self, other)

    def __rpow__(self, other: object) -> Expr:
        return call("pow", other, self)

    def __neg__(self) -> Int:
        return Int(-self.poly)

    # A comparison of indices is a value; one of sizes and attributes is a decision, kept as a guard.

    def _compare(self, other: object, name: str) -> Expr | bool:
        if isinstance(other, Expr):
            return call(name, self, other)
        if not isinstance(other, Int | int):
            return call(name, self, other) if self.poly.indices else _numeric(self, other, name)
        difference = self.poly - _poly(other)
        if difference.indices:
            return call(name, Int(difference), 0)
        return _decide(name, difference)

    def __lt__(self, other: object) -> Expr | bool:
        return self._compare(other, "lt")

    def __le__(self, other: object) -> Expr | bool:
        return self._compare(other, "le")

    def __gt__(self, other: object) -> Expr | bool:
        return self._compare(other, "gt")

    def __ge__(self, other: object) -> Expr | bool:
        return self._compare(other, "ge")

    def __eq__(self, other: object) -> bool:
        answer = self._compare(other, "eq")
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
    """An input (or, for its shape, an output) as a description sees it: something to index."""

    def __init__(
        self, name: str, position: int, shape: Sequence[Int], dtype: str, fill: float | None = None
    ) -> None:
        self.name, self.position, self.shape, self.dtype = name, position, tuple(shape), dtype
        self.fill = fill

    @property
    def rank(self) -> int:
        return len(self.shape)

    def pad(self, value: float) -> Tensor:
        """The same tensor, holding `value` everywhere outside of its bounds."""
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


# -- reductions and functions -------------------------------------------------------------------


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
                raise DescriptionError(
                    f"over={given}: an index runs over the same range everywhere"
                )
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
        f"the reduced index {variable!r} never indexes a tensor by itself; give its extent with over="
    )


def size_symbol(name: str, dim: int) -> Symbol:
    """The symbol for the size of a tensor's dim."""
    return Symbol(f"{name}.{dim}", Kind.SIZE)


def index_names(body: Callable[..., object], count: int | None) -> list[str]:
    """The names of a lambda's indices; a starred argument takes what `count` leaves to it."""
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
    """A function along some dims that the language cannot say; other dims still split.

    ``Opaque("cholesky", numpy.linalg.cholesky)(a[b, :, :])[i, j]``
    """

    def __init__(self, name: str, numpy: Callable[..., object] | None = None) -> None:
        self.function = OpaqueFunction(name, numpy)

    def __call__(self, *args: object) -> OpaqueResult:
        return OpaqueResult(self.function, tuple(lift(a) for a in args))


@dataclass(frozen=True, slots=True)
class OpaqueResult:
    """What an opaque function returns; index it to get an element."""

    function: OpaqueFunction
    args: tuple[Expr, ...]

    def __getitem__(self, key: object) -> Expr:
        parts = key if isinstance(key, tuple) else (key,)
        return OpaqueCall(self.function, self.args, tuple(_poly(p) for p in parts))


def random(name: str) -> Expr:
    """A number drawn anew for every element, by its place in the whole output: parts draw what the whole would draw.

    A kernel that takes its output's shape from a tensor has to read it, or no part would get a smaller one: see `instead`.
    """
    return Random(name)


def instead(value: object, element: Expr) -> Expr:
    """`value`, in the place of an element that is read for its tensor's shape alone."""
    return where(True, value, element)


def number(value: Int | Scalar | float) -> float:
    """The value of a number attribute itself; the trace then serves only calls with that value."""
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
    """A quantity that the operator takes from its attributes, and that every part of a split keeps."""
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
    """The kernel itself computes `size` as `formula`; a part must agree, or its split is refused."""
    TRACING.get().expected.append(_poly(size) - _poly(formula))


def whole(size: Int) -> None:
    """Every part of a split keeps this size: the kernel would treat a smaller one differently."""
    expect(size, fixed(size))


def equal(a: object, b: object) -> Expr:
    """Whether two values are equal, as a value (``==`` on sizes asks for a decision instead)."""
    if isinstance(a, Int) and isinstance(b, Int | int):
        return call("eq", a - b, 0)
    return call("eq", a, b)


def where(condition: object, a: object, b: object) -> Expr:
    """`a` where `condition` holds, otherwise `b`."""
    return call("where", condition, a, b)


def function(name: str) -> Callable[..., Expr]:
    """The intrinsic function `name` of scalars (see `scalar.FUNCTIONS`)."""
    return lambda *args: call(name, *args)


def constant(value: float) -> Expr:
    """A literal."""
    return Const(value)


def ignored(element: Expr) -> Expr:
    """Zero, whatever the element: for a tensor that a kernel takes for its shape alone, and that is cut like others."""
    return call("mul", 0, element)


def regroup(index: Sequence[Int], shape: Sequence[Int], target: Sequence[Int]) -> tuple[Int, ...]:
    """The index into a tensor of shape `target` of the element at `index` of the same tensor seen as `shape`.

    Dims are matched in groups of equal size, so that a dim kept by a reshape keeps its plain index, and only the
    dims that are really merged or split go through ``//`` and ``%``.
    """
    result: list[Int] = []
    a = b = 0
    while a < len(shape) or b < len(target):
        left, right = [a], [b]
        if a >= len(shape) or b >= len(target):  # only dims of size 1 can be left over
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
