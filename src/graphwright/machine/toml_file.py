"""Clusters as TOML files, read strictly; a cluster that is written and read again is equal.

    name = "two-nodes"                      # optional: source = "...", price_per_device_hour = 2.5
    device = "h100-sxm"                     # that comes with the package (`device_names`), or
    [device]                                # a table, or [[device]]s with `count = 8`
    name = "NVIDIA H100 80GB HBM3"
    memory = "80GB"
    bandwidth = "3.35TB/s"
    launch = "4us"                          # overlaps = false: cannot compute while communicating
    handling = "150us"                      # optional: of its own time, for each transfer, and
    handling_bandwidth = "1.5GB/s"          # for the bytes that it receives
    [device.rates]
    float32 = "67T"
    [device.efficiency]                     # optional: see `machine.efficiency`
    product = 0.7
    [[level]]                               # outermost first
    name = "node"
    count = 2
    bandwidth = "50GB/s"
    latency = "5us"                         # shared = true: one medium for all members
    efficiency = 0.9                        # optional: the share that transfers reach
    [[link]]
    devices = [0, 1]
    bandwidth = "25GB/s"
    latency = "2us"
    [host]
    bandwidth = "55GB/s"
    duplex = "90GB/s"
    latency = "10us"

Any other key is an error: it is more often a typing error than a note.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from math import prod
from pathlib import Path

from graphwright.errors import ClusterFileError, InvalidCluster
from graphwright.files import writing
from graphwright.frozen import FrozenDict
from graphwright.machine.checks import (
    check_count,
    check_figure,
    check_name,
    check_share,
    check_text,
    check_total,
)
from graphwright.machine.cluster import Cluster, HostLink, Level, Link, runs_of
from graphwright.machine.device import Device
from graphwright.machine.efficiency import plain
from graphwright.machine.quantities import format_quantity, parse_quantity

_DEVICE_KEYS = (
    "name",
    "memory",
    "bandwidth",
    "launch",
    "overlaps",
    "rates",
    "efficiency",
    "spread",
    "handling",
    "handling_bandwidth",
)
PRICE = "price_per_device_hour"
DEVICES = "devices"
"""The folder of devices among the presets."""
MAX_BYTES = 64 << 20
"""A larger file is not a cluster."""


def load(path: str | os.PathLike[str]) -> Cluster:
    """Read a cluster from a TOML file."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidCluster(f"{path} has more than {MAX_BYTES >> 20} MiB; is it a cluster?")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ClusterFileError(
            f"cannot read {path}: {error.strerror or error}; check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidCluster(f"{path} is not a TOML file: {error}") from None
    return from_toml(text, str(path))


def save(cluster: Cluster, path: str | os.PathLike[str]) -> None:
    """Write a cluster to a TOML file, atomically."""
    with writing(path, ClusterFileError) as file:
        file.write(to_toml(cluster).encode("utf-8"))


def from_toml(text: str, place: str = "cluster") -> Cluster:
    """Read a cluster from TOML text; messages call it `place`."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InvalidCluster(f"{place} is not a TOML file: {error}") from None
    top = _Table(document, place)
    top.allow("name", "source", PRICE, "device", "level", "link", "host")
    price = document.get(PRICE)
    levels = tuple(_level(table) for table in top.tables("level", required=True))
    total = check_total(prod(level.count for level in levels), place)
    try:
        return Cluster(
            name=check_name(top.get("name"), top.at("name")),
            levels=levels,
            devices=_devices(top, total),
            links=tuple(_link(table) for table in top.tables("link")),
            host=_host(top.table("host")) if "host" in document else None,
            price=None if price is None else check_figure(price, top.at(PRICE), zero=True),
            source=check_text(document.get("source", ""), top.at("source")),
        )
    except InvalidCluster as error:
        if str(error).startswith(place):
            raise
        raise InvalidCluster(f"{place}: {error}") from None


class _Table:
    """A TOML table that knows where it is, for messages."""

    def __init__(self, data: Mapping[str, object], file: str, name: str = "") -> None:
        self.data, self.file, self.name = data, file, name

    def at(self, key: str = "") -> str:
        return ": ".join(part for part in (self.file, self.name, key) if part)

    def allow(self, *keys: str) -> None:
        for key in self.data:
            if key not in keys:
                near = get_close_matches(key, keys, 1)
                hint = f"is {near[0]!r} meant?" if near else f"known are {', '.join(keys)}"
                raise InvalidCluster(f"{self.at()}: unknown key {key!r}; {hint}")

    def get(self, key: str) -> object:
        if key not in self.data:
            raise InvalidCluster(f"{self.at()}: {key!r} is missing")
        return self.data[key]

    def figure(self, key: str, kind: str, *, zero: bool = False) -> float:
        value = parse_quantity(self.get(key), kind, self.at(key))
        check_figure(value, self.at(key), zero=zero)
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise InvalidCluster(f"{self.at(key)}: {value!r} is not true or false")
        return value

    def table(self, key: str) -> _Table:
        value = self.get(key)
        if not isinstance(value, dict):
            raise InvalidCluster(f"{self.at(key)}: {value!r} is not a table; write [{key}]")
        return _Table(value, self.file, ".".join(filter(None, (self.name, key))))

    def tables(self, key: str, *, required: bool = False) -> list[_Table]:
        if not required and key not in self.data:
            return []
        value = self.get(key)
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise InvalidCluster(
                f"{self.at(key)}: {value!r} is not a list of tables; write [[{key}]]"
            )
        return [_Table(entry, self.file, f"{key}[{i}]") for i, entry in enumerate(value)]


def _level(table: _Table) -> Level:
    table.allow("name", "count", "bandwidth", "latency", "shared", "efficiency")
    return Level(
        name=check_name(table.get("name"), table.at("name")),
        count=check_count(table.get("count"), table.at("count")),
        bandwidth=table.figure("bandwidth", "bandwidth"),
        latency=table.figure("latency", "time", zero=True),
        shared=table.flag("shared", False),
        efficiency=check_share(table.data.get("efficiency", 1.0), table.at("efficiency")),
    )


def _link(table: _Table) -> Link:
    table.allow("devices", "bandwidth", "latency")
    devices = _numbers(table, "devices")
    if len(devices) != 2 or devices[0] == devices[1]:
        raise InvalidCluster(
            f"{table.at('devices')}: {devices!r} is not a pair of different devices"
        )
    return Link(
        devices=(devices[0], devices[1]),
        bandwidth=table.figure("bandwidth", "bandwidth"),
        latency=table.figure("latency", "time", zero=True),
    )


def _host(table: _Table) -> HostLink:
    table.allow("bandwidth", "duplex", "latency")
    return HostLink(
        bandwidth=table.figure("bandwidth", "bandwidth"),
        duplex=table.figure("duplex", "bandwidth"),
        latency=table.figure("latency", "time", zero=True),
    )


def _numbers(table: _Table, key: str) -> list[int]:
    value = table.get(key)
    if not isinstance(value, list):
        raise InvalidCluster(f"{table.at(key)}: {value!r} is not a list of devices")
    return [check_count(number, table.at(key), least=0) for number in value]


def _devices(top: _Table, total: int) -> tuple[Device, ...]:
    """All devices of the cluster; `at` places a kind, `count` fills the rest in order."""
    if isinstance(top.get("device"), str):
        return (known_device(str(top.get("device")), top.at("device")),) * total
    if isinstance(top.get("device"), dict):
        table = top.table("device")
        table.allow(*_DEVICE_KEYS)
        return (_device(table),) * total
    placed: list[Device | None] = [None] * total
    counted: list[tuple[_Table, Device]] = []
    for table in top.tables("device"):
        table.allow(*_DEVICE_KEYS, "count", "at")
        device = _device(table)
        if ("at" in table.data) == ("count" in table.data):
            raise InvalidCluster(f"{table.at()}: give either 'count' or 'at'")
        if "count" in table.data:
            counted.append((table, device))
            continue
        for number in _numbers(table, "at"):
            if number >= total:
                raise InvalidCluster(
                    f"{table.at('at')}: the devices are 0 to {total - 1}, not {number}"
                )
            if placed[number] is not None:
                raise InvalidCluster(f"{table.at('at')}: device {number} is given twice")
            placed[number] = device
    free = [number for number, device in enumerate(placed) if device is None]
    for table, device in counted:
        count = check_count(table.get("count"), table.at("count"))
        if count > len(free):
            raise InvalidCluster(
                f"{table.at('count')}: {count} devices, but only {len(free)} of {total} are left"
            )
        for number in free[:count]:
            placed[number] = device
        del free[:count]
    if free:
        raise InvalidCluster(
            f"{top.at('device')}: {len(free)} of {total} devices are not defined, first {free[0]}"
        )
    return tuple(device for device in placed if device is not None)


def device_names() -> tuple[str, ...]:
    """The names of the devices that come with the package, for `device = "h100-sxm"`."""
    names = (file.name for file in (files("graphwright.machine") / "presets" / DEVICES).iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in names if n.endswith(".toml")))


def known_device(name: str, place: str = "device") -> Device:
    """A device that comes with the package."""
    if name not in device_names():
        near = get_close_matches(name.lower(), device_names(), 1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidCluster(
            f"{place}: there is no device {name!r}; {hint}use one of {', '.join(device_names())}, "
            "or a table [device]"
        )
    return _known_device(name)


@lru_cache(maxsize=64)
def _known_device(name: str) -> Device:
    file = files("graphwright.machine") / "presets" / DEVICES / f"{name}.toml"
    table = _Table(tomllib.loads(file.read_text("utf-8")), f"device {name}")
    table.allow(*_DEVICE_KEYS)
    return _device(table)


def _device(table: _Table) -> Device:
    rates = table.table("rates")
    memory = parse_quantity(table.get("memory"), "size", table.at("memory"))
    try:
        return Device(
            name=check_name(table.get("name"), table.at("name")),
            memory=check_count(memory, table.at("memory")),
            rates=FrozenDict({dtype: rates.figure(dtype, "rate") for dtype in rates.data}),
            bandwidth=table.figure("bandwidth", "bandwidth"),
            launch=table.figure("launch", "time", zero=True),
            overlaps=table.flag("overlaps", True),
            efficiency=FrozenDict(table.table("efficiency").data)  # type: ignore[arg-type]
            if "efficiency" in table.data
            else FrozenDict(),
            spread=check_figure(table.data.get("spread", 0.0), table.at("spread"), zero=True),
            handling=table.figure("handling", "time", zero=True)
            if "handling" in table.data
            else 0.0,
            handling_bandwidth=table.figure("handling_bandwidth", "bandwidth")
            if "handling_bandwidth" in table.data
            else None,
        )
    except InvalidCluster as error:
        if str(error).startswith(table.file):
            raise
        raise InvalidCluster(f"{table.at()}: {error}") from None


# -- writing --------------------------------------------------------------------------------------


def to_toml(cluster: Cluster) -> str:
    """Write a cluster as TOML; `from_toml` returns an equal one."""
    lines = [f"name = {_string(cluster.name)}"]
    if cluster.source:
        lines.append(f"source = {_string(cluster.source)}")
    if cluster.price is not None:
        lines.append(f"{PRICE} = {cluster.price!r}")
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
        lines += [f"spread = {device.spread!r}"] if device.spread else []
        lines += _figures(device, ("handling", "time")) if device.handling else []
        if device.handling_bandwidth is not None:
            lines += _figures(device, ("handling_bandwidth", "bandwidth"))
        lines += ["", "[device.rates]"]
        lines += [
            f"{name} = {format_quantity(rate, 'rate')}" for name, rate in device.rates.items()
        ]
        for kind, curves in device.efficiency.items():
            lines += ["", f"[device.efficiency.{kind}]"]
            lines += [f"{dtype} = {plain(curve)!r}" for dtype, curve in curves.items()]
    for level in cluster.levels:
        lines += ["", "[[level]]", f"name = {_string(level.name)}", f"count = {level.count}"]
        lines += _figures(level, ("bandwidth", "bandwidth"), ("latency", "time"))
        lines += ["shared = true"] if level.shared else []
        lines += [f"efficiency = {level.efficiency!r}"] if level.efficiency < 1 else []
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
