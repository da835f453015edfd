"""Help that names the algorithms, read from their registry only when it is asked for: loading the
planner takes longer than everything else that `--help` needs.

An option's help has a placeholder, such as `{algorithms}`, and its command has `cls=NamesInHelp`.
"""

from __future__ import annotations

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
    from graphwright.partition import RECIPES, REGISTRY, SEARCHES, SYSTEMS

    def listed(*names: str) -> str:
        return ", ".join(f"`{name}`" for name in names)

    searches = ", ".join(f"`{name}` ({REGISTRY[name].whose})" for name in SEARCHES)
    return {
        "algorithms": f"{searches}, or as another system would: {listed(*SYSTEMS)}",
        "recipes": listed(*RECIPES),
        "systems": listed(*SYSTEMS),
    }
