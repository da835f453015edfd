"""Write a cluster as TOML text, which `graphwright.machine.toml_file` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable

from graphwright.machine.cluster import Cluster, runs_of
from graphwright.machine.quantities import format_quantity


def to_toml(cluster: Cluster) -> str:
    """Write a cluster as TOML; `from_toml` returns an equal one."""
    lines = [f"name = {_string(cluster.name)}"]
    if cluster.source:
        lines.append(f"source = {_string(cluster.source)}")
    if cluster.price is not None:
        lines.append(f"price_per_device_hour = {cluster.price!r}")
    runs = runs_of(cluster.devices)
    for device, count in runs:
        lines += [
            "",
            "[device]" if len(runs) == 1 else "[[device]]",
            f"name = {_string(device.name)}",
        ]
        if len(runs) > 1:
            lines.append(f"count = {count}")
        lines.append(f"memory = {format_quantity(device.memory, 'size')}")
        lines += _figures(device, ("bandwidth", "bandwidth"), ("launch", "time"))
        lines += [] if device.overlaps else ["overlaps = false"]
        lines += ["", "[device.rates]"]
        lines += [
            f"{name} = {format_quantity(rate, 'rate')}" for name, rate in device.rates.items()
        ]
    for level in cluster.levels:
        lines += ["", "[[level]]", f"name = {_string(level.name)}", f"count = {level.count}"]
        lines += _figures(level, ("bandwidth", "bandwidth"), ("latency", "time"))
        lines += ["shared = true"] if level.shared else []
    for link in cluster.links:
        lines += ["", "[[link]]", f"devices = [{link.devices[0]}, {link.devices[1]}]"]
        lines += _figures(link, ("bandwidth", "bandwidth"), ("latency", "time"))
    if cluster.host is not None:
        figures = (("bandwidth", "bandwidth"), ("duplex", "bandwidth"), ("latency", "time"))
        lines += ["", "[host]", *_figures(cluster.host, *figures)]
    return "\n".join(lines) + "\n"


def _figures(value: object, *fields: tuple[str, str]) -> Iterable[str]:
    return [f"{name} = {format_quantity(getattr(value, name), kind)}" for name, kind in fields]


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
