"""What is known of one operator: its description, the regions it reads, every split.

`operator_report` gathers it, with a reason for every index that has no split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Column, Table
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
from graphwright.errors import InvalidCall
from graphwright.ir import Attr, TensorType, parse_type
from graphwright.report.tables.layout import headed, name_column, number_column, text_column
from graphwright.report.tables.source import fit, source_of

READING = "0:4 are elements 0 to 3 of a dim, : is all of it"
PADDING = "; pad n: n elements beyond the edge, 0 unless a value is given"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """What follows from an operator's description for one call; shown in `num_parts` parts."""

    op: str
    source: str
    attrs: Mapping[str, Attr]
    types: Types
    trace: Trace
    splits: tuple[Split, ...]
    refused: Mapping[str, str]
    properties: Properties
    cost: Cost
    num_parts: int


def operator_report(
    op: str,
    attrs: Mapping[str, Attr] | None = None,
    types: Types | None = None,
    num_parts: int = 2,
) -> OperatorReport:
    """The report for a call; without one, for an example call of the operator."""
    description = require(op)
    if types is None:
        attrs, types = example(op)
    attrs = attrs or {}
    ways = splits(op, attrs, types)
    traced = trace(description, attrs, types)
    return OperatorReport(
        op=op,
        source=source_of(description),
        attrs=attrs,
        types=types,
        trace=traced,
        splits=ways,
        refused=_refused(op, attrs, types, traced, ways),
        properties=properties(op, attrs, types),
        cost=cost(op, attrs, types),
        num_parts=num_parts,
    )


def _refused(
    op: str, attrs: Mapping[str, Attr], types: Types, traced: Trace, ways: tuple[Split, ...]
) -> dict[str, str]:
    """Why an index has no split: there is none for any sizes, or none for those of this call."""
    known = {split.index for split in ways}
    refused = {r.index: r.reason for r in refusals(op, attrs, types) if r.index not in known}
    for number, output in enumerate(traced.outputs):
        known |= {v.name for d, v in enumerate(output.variables) if _splits_dim(ways, number, d)}
    values = traced.environment(attrs, types)
    for variable, extent in traced.extents.items():
        name = variable.name
        if name not in refused and not known & {name, name.rstrip("'")}:
            refused[name] = (
                "it has a single element"
                if extent.evaluate(values) <= 1
                else "with these sizes and attributes the kernel could not compute a part alone"
            )
    return refused


def _splits_dim(ways: tuple[Split, ...], output: int, dim: int) -> bool:
    return any(split.joins[output] == Concat(dim) for split in ways)


def example(op: str) -> tuple[Mapping[str, Attr], Types]:
    """A small call of `op`, kept with the package; ``make examples`` takes them from tests."""
    calls = _examples()
    if op not in calls:
        raise InvalidCall(
            f"there is no example call of {op}; give the types of its tensors with --input"
        )
    attrs, inputs, outputs = calls[op]
    return attrs, Types(
        tuple(None if t is None else parse_type(t) for t in inputs), tuple(map(parse_type, outputs))
    )


@cache
def _examples() -> dict[str, tuple[dict[str, Attr], list[str | None], list[str]]]:
    text = (files("graphwright.report.tables") / "examples.json").read_text()
    return {
        op: ({k: _tuples(v) for k, v in call["attrs"].items()}, call["inputs"], call["outputs"])
        for op, call in json.loads(text).items()
    }


def _tuples(value: Attr | list[Attr]) -> Attr:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def to_dict(report: OperatorReport) -> dict[str, object]:
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
        "splits": [_split_dict(split, report.num_parts) for split in report.splits],
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
    """A region, dim by dim: ``:`` is a whole dim, ``pad 1 | 0:6`` one before the edge and six."""
    return ", ".join(map(_slice_text, region, shape))


def _slice_text(piece: Slice, size: int) -> str:
    if (piece.start, piece.stop) == (0, size):
        return ":"
    start, stop = max(0, piece.start), min(size, piece.stop)
    inner = (":" if (start, stop) == (0, size) else f"{start}:{stop}") if start < stop else ""
    before = min(max(0, -piece.start), piece.size)
    after = min(max(0, piece.stop - size), piece.size - before)
    value = "" if not piece.fill else f" of {piece.fill:g}"
    pads = [f"pad {count}{value}" if count else "" for count in (before, after)]
    return " | ".join(text for text in (pads[0], inner, pads[1]) if text) or "nothing"


def show(report: OperatorReport, console: Console) -> None:
    """Print the report."""
    code = Syntax(fit(report.source, console.width - 4), "python")
    console.print(Panel(code, title=report.op))
    console.print(_facts(report))
    console.print(_split_table(report))
    for index, reason in report.refused.items():
        console.print(Text.assemble(("  no split along ", "dim"), (index, "bold"), f": {reason}"))


def _facts(report: OperatorReport) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, fact in _fact_rows(report):
        table.add_row(label, Text(fact))
    return table


def _fact_rows(report: OperatorReport) -> Iterator[tuple[str, str]]:
    names = report.trace.names
    inputs = [
        f"{argument}: {'absent' if t is None else t}"
        for argument, t in zip(names, report.types.inputs, strict=True)
    ]
    yield "call", ", ".join(inputs) or "no tensors"
    if report.attrs:
        yield "", ", ".join(f"{k}={v}" for k, v in report.attrs.items())
    for number, (output, t) in enumerate(
        zip(report.trace.outputs, report.types.outputs, strict=True)
    ):
        index = ", ".join(v.name for v in output.variables)
        yield "" if number else "meaning", f"{t}[{index}] = {output.body!r}"
    kinds = [
        *(["element-wise"] if report.properties.elementwise else []),
        *(["a pure view"] if report.properties.view else []),
        *(["random"] if report.properties.random else []),
        *(f"opaque: {function}" for function in report.properties.opaque),
        *(
            f"linear in {' and '.join(names[a] for a in sorted(group))}"
            for group in report.properties.linear
        ),
    ]
    yield "kind", "; ".join(kinds) or "general"
    yield "cost", f"{report.cost.operations:,} operations, {report.cost.bytes:,} bytes"


def _split_table(report: OperatorReport) -> Table:
    table = headed(
        f"Splits, drawn for {report.num_parts} parts",
        name_column("index"),
        "class",
        number_column("extent"),
        Column("joined by", no_wrap=True),
        text_column("each part reads (other inputs whole)"),
    )
    table.caption_justify = "left"
    padded = False
    for split in report.splits:
        parts = split.parts(min(report.num_parts, split.max_parts))
        extent = f"{split.extent}" + (f" by {split.quantum}" if split.quantum > 1 else "")
        joins = "; ".join(dict.fromkeys(map(join_text, split.joins)))
        reads = "\n".join(_part_text(report, split, part) for part in parts)
        table.add_row(split.index, str(soap_of_call(split)), extent, joins, reads)
        padded = padded or "pad " in reads
    table.caption = READING + (PADDING if padded else "")
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
