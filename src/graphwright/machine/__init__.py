"""The machines: devices, levels, links and the costs measured on them.

>>> from graphwright.machine import cluster
>>> cluster("dgx-h100:2").route(0, 9).bandwidth
400000000000.0
"""

from graphwright.frozen import FrozenDict
from graphwright.machine.cluster import PICOSECONDS, Axis, Cluster, HostLink, Level, Link
from graphwright.machine.device import Device
from graphwright.machine.local import (
    Gpu,
    MachineInfo,
    free_host_memory,
    inspect_machine,
    local_cluster,
    num_cores,
)
from graphwright.machine.names import cluster, preset_names
from graphwright.machine.quantities import parse_quantity
from graphwright.machine.store import STORE_VERSION, Measurement, Store, default_path
from graphwright.machine.toml_file import from_toml, load, save
from graphwright.machine.toml_writer import to_toml
from graphwright.machine.topology import Route
