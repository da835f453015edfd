"""Random array programs of Spartan's operators, after section 3.2 of the thesis.

    map     aten.add, aten.mul of two arrays of one shape, aten.exp
    fold    aten.sum along an axis
    scan    aten.cumsum along an axis
    dot     aten.mm, which is a join_update
    view    a transpose

Each operator reads arrays that are there, or new ones. Dims are drawn from a set of sizes: 128K to
512K, as in the thesis, unless others are given. Everything that no operator reads is a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from graphwright.ir import Graph, GraphBuilder, TensorType

SIZES = (1 << 17, 1 << 18, 1 << 19)
KINDS = ("map", "map", "map", "unary", "fold", "scan", "dot", "view", "view")
_NEW = 0.3
"""How often an operator reads a new array where there is one of the shape."""


def random_program(rng: Random, num_operators: int, sizes: Sequence[int] = SIZES) -> Graph:
    """A program with so many operators."""
    return _Drawing(rng, sizes).draw(num_operators)


class _Drawing:
    def __init__(self, rng: Random, sizes: Sequence[int]) -> None:
        self.rng, self.sizes = rng, sizes
        self.build = GraphBuilder()
        self.arrays: list[str] = []
        self.read: set[str] = set()
        self.num_inputs = 0

    def draw(self, num_operators: int) -> Graph:
        for _ in range(num_operators):
            self._operator(self.rng.choice(KINDS))
        results = [name for name in self.arrays if name not in self.read]
        return self.build.build(name for name in results if not name.startswith("input"))

    def _operator(self, kind: str) -> None:
        rng = self.rng
        if kind == "map":
            a = self._array()
            b = self._array(self._shape(a))
            op, attrs = rng.choice((("aten.add.Tensor", {"alpha": 1}), ("aten.mul.Tensor", {})))
            self._add(op, [a, b], attrs, self._shape(a))
        elif kind == "unary":
            a = self._array()
            self._add("aten.exp", [a], {}, self._shape(a))
        elif kind == "fold":
            a = self._array(rank=2)
            axis = rng.randrange(2)
            attrs = {"dim": (axis,), "keepdim": False, "dtype": None}
            self._add("aten.sum.dim_IntList", [a], attrs, (self._shape(a)[1 - axis],))
        elif kind == "scan":
            a = self._array(rank=2)
            attrs = {"dim": rng.randrange(2), "dtype": None}
            self._add("aten.cumsum", [a], attrs, self._shape(a))
        elif kind == "dot":
            a = self._array(rank=2)
            inner = self._shape(a)[1]
            fitting = [n for n in self.arrays if len(s := self._shape(n)) == 2 and s[0] == inner]
            b = (
                rng.choice(fitting)
                if fitting and rng.random() > _NEW
                else self._input((inner, rng.choice(self.sizes)))
            )
            self._add("aten.mm", [a, b], {}, (self._shape(a)[0], self._shape(b)[1]))
        else:
            a = self._array(rank=2)
            self._add("aten.permute", [a], {"dims": (1, 0)}, self._shape(a)[::-1])

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.build.type(name).shape

    def _array(self, shape: tuple[int, ...] | None = None, rank: int | None = None) -> str:
        """An array that is there, or a new one."""
        fitting = [
            name
            for name in self.arrays
            if (shape is None or self._shape(name) == shape)
            and (rank is None or len(self._shape(name)) == rank)
        ]
        if fitting and self.rng.random() > _NEW:
            return self.rng.choice(fitting)
        return self._input(shape or tuple(self.rng.choice(self.sizes) for _ in range(2)))

    def _input(self, shape: tuple[int, ...]) -> str:
        name = self.build.add_input(f"input{self.num_inputs}", TensorType(shape, "float32"))
        self.num_inputs += 1
        self.arrays.append(name)
        return name

    def _add(
        self, op: str, inputs: list[str], attrs: dict[str, object], shape: tuple[int, ...]
    ) -> None:
        (name,) = self.build.add(op, inputs, attrs, TensorType(shape, "float32"))
        self.arrays.append(name)
        self.read.update(inputs)
