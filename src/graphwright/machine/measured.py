"""Tables of measured times that a preset ships: a JSON file beside its TOML, asked after the store.

    presets/dgx-h200.toml                the machine's figures
    presets/dgx-h200.measured.json       what operators and collectives take on it, if measured

    {"format": "graphwright.measured", "version": 1,
     "source": "graphwright calibrate on 2026-11-20, driver 570",
     "measured_with": "2.11.0, method 5",
     "compute": {"NVIDIA H200": [["aten.mm", "", "float32[8, 8], ... -> ...", 1.2e-5, 1e-7, 30]]},
     "collective": [["all_reduce", "1x8, 1 contenders", 20, 4.1e-5, 1e-6, 30]]}

A row is a key of the store (`ComputeKey`, `CollectiveKey`) and a `Measurement`: seconds, spread,
repeats. Operators are found by the name of the device, collectives by the machine: that of the
preset, or of the same with other counts ("dgx-h200:4"), as a group spans what it did there. What a
user measured wins over a table, and a table over a formula. No table is read before a device or a
cluster of its preset is asked for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from graphwright.errors import MeasuredTableError, StoreError
from graphwright.files import writing
from graphwright.machine.cluster import Cluster
from graphwright.machine.names import cluster, preset_file, preset_names
from graphwright.machine.store import CollectiveKey, ComputeKey, Measurement, Store

SUFFIX = ".measured.json"
FORMAT, VERSION = "graphwright.measured", 1
_FIELDS = {
    "format": str,
    "version": int,
    "source": str,
    "measured_with": str,
    "compute": dict,
    "collective": list,
}
_SIGNATURE = re.compile(r"\d+(x\d+)*, \d+ contenders")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """Measured times of operators, by device, and of collectives; where and with what."""

    source: str
    measured_with: str
    compute: Mapping[str, Mapping[ComputeKey, Measurement]]
    collective: Mapping[CollectiveKey, Measurement]


def preset_computes(device: str) -> Mapping[ComputeKey, Measurement]:
    """What the presets' tables say of the operators on a device of that name."""
    for name in _with_tables():
        if any(kind.name == device for kind in cluster(name).kinds()):
            rows = _table(name).compute.get(device)
            if rows is not None:
                return rows
    return {}


def preset_collectives(on: Cluster) -> Mapping[CollectiveKey, Measurement]:
    """What the presets' tables say of the collectives on a cluster."""
    for name in _with_tables():
        if _is_same_machine(cluster(name), on) and _table(name).collective:
            return _table(name).collective
    return {}


def _is_same_machine(preset: Cluster, on: Cluster) -> bool:
    """Whether clusters differ in the counts of their levels at most."""
    if preset.links or on.links:
        return preset.hash == on.hash
    one, other = ([replace(level, count=1) for level in c.levels] for c in (preset, on))
    return one == other and preset.kinds().keys() == on.kinds().keys()


@lru_cache(maxsize=1)
def _with_tables() -> tuple[str, ...]:
    """The presets that ship a table."""
    return tuple(n for n in preset_names() if preset_file(n, SUFFIX) is not None)


@lru_cache(maxsize=16)
def _table(name: str) -> MeasuredTable:
    file = preset_file(name, SUFFIX)
    assert file is not None
    return table_from_json(file.read_text("utf-8"), f"the measured table of preset {name}")


def table_of(
    store: Store, *, devices: Sequence[str], on: Cluster | None, source: str, measured_with: str
) -> MeasuredTable:
    """What a store has of some devices, and of the collectives on a cluster."""
    compute = {name: store.load_compute(name, measured_with) for name in devices}
    return MeasuredTable(
        source=source,
        measured_with=measured_with,
        compute={name: rows for name, rows in compute.items() if rows},
        collective={} if on is None else store.load_collective(on.hash),
    )


def save_table(table: MeasuredTable, path: str | os.PathLike[str]) -> None:
    """Write a table as JSON, a line for each row, all of it or nothing; an empty one is refused."""
    if not table.compute and not table.collective:
        raise MeasuredTableError(f"nothing was measured that {path} could hold; measure first")
    computes = [
        f"{json.dumps(device)}: {_rows_to_json(rows)}" for device, rows in table.compute.items()
    ]
    text = (
        f'{{"format": "{FORMAT}", "version": {VERSION},\n'
        f' "source": {json.dumps(table.source)},\n'
        f' "measured_with": {json.dumps(table.measured_with)},\n'
        f' "compute": {{{", ".join(computes)}}},\n'
        f' "collective": {_rows_to_json(table.collective)}}}\n'
    )
    with writing(path, MeasuredTableError) as file:
        file.write(text.encode())


def _rows_to_json(rows: Mapping[Any, Measurement]) -> str:
    lines = (json.dumps([*key, m.seconds, m.spread, m.repeats]) for key, m in sorted(rows.items()))
    return "[\n" + ",\n".join(f"  {line}" for line in lines) + "]" if rows else "[]"


def table_from_json(text: str, place: str) -> MeasuredTable:
    """Read a table; anything else is refused, with the field or row. Messages call it `place`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MeasuredTableError(f"{place} is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MeasuredTableError(f"{place} is no table of measured times: no format {FORMAT!r}")
    if document.get("version") != VERSION:
        raise MeasuredTableError(
            f"{place} has version {document.get('version')!r}; this Graphwright reads {VERSION}"
        )
    for name in document.keys() | _FIELDS.keys():
        if name not in _FIELDS or type(document.get(name)) is not _FIELDS[name]:
            what = f"has to be of type {_FIELDS[name].__name__}" if name in _FIELDS else "unknown"
            raise MeasuredTableError(f"{place}: field {name!r}: {what}")
    compute = {
        device: dict(_row(r, (str, str, str), f"{place}: {device}[{n}]") for n, r in _each(rows))
        for device, rows in document["compute"].items()
    }
    collective = dict(
        _row(row, (str, str, int), f"{place}: collective[{number}]")
        for number, row in _each(document["collective"])
    )
    for kind, group, exponent in collective:
        if not _SIGNATURE.fullmatch(group) or not 0 <= exponent < 63:
            raise MeasuredTableError(
                f"{place}: {kind} over {group!r} at 2^{exponent} bytes; a group is spelled "
                "'1x8, 2 contenders', and sizes are 2^0 to 2^62"
            )
    return MeasuredTable(
        source=document["source"],
        measured_with=document["measured_with"],
        compute=compute,
        collective=collective,
    )


def _each(rows: object) -> enumerate[Any]:
    return enumerate(rows if isinstance(rows, list) else [rows])


def _row(row: Any, key: tuple[type, ...], place: str) -> tuple[Any, Measurement]:
    """The key and the measurement of a row."""
    kinds = (*key, float, float, int)
    if not isinstance(row, list) or [type(v) for v in row] != list(kinds):
        words = ", ".join(kind.__name__ for kind in kinds)
        raise MeasuredTableError(f"{place}: {row!r} is not a row of ({words})")
    try:
        measured = Measurement(seconds=row[-3], spread=row[-2], repeats=row[-1])
    except StoreError as error:
        raise MeasuredTableError(f"{place}: {error}") from None
    return tuple(row[: len(key)]), measured
