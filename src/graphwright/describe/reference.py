"""Evaluate a description on small NumPy arrays, element by element.

Every index variable has its own axis; an expression becomes an array that broadcasts over these
axes. No kernel is called, so this checks a description against PyTorch independently.

The numbers need not be floats. A `NumberSystem` says what functions and reducers mean: over
residues modulo a prime, or over real expressions of a prover, the same description gives exact
values.
`evaluate_stacked` evaluates many calls of one type at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphwright.describe.language import (
    FUNCTIONS,
    REDUCERS,
    Access,
    Array,
    Call,
    Const,
    Description,
    Expr,
    IndexValue,
    Lambda,
    OpaqueCall,
    Reduce,
    Scalar,
    Types,
    find,
    free_indices,
    require,
    trace,
    walk,
)
from graphwright.describe.properties import is_elementwise
from graphwright.errors import DescriptionError
from graphwright.ir import Attr, TensorType
from graphwright.symbolic import Poly, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSystem:
    """What functions and reducers mean for numbers of one kind; NumPy's meaning where not said."""

    functions: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    folds: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    constant: Callable[[float], Any] = lambda value: value


FLOATS = NumberSystem()
"""NumPy's own numbers."""

_STACK = Symbol("stack")


def reference(
    op: str, attrs: Mapping[str, Attr], inputs: Sequence[Array | None], types: Types
) -> tuple[Array, ...]:
    """The outputs of `op` on `inputs`, computed from its description."""
    return reference_of(require(op), attrs, inputs, types)


def reference_of(
    description: Description,
    attrs: Mapping[str, Attr],
    inputs: Sequence[Array | None],
    types: Types,
) -> tuple[Array, ...]:
    """The same, for a given description."""
    traced = trace(description, attrs, types)
    values = traced.environment(attrs, types)
    extents = {v: int(extent.evaluate(values)) for v, extent in traced.extents.items()}
    results: list[Array] = []
    for output, out_type in zip(traced.outputs, types.outputs, strict=True):
        if 0 in out_type.shape:
            results.append(np.empty(out_type.shape, _numpy_dtype(out_type.dtype)))
            continue
        array = _Evaluator(output, attrs, inputs, values, extents).run()
        results.append(np.asarray(array).astype(_numpy_dtype(out_type.dtype)))
    return tuple(results)


def is_commutative(op: str, attrs: Mapping[str, Attr], types: Types) -> bool:
    """Whether a call element by element gives the same when its two inputs change places.

    The description tells, on numbers that are drawn; without one, the answer is no.
    """
    description = find(op)
    if description is None or len(types.inputs) != 2 or len(types.outputs) != 1:
        return False
    if types.inputs[0] is None or types.inputs[0] != types.inputs[1]:
        return False
    if not is_elementwise(trace(description, attrs, types)):
        return False
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 2.0, (2, 16))
    vector = TensorType(a.shape, "float64")
    small = Types((vector, vector), (vector,))
    (one,), (other,) = (reference_of(description, attrs, pair, small) for pair in ((a, b), (b, a)))
    return bool(np.array_equal(one, other))


def evaluate_stacked(
    description: Description,
    attrs: Mapping[str, Attr],
    inputs: Sequence[Array | None],
    types: Types,
    numbers: NumberSystem,
    output: int = 0,
) -> Array:
    """One output of many calls, which lie along an added first axis of every input.

    With no inputs there is one call. Sizes are not 0.
    """
    traced = trace(description, attrs, types)
    values = traced.environment(attrs, types)
    extents = {v: int(extent.evaluate(values)) for v, extent in traced.extents.items()}
    extents[_STACK] = next((len(array) for array in inputs if array is not None), 1)
    chosen = traced.outputs[output]
    stacked = Lambda((_STACK, *chosen.variables), chosen.body)
    return _Evaluator(stacked, attrs, inputs, values, extents, numbers, stacked=True).run()


def _numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    return np.dtype("float32" if dtype == "bfloat16" or dtype.startswith("float8") else dtype)


class _Evaluator:
    def __init__(
        self,
        output: Lambda,
        attrs: Mapping[str, Attr],
        inputs: Sequence[Array | None],
        values: Mapping[Symbol, int],
        extents: Mapping[Symbol, int],
        numbers: NumberSystem = FLOATS,
        stacked: bool = False,
    ) -> None:
        bound = [v for e in walk(output.body) if isinstance(e, Reduce) for v in e.variables]
        self.output, self.attrs, self.inputs, self.extents = output, attrs, inputs, extents
        self.numbers, self.stacked = numbers, stacked
        self.variables = list(dict.fromkeys([*output.variables, *bound]))
        self.values: dict[Symbol, int | Array] = dict(values)
        for axis, variable in enumerate(self.variables):
            self.values[variable] = np.arange(extents[variable]).reshape(
                [-1 if a == axis else 1 for a in range(len(self.variables))]
            )
        self.known: dict[Expr, Array] = {}

    def run(self) -> Array:
        array = np.asarray(self.evaluate(self.output.body))
        array = array.reshape((1,) * (len(self.variables) - array.ndim) + array.shape)
        rank = len(self.output.variables)
        array = array.reshape(array.shape[:rank])
        return np.broadcast_to(array, [self.extents[v] for v in self.output.variables])

    def evaluate(self, expr: Expr) -> Array:
        if expr not in self.known:
            self.known[expr] = self._evaluate(expr)
        return self.known[expr]

    def _evaluate(self, expr: Expr) -> Array:
        match expr:
            case Const(value):
                return np.asarray(value)
            case Scalar(name):
                return np.asarray(self._attribute(name))
            case IndexValue(index):
                return np.asarray(index.evaluate(self.values))
            case Call(name, args):
                function = self.numbers.functions.get(name) or FUNCTIONS[name]
                return np.asarray(function(*(self.evaluate(a) for a in args)))
            case Access():
                return self._access(expr)
            case Reduce(reducer, variables, _, body):
                return self._reduce(reducer, variables, self.evaluate(body))
            case OpaqueCall():
                return self._opaque(expr)
            case _:
                raise DescriptionError(f"{expr!r} is random: it has no reference value")

    def _attribute(self, name: str) -> float:
        head, *rest = name.split(".")
        value = self.attrs[head]
        for position in rest:
            value = value[int(position)]  # type: ignore[index]
        return value  # type: ignore[return-value]

    def _access(self, access: Access) -> Array:
        array = self.inputs[access.tensor]
        if array is None:
            raise DescriptionError(f"{access!r} reads an absent tensor")
        index = [
            np.asarray(i.evaluate(self.values) if isinstance(i, Poly) else self.evaluate(i))
            for i in access.index
            if i is not None
        ]
        if array.size == 0:  # the value read here is never selected
            return np.asarray(access.fill or 0)
        if self.stacked:
            index.insert(0, np.asarray(self.values[_STACK]))
        inside = np.asarray(True)
        for dim, i in enumerate(index):
            inside = inside & (i >= 0) & (i < array.shape[dim])
        read = array[tuple(np.clip(i, 0, array.shape[d] - 1) for d, i in enumerate(index))]
        if access.fill is None:
            return np.asarray(read)
        return np.asarray(np.where(inside, read, self.numbers.constant(access.fill)))

    def _reduce(self, reducer: str, variables: tuple[Symbol, ...], body: Array) -> Array:
        rank = len(self.variables)
        axes = tuple(self.variables.index(v) for v in variables)
        shape = list(body.shape) if body.ndim == rank else [1] * rank
        for axis, variable in zip(axes, variables, strict=True):
            shape[axis] = self.extents[variable]
        fold = self.numbers.folds.get(reducer) or REDUCERS[reducer].fold
        return fold(np.broadcast_to(body, shape), axis=axes, keepdims=True)

    def _opaque(self, expr: OpaqueCall) -> Array:
        if expr.function.numpy is None:
            raise DescriptionError(f"Opaque({expr.function.name!r}) has no NumPy function")
        batch = sorted(
            frozenset().union(*(free_indices(a) for a in expr.args)), key=self.variables.index
        )
        shape = [self.extents[v] for v in batch]
        pieces: list[Array] = []
        for position in np.ndindex(*shape):
            at = dict(zip(batch, position, strict=True))
            pieces.append(np.asarray(expr.function.numpy(*(self._slice(a, at) for a in expr.args))))
        stacked = np.stack(pieces).reshape((*shape, *pieces[0].shape))
        index = [np.asarray(self.values[v]) for v in batch]
        index += [np.asarray(i.evaluate(self.values)) for i in expr.index]
        return np.asarray(stacked[tuple(index)])

    def _slice(self, arg: Expr, at: Mapping[Symbol, int]) -> Array:
        values = {**self.values, **at}
        match arg:
            case Access(tensor, index):
                array = self.inputs[tensor]
                assert array is not None and not any(isinstance(i, Expr) for i in index)
                key = tuple(
                    int(i.evaluate(values)) if isinstance(i, Poly) else slice(None) for i in index
                )
                return array[key]
            case Scalar(name):
                return np.asarray(self._attribute(name))
            case IndexValue(index):
                return np.asarray(index.evaluate(values))
            case Const(value):
                return np.asarray(value)
            case _:
                raise DescriptionError(
                    f"an opaque function takes slices and attributes, not {arg!r}"
                )
