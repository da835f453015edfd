"""Several hosts like this one, as a cluster of two levels: a network, and processes on each host.

    hosts(2, cluster("local:4"), bandwidth=125e6, latency=1e-4)

    level    host      2     the network: one port of 1 Gb/s for each host
             process   4     what `local:4` says of processes on one machine

Between hosts the network carries data while the cores compute, so devices overlap both. But cores
pass on what a network brings: until that is measured, each transfer is taken to cost HANDLING
seconds of a core, and the bytes that it receives pass at HANDLING_BANDWIDTH.
"""

from __future__ import annotations

from dataclasses import replace

from graphwright.machine.checks import check_count, check_total
from graphwright.machine.cluster import Cluster, Level

HANDLING, HANDLING_BANDWIDTH = 3e-4, 1.2e9
"""Of one core with Gloo over TCP, by measurements on several links."""


def hosts(
    count: int, on: Cluster, *, bandwidth: float, latency: float, name: str = "hosts"
) -> Cluster:
    """`count` hosts with the processes of `on`, as "local:4" has them.

    `bandwidth` is that of a host's network port, each way, in bytes/s; `latency` is that of a
    message, in seconds. `machine.save` writes the cluster's file.
    """
    check_count(count, f"{name}: number of hosts")
    check_total(count * on.num_devices, name)
    network = Level(name="host", count=count, bandwidth=bandwidth, latency=latency)
    devices = tuple(
        replace(
            device,
            overlaps=True,
            handling=HANDLING,
            handling_bandwidth=HANDLING_BANDWIDTH,
        )
        for device in on.devices
    )
    return replace(
        on,
        name=name,
        levels=(network, *on.levels),
        devices=devices * count,
        links=(),
        source=f"{on.source}; the network as given",
    )
