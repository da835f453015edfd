"""The lines of an explanation by module, those of repeated modules once.

    layers.0 to 11  x12              12 modules that follow one another and are split alike
      attention.query: matmul +13    a line of each

`layers.3.attention.query` is `attention.query` in the fourth of `layers` (`split_path`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphwright.partition import Coarse, Group, Weight
from graphwright.report.explain.lines import Line


@dataclass(frozen=True, slots=True)
class Section:
    """The lines of a module, or of `count` modules that follow one another and are alike."""

    path: str
    last: str
    count: int
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The modules in a few letters: `layers.1 to 10`."""
        if self.count == 1:
            return self.path or "the step itself"
        return f"{self.path} to {self.last.rpartition('.')[2]}"


def find_sections(coarse: Coarse, lines: Sequence[Line]) -> tuple[Section, ...]:
    """The lines by module; updates that are alike in one line, alike modules in one section."""
    by_path: dict[str, list[Line]] = {}
    for group, line in zip(coarse.groups, lines, strict=True):
        path, label = _place(coarse, group)
        by_path.setdefault(path, []).append(replace(line, label=label))
    sections: list[Section] = []
    for path, own in by_path.items():
        section = Section(path, path, 1, _merged(own))
        before = sections[-1] if sections else None
        if before is not None and follows(before.last, path) and _alike(before, section):
            sections[-1] = replace(before, last=path, count=before.count + 1)
        else:
            sections.append(section)
    return tuple(sections)


def _place(coarse: Coarse, group: Group) -> tuple[str, str]:
    """The path of a group's section, and what follows it in the module's or parameter's path."""
    node = coarse.facts.graph.nodes[group.slots[group.lead][0]]
    path, name = split_path(node.module)
    if group.weight is Weight.UPDATE and node.parameter is not None:
        return path, node.parameter.removeprefix(f"{path}.")
    return path, name


def _merged(lines: list[Line]) -> tuple[Line, ...]:
    """Updates that are split alike in one line, behind all others."""
    kept: list[Line] = []
    updates: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        if line.kind == Weight.UPDATE:
            updates.setdefault((line.words, line.instead), []).append(line)
        else:
            kept.append(line)
    return (*kept, *(_sum(some) for some in updates.values()))


def _sum(lines: list[Line]) -> Line:
    if len(lines) == 1:
        return lines[0]
    names = ", ".join(line.label for line in lines)
    return replace(
        lines[0],
        label=names if len(lines) < 3 else f"{len(lines)} parameters",
        num_nodes=sum(line.num_nodes for line in lines),
        compute_time=sum(line.compute_time for line in lines),
        moves=tuple(move for line in lines for move in line.moves),
        memory=sum(line.memory for line in lines),
        nodes=tuple(n for line in lines for n in line.nodes),
        extra_time=sum(line.extra_time for line in lines),
        extra_memory=sum(line.extra_memory for line in lines),
    )


def _alike(a: Section, b: Section) -> bool:
    return [_key(line) for line in a.lines] == [_key(line) for line in b.lines]


def _key(line: Line) -> tuple[object, ...]:
    figures = line.compute_time, line.nbytes, line.memory, line.extra_time
    shown = (f"{figure:.3g}" for figure in figures)
    return line.label, line.op, line.num_nodes, line.words, line.instead, *shown


def split_path(module: str) -> tuple[str, str]:
    """A module's path up to its first number, and what follows."""
    match = re.fullmatch(r"((?:.*?\.)?\d+)(?:\.(.*))?", module)
    return (match[1], match[2] or "") if match else (module, "")


def follows(before: str, path: str) -> bool:
    """Whether a path is another but for the number at its end, which is one more."""
    a, b = (re.fullmatch(r"(.*?)(\d+)", text) for text in (before, path))
    return a is not None and b is not None and a[1] == b[1] and int(b[2]) == int(a[2]) + 1
