"""Short ways to try a description out."""

from collections.abc import Callable

from graphwright.describe import Split, Types, make_description, splits_of, trace
from graphwright.describe.facts import Properties, _properties
from graphwright.describe.splitting.splits import analyse
from graphwright.ir import TensorType

Shape = tuple[int, ...]


def types(inputs: list[Shape | None], outputs: list[Shape], dtype: str = "float64") -> Types:
    return Types(
        tuple(None if s is None else TensorType(s, dtype) for s in inputs),
        tuple(TensorType(s, dtype) for s in outputs),
    )


def find_splits(
    function: Callable, inputs: list[Shape | None], outputs: list[Shape], attrs=None, **restated
) -> dict[str, Split]:
    description = make_description(f"test.{function.__name__}", function, **restated)
    return {s.index: s for s in splits_of(description, attrs or {}, types(inputs, outputs))}


def find_refusals(
    function: Callable, inputs: list[Shape | None], outputs: list[Shape], attrs=None, **restated
) -> dict[str, str]:
    description = make_description(f"test.{function.__name__}", function, **restated)
    traced = trace(description, attrs or {}, types(inputs, outputs))
    return {r.index: r.reason for r in analyse(traced).refusals}


def find_properties(
    function: Callable, inputs: list[Shape], outputs: list[Shape], attrs=None
) -> Properties:
    description = make_description(f"test.{function.__name__}", function)
    return _properties(trace(description, attrs or {}, types(inputs, outputs)))


def ranges(split: Split, arg: int, dim: int, num_parts: int) -> list[tuple[int, int]]:
    """What each part reads of one dim of an input."""
    pieces = [part.inputs[arg][dim] for part in split.parts(num_parts)]
    return [(piece.start, piece.stop) for piece in pieces]
