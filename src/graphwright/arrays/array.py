"""The array that users see: a value that is computed when it is asked for.

Operators and methods are given to `Array` by `methods`, from the functions of the namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.evaluate import evaluate, to_numpy
from graphwright.arrays.expression import VIEWS, Expression, Output, call, dtype_name, source
from graphwright.arrays.operators import run_kernel
from graphwright.ir import Attr, Attrs, TensorType

Scalar = bool | int | float | complex


class Step(NamedTuple):
    """A view of an array: the operator that makes it."""

    op: str
    attrs: Attrs
    shape: tuple[int, ...]


class Family:
    """Arrays that share memory in NumPy: views, of views, of one array.

    `root` is the value of that one, and each member is what some steps make of it. Whoever is
    assigned to gives all of them other values (`namespace.indexing`).
    """

    __slots__ = ("_members", "root")

    def __init__(self, root: Output) -> None:
        self.root = root
        self._members: list[tuple[ref[Array], tuple[Step, ...]]] = []

    def add(self, array: Array, steps: tuple[Step, ...]) -> None:
        self._members = [member for member in self._members if member[0]() is not None]
        self._members.append((ref(array), steps))
        array._family = self

    def members(self) -> list[tuple[Array, tuple[Step, ...]]]:
        """Those that are alive, and how each is made."""
        alive = ((known(), steps) for known, steps in self._members)
        return [(array, steps) for array, steps in alive if array is not None]

    def steps_to(self, array: Array) -> tuple[Step, ...]:
        """How a member is made."""
        return next(steps for member, steps in self.members() if member is array)


class Array:
    """An array of numbers, lazy; it may be spread over many machines.

    It follows the Python array API standard, and NumPy where that says more. A value is computed
    when it is printed, converted, iterated over or decided on, or when `compute()` asks for it.

    Values never change. `x[key] = value` gives this array another one, and with it those that share
    its memory in NumPy.
    """

    __slots__ = ("__weakref__", "_family", "_output")
    _output: Output
    _family: Family | None
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expression: Expression, number: int = 0) -> None:
        expression.show(number)
        self._output = Output(expression, number)
        self._family = None

    def __del__(self) -> None:
        output: Output | None = getattr(self, "_output", None)
        if output is not None:
            output.expression.hide(output.number)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._output.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._output.type.dtype)

    @property
    def ndim(self) -> int:
        return self._output.type.rank

    @property
    def size(self) -> int:
        return self._output.type.numel

    @property
    def nbytes(self) -> int:
        return self._output.type.nbytes

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def device(self) -> str:
        """All arrays have one device: the workers together."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Array:
        """The array itself, on the one device that there is."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"no device {device!r} with stream {stream!r}; arrays are on 'cpu'")
        return self

    # -- its value ---------------------------------------------------------------------------------

    def compute(self) -> NDArray[Any]:
        """The value, as a NumPy array that cannot be written to."""
        return to_numpy(self._output)

    def persist(self) -> Array:
        """Compute the array and leave it where it is."""
        evaluate([self._output])
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        value = self.compute()
        if copy is False and dtype is not None and np.dtype(dtype) != value.dtype:
            raise ValueError(f"{value.dtype} cannot become {np.dtype(dtype)} without a copy")
        if copy or dtype is not None:
            return np.array(value, dtype=dtype, copy=True if copy else None)
        return value

    def __dlpack__(self, **options: Any) -> Any:
        return np.array(self.compute()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def item(self, *index: int) -> Scalar:
        """The element of an array of one, or at an index, as a Python number."""
        made: Scalar = self.compute().item(*index)
        return made

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.compute().tolist()

    def __bool__(self) -> bool:
        return bool(self.compute())

    def __int__(self) -> int:
        return int(self.compute())

    def __float__(self) -> float:
        return float(self.compute())

    def __complex__(self) -> complex:
        return complex(self.compute())

    def __index__(self) -> int:
        return self.compute().__index__()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without dims")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("iteration over an array without dims")
        return (self[i] for i in range(self.shape[0]))  # type: ignore[index]

    def __contains__(self, value: object) -> bool:
        return bool((self.compute() == value).any())

    def show(self, made: Output) -> None:
        """Have another value from now on."""
        old, self._output = self._output, made
        made.expression.show(made.number)
        old.expression.hide(old.number)

    def __repr__(self) -> str:
        text = np.array2string(self.compute(), separator=", ", prefix="Array(")
        return f"Array({text}, dtype={self.dtype})"

    def __str__(self) -> str:
        return str(self.compute())

    def __format__(self, how: str) -> str:
        return format(self.compute()[()] if not self.ndim else self.compute(), how)


def make(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Attr],
    shape: Sequence[int],
    dtype: Any,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Array:
    """The array that an operator of one output makes."""
    return make_all(op, inputs, attrs, [(shape, dtype)], functions)[0]


def make_all(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Attr],
    types: Sequence[tuple[Sequence[int], Any]],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> tuple[Array, ...]:
    """The arrays that an operator makes."""
    made = [TensorType(tuple(map(int, s)), dtype_name(np.dtype(d))) for s, d in types]
    if not any(type.numel for type in made):  # nothing to compute, nor to tile
        return tuple(wrap(np.empty(type.shape, type.dtype)) for type in made)
    given = [None if x is None else x._output for x in inputs]
    expression = call(op, given, attrs, made, functions)
    arrays = tuple(Array(expression, number) for number in range(len(types)))
    if op in (*VIEWS, "aten.flip") and arrays[0].ndim:  # an element is a number in NumPy
        assert inputs[0] is not None
        _share(inputs[0], arrays[0], Step(op, expression.attrs, arrays[0].shape))
    return arrays


def _share(base: Array, view: Array, step: Step) -> None:
    """A view belongs to the family of its base; a reshape that NumPy has to copy for is no view."""
    if base._family is None:
        Family(base._output).add(base, ())
    family = base._family
    assert family is not None
    steps = family.steps_to(base)
    if step.op == "aten.reshape" and any(before.op != "aten.reshape" for before in steps):
        block = np.empty(family.root.type.shape, np.bool_)  # never touched
        try:
            for before in steps:
                (block,) = run_kernel(before.op, [block], before.attrs, {})
            block.reshape(step.shape, copy=False)
        except ValueError:
            return
    family.add(view, (*steps, step))


def duplicate(x: Array) -> Array:
    """An array with the same value, which can be changed by itself."""
    return Array(*x._output)


def wrap(value: Any) -> Array:
    """The array of a NumPy array, which must not be changed any more."""
    block = np.asarray(value)
    if block.flags.writeable:
        block = block.view()
        block.flags.writeable = False
    return Array(source(block))


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """An array of what is given: numbers, nested lists, a NumPy array, anything with a buffer."""
    if isinstance(obj, Array):
        if dtype is not None and np.dtype(dtype) != obj.dtype:
            if copy is False:
                raise ValueError(f"{obj.dtype} cannot become {np.dtype(dtype)} without a copy")
            return cast(obj, dtype)
        return duplicate(obj) if copy else obj
    if isinstance(obj, list | tuple) and any(isinstance(x, Array) for x in _leaves(obj)):
        obj = _computed(obj)
    if copy is None and not isinstance(obj, list | tuple | Scalar | np.generic):
        copy = True  # whoever gave it may change it
    given = np.asarray(obj, dtype=dtype, copy=copy)
    dtype_name(given.dtype)
    return wrap(given)


def cast(x: Array, dtype: Any) -> Array:
    """The same elements in another dtype."""
    wanted = np.dtype(dtype)
    if wanted == x.dtype:
        return x
    return make("aten._to_copy", [x], {"dtype": dtype_name(wanted)}, x.shape, wanted)


def _leaves(nested: Any) -> Iterator[Any]:
    for item in nested:
        if isinstance(item, list | tuple):
            yield from _leaves(item)
        else:
            yield item


def _computed(nested: Any) -> Any:
    if isinstance(nested, list | tuple):
        return [_computed(item) for item in nested]
    return nested.compute() if isinstance(nested, Array) else nested
