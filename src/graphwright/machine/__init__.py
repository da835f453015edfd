"""Clusters: devices, levels, links and measured costs.

>>> from graphwright.machine import cluster
>>> cluster("dgx-h100:2").route(0, 9).bandwidth
400000000000.0
"""

from graphwright.frozen import FrozenDict
from graphwright.machine.cluster import PICOSECONDS, Axis, Cluster, HostLink, Level, Link
from graphwright.machine.device import Device
from graphwright.machine.efficiency import Curve
from graphwright.machine.hosts import hosts
from graphwright.machine.local import (
    Gpu,
    MachineInfo,
    estimated_cluster,
    free_host_memory,
    inspect_machine,
    local_cluster,
    measured_cluster,
    measures_itself,
    note_of,
    num_cores,
)
from graphwright.machine.measured import (
    MeasuredTable,
    preset_collectives,
    preset_computes,
    save_table,
    table_from_json,
    table_of,
)
from graphwright.machine.names import cluster, preset_names
from graphwright.machine.quantities import parse_quantity
from graphwright.machine.store import (
    STORE_VERSION,
    CollectiveKey,
    ComputeKey,
    Measurement,
    Store,
    default_path,
)
from graphwright.machine.toml_file import from_toml, load, save, to_toml
from graphwright.machine.topology import Route
