"""What is known of one operator: its description, the regions it reads, every split and why other indices have none.

`operator_report` gathers it as plain data (the ``--json`` of ``graphwright describe``), `show_operator` draws it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from textwrap import dedent

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from graphwright.describe import (
    Combine,
    Concat,
    Cost,
    Join,
    Part,
    Properties,
    Region,
    Slice,
    Split,
    Trace,
    Types,
    cost,
    properties,
    refusals,
    require,
    soap_of_call,
    splits,
    trace,
)
from graphwright.errors import UnknownOperator
from graphwright.ir import Attr, TensorType, parse_type


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """Everything derived from an operator's description for one call."""

    op: str
    source: str
    attrs: Mapping[str, Attr]
    types: Types
    trace: Trace
    splits: tuple[Split, ...]
    refused: Mapping[str, str]
    properties: Properties
    cost: Cost


def operator_report(
    op: str, attrs: Mapping[str, Attr] | None = None, types: Types | None = None
) -> OperatorReport:
    """The report for a call; without one, for an example call of the operator."""
    description = require(op)
    if types is None:
        attrs, types = example(op)
    attrs = attrs or {}
    found = splits(op, attrs, types)
    named = {split.index for split in found}
    return OperatorReport(
        op=op,
        source=dedent(description.source),
        attrs=attrs,
        types=types,
        trace=trace(description, attrs, types),
        splits=found,
        refused={r.index: r.reason for r in refusals(op, attrs, types) if r.index not in named},
        properties=properties(op, attrs, types),
        cost=cost(op, attrs, types),
    )


def example(op: str) -> tuple[Mapping[str, Attr], Types]:
    """A small call of `op`, kept with the package (made from the property tests by ``make examples``)."""
    calls = _examples()
    if op not in calls:
        raise UnknownOperator(
            f"there is no example call of {op}; give its types with --input and --output"
        )
    attrs, inputs, outputs = calls[op]
    return attrs, Types(
        tuple(None if t is None else parse_type(t) for t in inputs), tuple(map(parse_type, outputs))
    )


@cache
def _examples() -> dict[str, tuple[dict[str, Attr], list[str | None], list[str]]]:
    text = (files("graphwright.report") / "examples.json").read_text()
    return {
        op: ({k: _tuples(v) for k, v in call["attrs"].items()}, call["inputs"], call["outputs"])
        for op, call in json.loads(text).items()
    }


def _tuples(value: Attr | list[Attr]) -> Attr:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# -- as plain data ------------------------------------------------------------------------------------


def operator_dict(report: OperatorReport, num_parts: int = 2) -> dict[str, object]:
    """The report as JSON-ready data."""
    return {
        "op": report.op,
        "description": report.source,
        "attrs": dict(report.attrs),
        "inputs": [None if t is None else str(t) for t in report.types.inputs],
        "outputs": [str(t) for t in report.types.outputs],
        "elementwise": report.properties.elementwise,
        "view": report.properties.view,
        "linear_in": [sorted(group) for group in report.properties.linear],
        "opaque": list(report.properties.opaque),
        "operations": report.cost.operations,
        "bytes": report.cost.bytes,
        "splits": [_split_dict(split, num_parts) for split in report.splits],
        "refused": dict(report.refused),
    }


def _split_dict(split: Split, num_parts: int) -> dict[str, object]:
    count = min(num_parts, split.max_parts)
    return {
        "index": split.index,
        "class": str(soap_of_call(split)),
        "extent": split.extent,
        "quantum": split.quantum,
        "joins": [join_text(join) for join in split.joins],
        "parts": [
            {
                "range": [part.lo, part.end],
                "inputs": [
                    None if r is None or t is None else region_text(r, t.shape)
                    for r, t in zip(part.inputs, split.call.types.inputs, strict=True)
                ],
                "attrs": {k: v for k, v in part.attrs.items() if v != split.call.attrs.get(k)},
            }
            for part in split.parts(count)
        ],
    }


def join_text(join: Join) -> str:
    """How the parts of an output become the output, in a word or two."""
    match join:
        case Concat(dim):
            return f"concat dim {dim}"
        case Combine(reducer):
            return reducer
        case _:
            return "same"


def region_text(region: Region, shape: tuple[int, ...]) -> str:
    """A region as slices: ``:`` is a whole dim, ``-1:7 pad 0`` reaches over the edge, where there are zeros."""
    return ", ".join(map(_slice_text, region, shape))


def _slice_text(piece: Slice, size: int) -> str:
    if (piece.start, piece.stop) == (0, size):
        return ":"
    outside = piece.fill is not None and (piece.start < 0 or piece.stop > size)
    return f"{piece.start}:{piece.stop}" + (f" pad {piece.fill:g}" if outside else "")


# -- drawn --------------------------------------------------------------------------------------------


def show_operator(report: OperatorReport, console: Console, num_parts: int = 2) -> None:
    """Print the report."""
    console.print(Panel(Syntax(report.source.rstrip(), "python", word_wrap=True), title=report.op))
    console.print(Group(*_facts(report)))
    console.print(_split_table(report, num_parts))
    for index, reason in report.refused.items():
        console.print(Text.assemble(("  no split along ", "dim"), (index, "bold"), f": {reason}"))


def _facts(report: OperatorReport) -> Iterator[RenderableType]:
    names = report.trace.names
    inputs = [
        f"{name}: {'absent' if t is None else t}"
        for name, t in zip(names, report.types.inputs, strict=True)
    ]
    yield Text.assemble(("call        ", "bold"), ", ".join(inputs) or "no tensors")
    if report.attrs:
        yield Text.assemble(
            ("            ", "bold"), ", ".join(f"{k}={v}" for k, v in report.attrs.items())
        )
    for number, (output, t) in enumerate(
        zip(report.trace.outputs, report.types.outputs, strict=True)
    ):
        label = "meaning     " if number == 0 else "            "
        index = ", ".join(v.name for v in output.variables)
        yield Text.assemble((label, "bold"), f"{t}[{index}] = {output.body!r}")
    kinds = [
        *(["element-wise"] if report.properties.elementwise else []),
        *(["a pure view"] if report.properties.view else []),
        *(["random"] if report.properties.random else []),
        *(f"opaque: {name}" for name in report.properties.opaque),
        *(
            f"linear in {' and '.join(names[a] for a in sorted(group))}"
            for group in report.properties.linear
        ),
    ]
    yield Text.assemble(("kind        ", "bold"), "; ".join(kinds) or "general")
    yield Text.assemble(
        ("cost        ", "bold"),
        f"{report.cost.operations:,} operations, {report.cost.bytes:,} bytes",
    )


def _split_table(report: OperatorReport, num_parts: int) -> Table:
    table = Table(title=f"Splits, drawn for {num_parts} parts", title_justify="left")
    table.add_column("index", style="bold")
    table.add_column("class")
    table.add_column("extent", justify="right")
    table.add_column("joined by", no_wrap=True)
    table.add_column("each part reads (other inputs whole)")
    for split in report.splits:
        parts = split.parts(min(num_parts, split.max_parts))
        extent = f"{split.extent}" + (f" by {split.quantum}" if split.quantum > 1 else "")
        joins = "; ".join(dict.fromkeys(map(join_text, split.joins)))
        reads = "\n".join(_part_text(report, split, part) for part in parts)
        table.add_row(split.index, str(soap_of_call(split)), extent, joins, reads)
    return table


def _part_text(report: OperatorReport, split: Split, part: Part) -> str:
    pieces: list[str] = []
    for arg in sorted({arg for arg, _ in split.cut_dims}):
        region, t = part.inputs[arg], report.types.inputs[arg]
        assert region is not None and t is not None
        pieces.append(f"{report.trace.names[arg]}[{region_text(region, t.shape)}]")
    pieces += [f"{k}={v}" for k, v in part.attrs.items() if v != report.attrs.get(k)]
    if part.mask is not None:
        pieces.append(f"{report.trace.names[part.mask.index]} masked to {part.lo}:{part.end}")
    return "  ".join(pieces) or "nothing"


def parse_types(inputs: list[str], outputs: list[str]) -> Types:
    """Types given on the command line; ``-`` is an absent tensor."""
    read: list[TensorType | None] = [None if t == "-" else parse_type(t) for t in inputs]
    return Types(tuple(read), tuple(map(parse_type, outputs)))
