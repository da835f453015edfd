"""What graphs are made of: inputs, constants, and operators with parameters, in two families.

No operator takes an image and a matrix, so a connected graph has one kind of them, and the two
families together have every graph. Inputs of one kind have one shape; the values are residues
drawn from a seed. Weights of convolutions are a kind of their own, for `WEIGHT_OPERATORS`: what is
computed from weights alone is computed once, ahead of inference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from graphwright.rewrite.substitutions.graphs import (
    PARAMETERS,
    Expression,
    Input,
    Param,
    Shape,
    Term,
)

DATA, WEIGHT, SCALAR = "data", "weight", "scalar"

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "ewadd": (DATA, DATA),
    "ewmul": (DATA, DATA),
    "smul": (DATA, SCALAR),
    "transpose": (DATA,),
    "matmul": (DATA, DATA),
    "relu": (DATA,),
    "conv": (DATA, WEIGHT),
    "pool_avg": (DATA,),
    "pool_max": (DATA,),
    "enlarge": (WEIGHT,),
    "concat": (DATA, DATA),
    "split0": (DATA,),
    "split1": (DATA,),
}
"""The kinds of an operator's arguments; its result is of the first one's kind."""

WEIGHT_OPERATORS = ("ewadd", "smul", "concat", "split0", "split1")
"""What works on weights as it does on data."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An input or a constant, with its kind and shape."""

    expression: Expression
    kind: str
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The leaves and operators that graphs are enumerated from."""

    name: str
    leaves: tuple[Leaf, ...]
    operators: tuple[str, ...]
    values: dict[str, tuple[Param, ...]]

    def calls(self) -> Iterator[tuple[str, tuple[Param, ...], tuple[str, ...]]]:
        """Every operator with every choice of parameters, and the kinds of its arguments."""
        for op in self.operators:
            kinds = [ARGUMENTS[op]]
            if op in WEIGHT_OPERATORS and any(leaf.kind == WEIGHT for leaf in self.leaves):
                kinds.append(tuple(WEIGHT if k == DATA else k for k in ARGUMENTS[op]))
            for params in product(*(self.values[kind] for kind in PARAMETERS[op])):
                for each in kinds:
                    yield op, params, each


def _inputs(names: str, kind: str, shape: Shape) -> tuple[Leaf, ...]:
    return tuple(Leaf(Input(name), kind, shape) for name in names.split())


MATRICES = Family(
    name="matrices",
    leaves=(
        *_inputs("x0 x1 x2 x3", DATA, (3, 3)),
        Leaf(Term("I_matmul"), DATA, (3, 3)),
        Leaf(Term("I_ewmul"), DATA, (3, 3)),
        *_inputs("s0 s1", SCALAR, ()),
    ),
    operators=(
        "ewadd", "ewmul", "smul", "transpose", "matmul", "relu", "concat", "split0", "split1",
    ),
    values={"axis": (-2, -1)},
)  # fmt: skip

IMAGES = Family(
    name="images",
    leaves=(
        *_inputs("x0 x1 x2 x3", DATA, (1, 2, 9, 9)),
        *_inputs("w0 w1", WEIGHT, (2, 2, 3, 3)),
        *_inputs("v0", WEIGHT, (2, 2, 1, 1)),
        *_inputs("g0", WEIGHT, (2, 1, 3, 3)),
        Leaf(Term("C_pool", (3,)), WEIGHT, (2, 1, 3, 3)),
        Leaf(Term("I_conv", (3,)), WEIGHT, (2, 2, 3, 3)),
        *_inputs("s0", SCALAR, ()),
    ),
    operators=(
        "ewadd", "ewmul", "smul", "relu", "pool_avg", "pool_max", "enlarge", "concat", "split0",
        "split1", "conv",
    ),
    values={
        "stride": (1, 2), "padding": ("same", "valid"), "activation": ("none", "relu"),
        "kernel": (3,), "axis": (0, 1),
    },
)  # fmt: skip

FAMILIES = (MATRICES, IMAGES)
