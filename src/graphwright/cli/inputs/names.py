"""Help that names the algorithms without loading the planner, which takes longer than everything
else that `--help` needs: the decorators that register them are read, not run.

    @algorithm("tofu", "system", whose="Tofu")      ->  {"system": {"tofu": "Tofu"}}

An option's help has a placeholder, such as `{algorithms}`, and its command has `cls=NamesInHelp`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from typer.core import TyperCommand, TyperOption


class NamesInHelp(TyperCommand):
    """A command whose options' help has placeholders for names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        names = known_names()
        for option in self.params:
            if isinstance(option, TyperOption) and option.help:
                option.help = option.help.format_map(names)
        super().format_help(ctx, formatter)


def known_names() -> dict[str, str]:
    """What placeholders stand for."""
    kinds = _registered()
    searches = ", ".join(f"`{name}` ({whose})" for name, whose in kinds["search"].items())
    return {
        "algorithms": f"{searches}; or what another system would do: {_listed(kinds['system'])}",
        "recipes": _listed(kinds["recipe"]),
        "systems": _listed(kinds["system"]),
    }


def _registered() -> dict[str, dict[str, str]]:
    """Whose each algorithm is, by kind and name."""
    kinds: dict[str, dict[str, str]] = {}
    for file in (files("graphwright") / "partition").iterdir():
        if file.name.endswith(".py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Name("algorithm"),
                        args=[ast.Constant(str(name)), ast.Constant(str(kind))],
                        keywords=[ast.keyword("whose", ast.Constant(str(whose)))],
                    ):
                        kinds.setdefault(kind, {})[name] = whose
    return kinds


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
