"""Random calls of every described operator, for the property that its description is true.

A case is a function of Hypothesis' ``draw`` that returns the attributes it cares about and the inputs; attributes it
leaves out take the schema's defaults. Inputs are float64, so that equality is a matter of 1e-9.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

import torch
from hypothesis import strategies as st

from graphwright.aten.invoke import overload_of
from graphwright.aten.schema import parameters, to_attr

Draw = Callable
Call = tuple[dict[str, object], list[torch.Tensor | None]]

CASES: dict[str, Callable[[Draw], Call]] = {}


def case(*ops: str) -> Callable[[Callable[[Draw], Call]], Callable[[Draw], Call]]:
    """Register a way to draw a call of `ops`."""

    def register(function: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
        for op in ops:
            CASES[op] = function
        return function

    return register


def load_cases() -> dict[str, Callable[[Draw], Call]]:
    """All cases, by operator."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return CASES


def complete(op: str, attrs: dict[str, object]) -> dict[str, object]:
    """`attrs` with the schema's defaults for those that are missing."""
    full = {
        p.name: to_attr(p.default)
        for p in parameters(overload_of(op))
        if p.kind in ("plain", "dtype")
    }
    return {**full, **attrs}


# -- drawing -------------------------------------------------------------------------------------


def size(draw: Draw, low: int = 1, high: int = 6) -> int:
    return draw(st.integers(low, high))


def shape(
    draw: Draw, min_rank: int = 0, max_rank: int = 3, low: int = 1, high: int = 6
) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(low, high), min_size=min_rank, max_size=max_rank)))


def real(draw: Draw, *dims: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """A float64 tensor with values between `low` and `high`, no two alike."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return torch.rand(dims, generator=generator, dtype=torch.float64) * (high - low) + low


def integer(draw: Draw, *dims: int, low: int = 0, high: int = 5) -> torch.Tensor:
    """An int64 tensor with values in [low, high)."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return torch.randint(low, high, dims, generator=generator)


def boolean(draw: Draw, *dims: int) -> torch.Tensor:
    return integer(draw, *dims, high=2).bool()


def table(draw: Draw, *dims: int) -> torch.Tensor:
    """Values of any kind, to be moved about: reals with a NaN here and there, whole numbers, truth values."""
    match draw(st.sampled_from(["real", "real", "nan", "whole", "truth"])):
        case "real":
            return real(draw, *dims)
        case "nan":
            return torch.where(boolean(draw, *dims), real(draw, *dims), torch.nan)
        case "whole":
            return integer(draw, *dims, low=-5)
        case _:
            return boolean(draw, *dims)


def like(draw: Draw, x: torch.Tensor, *dims: int) -> torch.Tensor:
    """Values of the same kind as x."""
    if x.dtype == torch.bool:
        return boolean(draw, *dims)
    return real(draw, *dims) if x.is_floating_point() else integer(draw, *dims, low=-5)


def broadcastable(draw: Draw, dims: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `dims`: some leading dims dropped, some others 1."""
    kept = dims[draw(st.integers(0, len(dims))) :]
    return tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in kept)


def some_dim(draw: Draw, rank: int) -> int:
    """A dim; a scalar has a dim 0 for this purpose."""
    return draw(st.integers(0, max(rank, 1) - 1))


def some_outputs(draw: Draw) -> tuple[bool, bool, bool]:
    """Which of three gradients are asked for: at least one."""
    return draw(st.tuples(*[st.booleans()] * 3).filter(any))


def last_or_some_dim(draw: Draw, rank: int) -> int:
    """A dim, or -1."""
    return draw(st.integers(-1, max(rank, 1) - 1))
