"""Resolve a cluster name: a preset, a preset with a count, "local:4", or a TOML file.

dgx-h100          one machine
dgx-h100:4        four of the outermost level: four machines
local:4           four processes on this machine
mine.toml         a file; mine.toml:4 works too
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from graphwright.errors import InvalidCluster, UnknownCluster
from graphwright.machine.cluster import Cluster
from graphwright.machine.local import local_cluster, measure_once
from graphwright.machine.toml_file import DEVICES, from_toml, load

_COUNTED = re.compile(r"(.+):([0-9]{1,9})", re.ASCII | re.DOTALL)


def preset_folder() -> Traversable:
    """Where the clusters are that come with the package, in folders, with their measured tables."""
    return files("graphwright.machine") / "presets"


def preset_file(name: str, suffix: str = ".toml") -> Traversable | None:
    """The file of a preset, in whichever folder it is."""
    return _preset_files().get(f"{name}{suffix}")


@lru_cache(maxsize=1)
def preset_names() -> tuple[str, ...]:
    """The names of the clusters that come with the package, sorted."""
    return tuple(sorted(n.removesuffix(".toml") for n in _preset_files() if n.endswith(".toml")))


@lru_cache(maxsize=1)
def _preset_files() -> dict[str, Traversable]:
    """The files of presets by name; devices have a folder of their own."""
    entries = [e for e in preset_folder().iterdir() if e.name != DEVICES]
    folders = [entry for entry in entries if entry.is_dir()]
    every = [*entries, *(file for folder in folders for file in folder.iterdir())]
    return {entry.name: entry for entry in every if entry.is_file()}


def cluster(name: str | os.PathLike[str] | Cluster) -> Cluster:
    """The cluster of that name: a preset, "preset:4", "local:4" or a TOML file."""
    if isinstance(name, Cluster):
        return name
    if isinstance(name, os.PathLike):
        return load(name)
    text: object = name
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise UnknownCluster(f"{name!r} is not the name of a cluster; {_known()}")
    match = _COUNTED.fullmatch(name)
    if match is None or name in preset_names():
        kind, colon, _ = name.partition(":")
        if colon and kind in ("local", *preset_names()):
            raise InvalidCluster(f"{name!r}: a number of them comes after the colon, as {kind}:4")
        return _named(name, name)
    base, count = match[1], int(match[2])
    if count < 1:
        raise InvalidCluster(f"{name!r}: the count after the colon must be at least 1")
    if base == "local":
        measure_once(count)
        return local_cluster(count)
    single = _named(base, name)
    return single.resized({single.levels[0].name: count})


def _named(name: str, given: str) -> Cluster:
    if name == "local":
        measure_once(1)
        return local_cluster(1)
    if name in preset_names():
        return _preset(name)
    if name.endswith(".toml") or "/" in name or os.sep in name:
        return load(name)
    near = get_close_matches(name.lower(), ("local", *preset_names()), 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownCluster(f"there is no cluster {given!r}; {hint}{_known()}")


def _known() -> str:
    return f"use a preset ({', '.join(preset_names())}), local:N or a TOML file"


@lru_cache(maxsize=64)
def _preset(name: str) -> Cluster:
    file = preset_file(name)
    assert file is not None
    return from_toml(file.read_text("utf-8"), f"preset {name}")
