"""Descriptions made up at random: expressions of the language that nobody would write, each with a call.

A description is drawn as a tree of plain tuples first, and then run in the language each time that it is traced, so that
a part of a split traces it anew on its own sizes. Index expressions are affine, with quotients and remainders; values are
reads (padded or not, data-dependent or not), arithmetic, reductions, choices by value and by size.
"""

from dataclasses import dataclass, field
from itertools import count
from random import Random

import numpy as np

from graphwright.describe import Description, Types, make_description
from graphwright.describe.language.syntax import constant, equal, fixed, function, reducer, where
from graphwright.ir import TensorType

ARITHMETIC = ("mul", "mul", "add", "sub", "div")
FOLDS = ("sum", "sum", "sum", "sum", "max", "min", "prod", "any", "argmax")


@dataclass
class RandomCall:
    """A random description with the shapes, attributes and inputs of one call."""

    random: Random
    shapes: list[tuple[int, ...]] = field(init=False)
    num_reals: int = field(init=False)
    attrs: dict[str, int] = field(init=False)
    call_attrs: dict[str, object] = field(init=False)
    outputs: list[tuple[list[str], tuple]] = field(init=False)
    out_shapes: list[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        r = self.random
        sizes = [r.randint(1, 6) for _ in range(3)]
        self._names = (f"v{n}" for n in count())
        self.num_reals = r.randint(1, 3)
        num_inputs = self.num_reals + (r.random() < 0.35)
        self.shapes = [self._shape([*sizes, r.randint(1, 7)]) for _ in range(num_inputs)]
        self.attrs = {f"p{n}": r.randint(-2, 3) for n in range(r.randint(0, 2))}
        self.out_shapes = [
            self._shape([*sizes, r.randint(1, 9), 6, 8]) for _ in range(r.choice([1, 1, 1, 2, 3]))
        ]
        self.call_attrs = {**self.attrs, "sizes": tuple(self.out_shapes)}
        self.outputs = []
        for shape in self.out_shapes:
            variables = [next(self._names) for _ in shape]
            self.outputs.append((variables, self._value(variables, 3)))

    @property
    def types(self) -> Types:
        dtypes = ["float64"] * self.num_reals + ["int64"] * (len(self.shapes) - self.num_reals)
        return Types(
            tuple(map(TensorType, self.shapes, dtypes)),
            tuple(TensorType(shape, "float64") for shape in self.out_shapes),
        )

    def inputs(self) -> list[np.ndarray]:
        """Small whole numbers, none of them 0, and an index that lies inside of every tensor."""
        numbers = np.random.default_rng(self.random.randint(0, 1 << 30))
        reals = self.shapes[: self.num_reals]
        made = [numbers.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], size=s) for s in reals]
        smallest = min(n for shape in reals for n in shape)
        return made + [numbers.integers(0, smallest, size=s) for s in self.shapes[self.num_reals :]]

    # -- drawing ------------------------------------------------------------------------------------

    def _shape(self, sizes: list[int]) -> tuple[int, ...]:
        return tuple(self.random.choice(sizes) for _ in range(self.random.randint(1, 2)))

    def _size(self) -> tuple:
        tensor = self.random.randrange(len(self.shapes))
        return ("size", tensor, self.random.randrange(len(self.shapes[tensor])))

    def _number(self, depth: int = 1) -> tuple:
        r = self.random
        match r.randint(0, 9):
            case 0 | 1 | 2 | 3:
                return ("literal", r.choice([0, 1, 1, 2, 2, 3, -1]))
            case 4 | 5 if self.attrs:
                return ("attr", r.choice(list(self.attrs)))
            case 9 if depth:
                return (r.choice(["add", "sub", "mul"]), self._number(0), self._number(0))
            case 9:
                return ("fixed", self._number(1))
            case _:
                return self._size()

    def _index(self, variables: list[str], depth: int) -> tuple:
        r = self.random
        plain = ("variable", r.choice(variables))
        choice = r.randint(0, 19) if depth else 0
        if choice <= 7:
            return plain
        if choice <= 9:
            return (r.choice(["add", "sub"]), plain, self._number())
        if choice == 10:
            return ("sub", self._number(), plain)
        if choice <= 12:
            return ("add", plain, ("variable", r.choice(variables)))
        if choice <= 15:
            return ("add", ("mul", plain, self._number()), self._index(variables, depth - 1))
        if choice <= 17:
            divisor = r.choice([("literal", 2), ("literal", 3), self._size()])
            return (r.choice(["quotient", "remainder"]), self._index(variables, depth - 1), divisor)
        if choice == 18:
            return self._number()
        return ("sub", self._index(variables, depth - 1), self._index(variables, depth - 1))

    def _lookup(self, variables: list[str]) -> tuple:
        return ("read", len(self.shapes) - 1, [self._index(variables, 0) for _ in self.shapes[-1]], None)  # fmt: skip

    def _read(self, variables: list[str]) -> tuple:
        r = self.random
        tensor = r.randrange(self.num_reals)
        index = [
            self._lookup(variables)
            if len(self.shapes) > self.num_reals and r.random() < 0.2
            else self._index(variables, r.choice([0, 0, 1, 2]))
            for _ in self.shapes[tensor]
        ]
        return ("read", tensor, index, r.choice([None, None, None, 0, 0, 5]))

    def _value(self, variables: list[str], depth: int) -> tuple:
        r = self.random
        choice = r.randint(0, 28) if depth else 0
        if choice <= 5:
            return self._read(variables)
        if choice <= 12:
            return self._fold(variables, depth)
        if choice <= 16:
            return ("call", r.choice(ARITHMETIC), *(self._value(variables, depth - 1) for _ in "ab"))  # fmt: skip
        if choice <= 18:
            return ("call", "mul", self._value(variables, depth - 1), ("number", self._number()))
        if choice == 19:
            return ("call", r.choice(["neg", "abs", "cast"]), self._value(variables, depth - 1))
        if choice <= 21:
            return ("number", self._index(variables, 2))
        if choice <= 25:
            rest = r.choice([("number", ("literal", 0)), self._value(variables, depth - 1)])
            chosen = [self._value(variables, depth - 1), rest]
            r.shuffle(chosen)
            return ("call", "where", self._condition(variables, depth - 1), *chosen)
        if choice == 26 and len(self.shapes) > self.num_reals:
            return self._lookup(variables)
        values = [self._value(variables, depth - 1) for _ in "ab"]
        return ("if", r.choice(["eq", "gt"]), self._number(), self._number(), *values)

    def _fold(self, variables: list[str], depth: int) -> tuple:
        r = self.random
        bound = [next(self._names) for _ in range(r.choice([1, 1, 2]))]
        over = [r.choice([self._size(), self._size(), self._number()]) for _ in bound]
        body = self._value([*variables, *bound], depth - 1)
        return ("fold", r.choice(FOLDS), bound, over if r.random() < 0.8 else None, body)

    def _condition(self, variables: list[str], depth: int) -> tuple:
        r = self.random
        choice = r.randint(0, 4)
        if choice <= 1:
            return ("call", "le", *(("number", self._index(variables, 1)) for _ in "ab"))
        if choice <= 3 and len(self.shapes) > self.num_reals:
            return ("equal", ("variable", r.choice(variables)), self._lookup(variables))
        return ("call", "gt", self._value(variables, min(depth, 1)), ("number", ("literal", 0)))

    # -- running ------------------------------------------------------------------------------------

    def description(self) -> Description:
        """The tree as a function that the language can trace."""
        names = [f"x{n}" for n in range(len(self.shapes))]
        keywords = ", ".join(["*", *self.attrs]) if self.attrs else ""
        run = lambda tensors, attrs: [
            _named(variables, lambda *i, v=variables, b=body: Run(tensors, attrs, dict(zip(v, i, strict=True))).value(b))
            for variables, body in self.outputs
        ]  # fmt: skip
        text = f"lambda {', '.join([*names, *filter(None, [keywords])])}: run([{', '.join(names)}], dict({', '.join(f'{a}={a}' for a in self.attrs)}))"
        told = lambda outs: tuple(out.shape for out in outs)  # so that a kernel knows its part
        return make_description("test.random", eval(text, {"run": run}), sizes=told)


def _named(names: list[str], function):
    """`function` with named arguments, as the language wants its lambdas."""
    return eval(f"lambda {', '.join(names)}: function({', '.join(names)})", {"function": function})


@dataclass
class Run:
    """Runs a tree in the language, under given tensors, attributes and variables."""

    tensors: list
    attrs: dict
    variables: dict

    def integer(self, tree: tuple):
        match tree:
            case ("literal", value):
                return value
            case ("variable", name):
                return self.variables[name]
            case ("attr", name):
                return self.attrs[name]
            case ("size", tensor, dim):
                return self.tensors[tensor].shape[dim]
            case ("fixed", inner):
                return fixed(self.integer(inner))
            case (name, a, b):
                left, right = self.integer(a), self.integer(b)
                match name:
                    case "add":
                        return left + right
                    case "sub":
                        return left - right
                    case "mul":
                        return left * right
                    case "quotient":
                        return left // right
                    case "remainder":
                        return left % right
        raise AssertionError(tree)

    def value(self, tree: tuple):
        match tree:
            case ("read", tensor, index, fill):
                x = self.tensors[tensor] if fill is None else self.tensors[tensor].pad(fill)
                return x[tuple(self.value(i) if i[0] == "read" else self.integer(i) for i in index)]
            case ("number", inner):
                found = self.integer(inner)
                return constant(found) if isinstance(found, int) else found
            case ("call", "where", condition, a, b):
                return where(self.value(condition), self.value(a), self.value(b))
            case ("call", name, *args):
                return function(name)(*map(self.value, args))
            case ("equal", a, b):
                return equal(self.integer(a), self.value(b))
            case ("if", name, a, b, chosen, other):
                left, right = self.integer(a), self.integer(b)
                return self.value(
                    chosen if (left == right if name == "eq" else left > right) else other
                )
            case ("fold", name, bound, over, body):
                inner = lambda *i: Run(
                    self.tensors, self.attrs, {**self.variables, **dict(zip(bound, i, strict=True))}
                ).value(body)
                extents = None if over is None else [self.integer(n) for n in over]
                return reducer(name)(_named(bound, inner), over=extents)
        raise AssertionError(tree)
