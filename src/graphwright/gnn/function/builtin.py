"""Built-in functions as values: an operator, the ends of its operands, and field names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product

ENDS = ("u", "v", "e")
OPERATORS = ("add", "sub", "mul", "div", "dot")


class TargetCode:
    """DGL's numbers of the ends."""

    SRC = 0
    DST = 1
    EDGE = 2


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """Base of all built-ins."""


@dataclass(frozen=True, slots=True)
class MessageFunction(BuiltinFunction):
    """Base of the built-ins that make messages or edge features."""


@dataclass(frozen=True, slots=True)
class CopyMessageFunction(MessageFunction):
    """The feature of one end."""

    end: str
    in_field: str
    out_field: str

    @property
    def name(self) -> str:
        return f"copy_{self.end}"


@dataclass(frozen=True, slots=True)
class BinaryMessageFunction(MessageFunction):
    """An operator on the features of two ends."""

    op: str
    lhs_end: str
    rhs_end: str
    lhs_field: str
    rhs_field: str
    out_field: str

    @property
    def name(self) -> str:
        return f"{self.lhs_end}_{self.op}_{self.rhs_end}"


@dataclass(frozen=True, slots=True)
class ReduceFunction(BuiltinFunction):
    """A reduction of messages to a node feature."""

    op: str
    msg_field: str
    out_field: str

    @property
    def name(self) -> str:
        return self.op


def binary_names() -> list[str]:
    """u_add_v, v_add_u, ...: every operator with every two different ends, in either order."""
    return [f"{a}_{op}_{b}" for op, (a, b) in product(OPERATORS, permutations(ENDS, 2))]


def make_binary(name: str) -> Callable[[str, str, str], BinaryMessageFunction]:
    """The function `name(lhs_field, rhs_field, out)`."""
    lhs, op, rhs = name.split("_")

    def function(lhs_field: str, rhs_field: str, out: str) -> BinaryMessageFunction:
        return BinaryMessageFunction(op, lhs, rhs, lhs_field, rhs_field, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The message {lhs} {op} {rhs}, of two fields, named `out`."
    return function


def copy_u(u: str, out: str) -> CopyMessageFunction:
    """The message is a feature of the source."""
    return CopyMessageFunction("u", u, out)


def copy_v(v: str, out: str) -> CopyMessageFunction:
    """The message is a feature of the destination."""
    return CopyMessageFunction("v", v, out)


def copy_e(e: str, out: str) -> CopyMessageFunction:
    """The message is a feature of the edge."""
    return CopyMessageFunction("e", e, out)


def copy_src(src: str, out: str) -> CopyMessageFunction:
    """`copy_u`, by its old name."""
    return copy_u(src, out)


def copy_edge(edge: str, out: str) -> CopyMessageFunction:
    """`copy_e`, by its old name."""
    return copy_e(edge, out)


def sum(msg: str, out: str) -> ReduceFunction:
    """The sum of a node's messages."""
    return ReduceFunction("sum", msg, out)


def mean(msg: str, out: str) -> ReduceFunction:
    """The mean of a node's messages."""
    return ReduceFunction("mean", msg, out)


def max(msg: str, out: str) -> ReduceFunction:
    """The largest of a node's messages, element by element."""
    return ReduceFunction("max", msg, out)


def min(msg: str, out: str) -> ReduceFunction:
    """The least of a node's messages, element by element."""
    return ReduceFunction("min", msg, out)


def prod(msg: str, out: str) -> ReduceFunction:
    """The product of a node's messages, element by element; messages are stored."""
    return ReduceFunction("prod", msg, out)
