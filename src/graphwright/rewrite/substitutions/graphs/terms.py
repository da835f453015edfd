"""Terms over the operators of substitutions, and their text form.

    conv(1, same, none, x, ewadd(y, z))

is a `Term`: an operator, its parameters (stride, padding, activation) and its arguments. A tensor
that a graph is given is an `Input`. Terms are values, so a graph that uses a tensor twice has one
equal subterm in two places: a graph is the tuple of its outputs, and its size the number of its
distinct operators. `split0` and `split1` of one tensor are one operator with two outputs.

In a property a parameter may be a variable (``conv(s, p, none, x, y)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphwright.rewrite.substitutions.errors import InvalidRule

Param = int | str


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that is given."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Term:
    """An operator applied to parameters and arguments."""

    op: str
    params: tuple[Param, ...] = ()
    args: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, (*self.params, *self.args)))})"

    @property
    def label(self) -> str:
        """The operator and its parameters, without its arguments."""
        return " ".join(map(str, (self.op, *self.params)))


Expression = Input | Term

PARAMETERS: dict[str, tuple[str, ...]] = {
    "ewadd": (),
    "ewmul": (),
    "smul": (),
    "transpose": (),
    "matmul": (),
    "conv": ("stride", "padding", "activation"),
    "enlarge": ("kernel",),
    "relu": (),
    "pool_avg": ("kernel", "stride", "padding"),
    "pool_max": ("kernel", "stride", "padding"),
    "concat": ("axis",),
    "split0": ("axis",),
    "split1": ("axis",),
    "C_pool": ("kernel",),
    "I_conv": ("kernel",),
    "I_matmul": (),
    "I_ewmul": (),
}
"""The operators of TASO's table 2.1 and the parameters of each."""

CONSTANTS = ("C_pool", "I_conv", "I_matmul", "I_ewmul")


def parse(text: str) -> Expression:
    """Read a term from its text form."""
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise InvalidRule(
            f"{text!r} is not a term: {error}; write it as ewadd(x, smul(y, w))"
        ) from None


def parse_equation(text: str) -> tuple[Expression, Expression]:
    """Read two terms with ``=`` between them."""
    left, equals, right = text.partition("=")
    if not equals:
        raise InvalidRule(f"{text!r} is not an equation; write it as ewadd(x, y) = ewadd(y, x)")
    return parse(left), parse(right)


def _read(node: ast.expr) -> Expression:
    match node:
        case ast.Name(id=name):
            return Input(name)
        case ast.Call(func=ast.Name(id=op), args=args, keywords=[]):
            if op not in PARAMETERS:
                raise ValueError(f"there is no operator {op}; there are {', '.join(PARAMETERS)}")
            count = len(PARAMETERS[op])
            if len(args) < count:
                raise ValueError(f"{op} has the parameters {', '.join(PARAMETERS[op])}")
            return Term(op, tuple(map(_read_param, args[:count])), tuple(map(_read, args[count:])))
        case _:
            raise ValueError(f"cannot read {ast.unparse(node)}")


def _read_param(node: ast.expr) -> Param:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case _:
            raise ValueError(f"{ast.unparse(node)} is no parameter")


@dataclass(frozen=True, slots=True)
class Guard:
    """A precondition on shapes.

    `ungrouped(x, w)`: a convolution of x by w has one group. `alike(x, v, y, w)`: convolutions of x
    by v and of y by w have equally many outputs in each group.
    """

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


GUARDS = {"ungrouped": 2, "alike": 4}
"""The guards, and how many tensors each is about."""


def parse_guard(text: str) -> Guard:
    """Read a guard from its text form."""
    name, _, rest = text.partition("(")
    terms = parse(f"ewadd({rest}")  # terms in brackets
    if not isinstance(terms, Term) or GUARDS.get(name) != len(terms.args):
        raise InvalidRule(f"{text!r} is no guard; write it as ungrouped(x, w)")
    return Guard(name, terms.args)


def subterms(*outputs: Expression) -> Iterator[Expression]:
    """Every distinct subterm, arguments before what uses them."""
    seen: set[Expression] = set()

    def visit(expression: Expression) -> Iterator[Expression]:
        if expression in seen:
            return
        if isinstance(expression, Term):
            for arg in expression.args:
                yield from visit(arg)
        seen.add(expression)
        yield expression

    for output in outputs:
        yield from visit(output)


def inputs_of(*outputs: Expression) -> tuple[str, ...]:
    """The names of the inputs, in the order of their first use."""
    return tuple(e.name for e in subterms(*outputs) if isinstance(e, Input))


def size_of(*outputs: Expression) -> int:
    """The number of operators of a graph; constants are none, and both splits are one."""
    return len({operator_of(t) for t in subterms(*outputs) if is_operator(t)})


def is_operator(expression: Expression) -> bool:
    """Whether this is computed: neither an input nor a constant."""
    return isinstance(expression, Term) and expression.op not in CONSTANTS


def operator_of(expression: Expression) -> Expression:
    """The same for both outputs of a split."""
    if isinstance(expression, Term) and expression.op == "split1":
        return Term("split0", expression.params, expression.args)
    return expression


def substitute(
    expression: Expression,
    values: Mapping[Expression, Expression],
    params: Mapping[Param, Param] | None = None,
) -> Expression:
    """Replace subterms, the outermost first, and parameters that are variables."""
    known: dict[Expression, Expression] = {}

    def change(e: Expression) -> Expression:
        if e in values:
            return values[e]
        if isinstance(e, Input):
            return e
        if e not in known:
            given = tuple(params.get(p, p) for p in e.params) if params else e.params
            known[e] = Term(e.op, given, tuple(map(change, e.args)))
        return known[e]

    return change(expression)


def rename_inputs(outputs: Sequence[Expression]) -> tuple[Expression, ...]:
    """The same graph with inputs x0, x1, ... in the order of their first use."""
    names: Mapping[Expression, Expression] = {
        Input(name): Input(f"x{n}") for n, name in enumerate(inputs_of(*outputs))
    }
    return tuple(substitute(output, names) for output in outputs)
