"""Change the number of members in a level of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from graphwright.errors import InvalidCluster
from graphwright.machine.checks import check_count, check_total

if TYPE_CHECKING:
    from graphwright.machine.cluster import Cluster, Level, Link

_RESIZED = re.compile(r":\d+$")


def resize(cluster: Cluster, count: Mapping[str, int]) -> Cluster:
    """Return `cluster` with other counts, by level name; see `Cluster.resized`."""
    names = [level.name for level in cluster.levels]
    for name, value in count.items():
        if name not in names:
            raise InvalidCluster(
                f"cluster {cluster.name!r} has no level {name!r}; its levels are {', '.join(names)}"
            )
        check_count(value, f"cluster {cluster.name!r}: level {name!r}: count")
    levels = tuple(replace(lv, count=count.get(lv.name, lv.count)) for lv in cluster.levels)
    if levels == cluster.levels:
        return cluster
    if len(cluster.kinds()) > 1:
        raise InvalidCluster(
            f"cluster {cluster.name!r} has devices of several kinds and cannot be resized; write "
            "the new one as a TOML file"
        )
    total = check_total(prod(level.count for level in levels), f"cluster {cluster.name!r}")
    base = _RESIZED.sub("", cluster.name)
    if levels[1:] == cluster.levels[1:]:
        name = f"{base}:{levels[0].count}"
    else:
        name = f"{base}[{', '.join(f'{lv.name}={lv.count}' for lv in levels)}]"
    return replace(
        cluster,
        name=name,
        levels=levels,
        devices=cluster.devices[:1] * total,
        links=_repeat_links(cluster, levels),
    )


def _repeat_links(cluster: Cluster, levels: tuple[Level, ...]) -> tuple[Link, ...]:
    """Repeat the explicit links of one member of the deepest changed level in every member."""
    if not cluster.links:
        return ()
    changed = max(d for d, level in enumerate(levels) if level != cluster.levels[d])
    stride = cluster.strides[changed]
    pattern: dict[int, set[Link]] = {}
    for link in cluster.links:
        first, second = link.devices
        member = first // stride
        inside = (first - member * stride, second - member * stride)
        if not 0 <= inside[1] < stride:
            raise InvalidCluster(
                f"cluster {cluster.name!r}: level {levels[changed].name!r} cannot be resized: the "
                f"explicit link {link.devices} connects two of its members; write the new cluster "
                "as a TOML file"
            )
        pattern.setdefault(member, set()).add(replace(link, devices=inside))
    members = cluster.num_devices // stride
    if len(pattern) < members or any(links != pattern[0] for links in pattern.values()):
        raise InvalidCluster(
            f"cluster {cluster.name!r}: level {levels[changed].name!r} cannot be resized: its "
            "members differ in their explicit links; write the new cluster as a TOML file"
        )
    first_member = sorted(pattern[0], key=lambda link: link.devices)
    return tuple(
        replace(link, devices=(link.devices[0] + base, link.devices[1] + base))
        for base in range(0, prod(level.count for level in levels), stride)
        for link in first_member
    )
