"""A description as it was written, so that it can be read alone.

A function that a helper made an operator of (``elementwise("aten.gelu", gelu)``) does not say so in
its own text: the statement that names the operator is added. Of a loop over many operators, only
the line for this one is kept:

    for _name, _ops in {
        "sum": ["aten.sum", "aten.sum.dim_IntList"],
        ...
    }.items():
        _describe_folds(reducer(_name), *_ops)
"""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent, wrap

from graphwright.describe import Description


def source_of(description: Description) -> str:
    """A description's text, with the statement that registered it where that stands elsewhere."""
    text = dedent(description.source).rstrip()
    if any(f'"{name}"' in text for name in _names(description.op)):
        return text
    registered = _registering(description)
    return f"{text}\n\n{registered}" if registered else text


def _names(op: str) -> set[str]:
    """What a statement may call `op`: itself, or the name that its overloads share."""
    return {op, op.rpartition(".")[0]}


def _registering(description: Description) -> str:
    module = inspect.getmodule(inspect.unwrap(description.function))
    try:
        lines = inspect.getsource(module).splitlines() if module else []
    except (OSError, TypeError):
        return ""
    statements = ast.parse("\n".join(lines)).body
    namespace, *parts = description.op.split(".")
    for name in (description.op, ".".join([namespace, *parts[:-1]]), parts[0] if parts else ""):
        for statement in statements:
            if isinstance(statement, ast.Expr | ast.For):
                at = {
                    n.lineno
                    for n in ast.walk(statement)
                    if isinstance(n, ast.Constant) and n.value == name
                }
                if at:
                    return _shortened(statement, lines, at)
    return ""


def _shortened(statement: ast.Expr | ast.For, lines: list[str], at: set[int]) -> str:
    """The statement's lines; of a loop's values, those `at` alone."""
    every = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    if isinstance(statement, ast.Expr):
        return "\n".join(lines[n - 1] for n in every)
    body = range(statement.body[0].lineno - 1, every.stop)
    kept = {every.start, *at, *body}
    shown: list[str] = []
    for n in every:
        if n in kept:
            shown.append(lines[n - 1])
        elif shown[-1].strip() != "...":
            shown.append("    ...")
    return "\n".join(shown)


def fit(text: str, width: int) -> str:
    """Code in at most `width` columns; what does not fit goes on below, indented."""
    fitted: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if len(line) <= width:
            fitted.append(line)
            continue
        fitted += wrap(
            line.strip(),
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 8),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(fitted)
