"""Run a description once on symbols, for all calls whose shapes lead to the same decisions.

In: a `Description` and one call of the operator (attributes, input and output types).
Out: a `Trace`: one expression per output, over index variables and the symbols

    x.1          the size of dim 1 of the input x          stride.0     an integer attribute
    out.2        the size of dim 2 of the output           fixed.0      the same in every part

and the guards under which it holds (``groups == 1``, "dim 0 of b is broadcast"). Traces are cached
per description and matched by their guards, so a convolution is analysed once, not once per layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphwright.describe.language.expression import Expr, Random, Scalar, distinct, lift
from graphwright.describe.language.registry import Description
from graphwright.describe.language.syntax import (
    COMPARE,
    TRACING,
    Int,
    Tensor,
    Tracing,
    index_names,
    size_symbol,
)
from graphwright.errors import DescriptionError, GraphwrightError, InvalidCall
from graphwright.ir import Attr, TensorType
from graphwright.symbolic import Kind, Poly, Symbol


class Types(NamedTuple):
    """The types of one call; absent tensor arguments are None."""

    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    """One output: its index variables and the value of the element there."""

    variables: tuple[Symbol, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A description on symbols."""

    description: Description
    names: tuple[str, ...]
    outputs: tuple[Lambda, ...]
    extents: Mapping[Symbol, Poly]
    guards: tuple[tuple[str, Poly, bool | int], ...]
    fixed: Mapping[Symbol, Poly]
    expected: tuple[Poly, ...]
    multiples: tuple[tuple[Poly, int], ...]
    skeleton: object
    pinned: Mapping[str, float]
    input_dtypes: tuple[str | None, ...]
    output_dtypes: tuple[str, ...]

    @property
    def random(self) -> bool:
        """Whether elements are random."""
        return any(isinstance(e, Random) for output in self.outputs for e in distinct(output.body))

    def environment(self, attrs: Mapping[str, Attr], types: Types) -> dict[Symbol, int]:
        """The value of every symbol for one call."""
        values = symbol_values(self.description, attrs, types)
        for symbol, poly in self.fixed.items():
            values[symbol] = int(poly.evaluate(values))
        return values

    def holds(self, values: Mapping[Symbol, int]) -> bool:
        """Whether a call leads to the decisions of this trace."""
        for name, poly, answer in self.guards:
            value = int(poly.evaluate(values))
            if (value if name == "is" else COMPARE[name](value)) != answer:
                return False
        return True


_TRACES: dict[object, list[Trace]] = {}


def trace(description: Description, attrs: Mapping[str, Attr], types: Types) -> Trace:
    """The trace of `description` that covers this call, cached."""
    try:
        return _find_or_run(description, attrs, types)
    except GraphwrightError:
        raise
    except Exception as error:  # whatever its lines raise when they are given what does not fit
        given = ", ".join("absent" if t is None else str(t) for t in types.inputs)
        raise InvalidCall(
            f"{description.op}({given or 'no tensors'}) does not fit its description: {error}; "
            f"attributes {dict(attrs)}"
        ) from error


def _find_or_run(description: Description, attrs: Mapping[str, Attr], types: Types) -> Trace:
    skeleton = _skeleton(description, attrs, types)
    restated = tuple(sorted(description.restated.items(), key=lambda item: item[0]))
    known = _TRACES.setdefault((description.function, restated), [])
    values = symbol_values(description, attrs, types)
    for candidate in known:
        if candidate.skeleton == skeleton:
            for symbol, poly in candidate.fixed.items():
                values[symbol] = int(poly.evaluate(values))
            if candidate.holds(values) and all(attrs[n] == v for n, v in candidate.pinned.items()):
                return candidate
    known.append(_run(description, attrs, types, skeleton))
    return known[-1]


def num_traces() -> int:
    """The number of traces in this process."""
    return sum(map(len, _TRACES.values()))


def _run(
    description: Description, attrs: Mapping[str, Attr], types: Types, skeleton: object
) -> Trace:
    reals = {name: value for name, value in attrs.items() if isinstance(value, float)}
    tracing = Tracing(symbol_values(description, attrs, types), reals=reals)
    token = TRACING.set(tracing)
    try:
        names = description.name_inputs(len(types.inputs))
        for taken in {_out(n, len(types.outputs)) for n in range(len(types.outputs))} & {*names}:
            raise DescriptionError(
                f"{description.op}: {taken} is the name of an output; rename the input"
            )
        tensors = [
            None if t is None else _tensor(name, position, t)
            for position, (name, t) in enumerate(zip(names, types.inputs, strict=True))
        ]
        outs = [
            _tensor(_out(n, len(types.outputs)), -1 - n, t) for n, t in enumerate(types.outputs)
        ]
        given = {name: _symbolic(name, value) for name, value in attrs.items()}
        for name, restate in description.restated.items():
            if name in given and name not in inspect.signature(restate).parameters:
                given[name] = restate_attr(restate, names, tensors, outs, given)
        given |= {"out": outs[0] if outs else None, "outs": outs}
        result = description.function(
            *tensors, **{n: given[n] for n in description.attrs if n in given}
        )
        lambdas = result if isinstance(result, tuple | list) else (result,)
        if len(lambdas) != len(outs):
            raise DescriptionError(
                f"{description.op} is described with {len(lambdas)} outputs, but has {len(outs)}"
            )
        outputs = tuple(
            _output(description, body, out, tracing)
            for body, out in zip(lambdas, outs, strict=True)
        )
    finally:
        TRACING.reset(token)
    return Trace(
        description,
        names,
        outputs,
        dict(tracing.extents),
        tuple(dict.fromkeys(tracing.guards)),
        tracing.fixed,
        tuple(tracing.expected),
        tuple(tracing.multiples),
        skeleton,
        tracing.pinned,
        tuple(None if t is None else t.dtype for t in types.inputs),
        tuple(t.dtype for t in types.outputs),
    )


def _output(description: Description, body: object, out: Tensor, tracing: Tracing) -> Lambda:
    if not callable(body):
        raise DescriptionError(f"{description.op}: an output must be a lambda over indices")
    try:
        names = index_names(body, out.rank)
    except DescriptionError as error:
        raise DescriptionError(f"{description.op}: {error}") from None
    variables: list[Symbol] = []
    for name, size in zip(names, out.shape, strict=True):
        variable = tracing.fresh(name)
        tracing.extents[variable] = size.poly
        variables.append(variable)
    return Lambda(tuple(variables), lift(body(*(Int(Poly.of(v)) for v in variables))))


def restate_attr(
    restate: Callable[..., object],
    names: tuple[str, ...],
    tensors: Sequence[object],
    outs: Sequence[object],
    attrs: Mapping[str, object],
) -> object:
    """Recompute an attribute from shapes; `tensors` and `outs` need only a ``shape``."""
    out = outs[0] if outs else None
    known = {**attrs, **dict(zip(names, tensors, strict=True)), "out": out, "outs": outs}
    return restate(*(known[parameter] for parameter in inspect.signature(restate).parameters))


def symbol_values(
    description: Description, attrs: Mapping[str, Attr], types: Types
) -> dict[Symbol, int]:
    """The values of all sizes and integer attributes."""
    values: dict[Symbol, int] = {}
    for name, t in zip(description.name_inputs(len(types.inputs)), types.inputs, strict=True):
        if t is not None:
            values.update({size_symbol(name, d): n for d, n in enumerate(t.shape)})
    for number, t in enumerate(types.outputs):
        name = _out(number, len(types.outputs))
        values.update({size_symbol(name, d): n for d, n in enumerate(t.shape)})
    for name, value in attrs.items():
        values.update(_attr_values(name, value))
    return values


def _attr_values(name: str, value: Attr) -> dict[Symbol, int]:
    if isinstance(value, int) and not isinstance(value, bool):
        return {Symbol(name, Kind.ATTR): value}
    if isinstance(value, tuple):
        items = (_attr_values(f"{name}.{n}", item) for n, item in enumerate(value))
        return {symbol: number for values in items for symbol, number in values.items()}
    return {}


def _symbolic(name: str, value: Attr) -> object:
    match value:
        case bool() | str() | None:
            return value
        case int():
            return Int(Poly.of(Symbol(name, Kind.ATTR)))
        case float():
            return Scalar(name)
        case tuple():
            return tuple(_symbolic(f"{name}.{n}", item) for n, item in enumerate(value))


def _tensor(name: str, position: int, t: TensorType) -> Tensor:
    shape = [Int(Poly.of(size_symbol(name, d))) for d in range(len(t.shape))]
    return Tensor(name, position, shape, t.dtype)


def _out(number: int, count: int) -> str:
    return "out" if count == 1 else f"out{number}"


def out_symbol(number: int, count: int, dim: int) -> Symbol:
    """The symbol for the size of an output's dim."""
    return size_symbol(_out(number, count), dim)


def _skeleton(description: Description, attrs: Mapping[str, Attr], types: Types) -> object:
    inputs = tuple(None if t is None else (len(t.shape), t.dtype) for t in types.inputs)
    outputs = tuple((len(t.shape), t.dtype) for t in types.outputs)
    return inputs, outputs, tuple((name, _shape_of(attrs[name])) for name in sorted(attrs))


def _shape_of(value: Attr) -> object:
    match value:
        case bool() | str() | None:
            return value
        case int():
            return "int"
        case float():
            return "float"
        case tuple():
            return tuple(_shape_of(item) for item in value)
