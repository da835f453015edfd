"""What this machine offers: cores, memory, GPUs, PyTorch, measured costs, clusters to name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from graphwright.errors import StoreError
from graphwright.ir import format_bytes
from graphwright.machine import (
    Cluster,
    MachineInfo,
    Store,
    default_path,
    inspect_machine,
    local_cluster,
    preset_names,
)
from graphwright.machine import cluster as find_cluster
from graphwright.report.tables.layout import facts, headed, name_column, number_column, text_column
from graphwright.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """The store of measured costs: how many there are, or what is wrong with it."""

    path: str
    num_compute: int = 0
    num_collective: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A machine, and clusters to run on."""

    machine: MachineInfo
    torch: str
    torch_devices: tuple[str, ...]
    store: StoreState
    clusters: tuple[Cluster, ...]


def diagnose(cluster: str | None = None) -> Diagnosis:
    """Look at this machine and at the cluster of a name; without one, at all presets."""
    import torch

    named = preset_names() if cluster is None else (cluster,)
    here = (local_cluster(1),) if cluster is None else ()  # as it is known: nothing is measured
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    threads = f"cpu ({torch.get_num_threads()} threads)"
    gpus = (f"cuda:{n} ({torch.cuda.get_device_name(n)})" for n in range(count))
    return Diagnosis(
        machine=inspect_machine(),
        torch=torch.__version__,
        torch_devices=(threads, *gpus),
        store=_store(),
        clusters=(*map(find_cluster, named), *here),
    )


def _store() -> StoreState:
    path = str(default_path())
    try:
        compute, collective = Store().counts()
    except StoreError as error:
        return StoreState(path=path, problem=str(error))
    return StoreState(path=path, num_compute=compute, num_collective=collective)


def to_dict(diagnosis: Diagnosis) -> dict[str, object]:
    """A diagnosis as JSON-ready data."""
    return {
        "version": __version__,
        "machine": asdict(diagnosis.machine),
        "torch": diagnosis.torch,
        "torch_devices": list(diagnosis.torch_devices),
        "store": asdict(diagnosis.store),
        "clusters": [_cluster_dict(c) for c in diagnosis.clusters],
    }


def _cluster_dict(cluster: Cluster) -> dict[str, object]:
    return {
        "name": cluster.name,
        "devices": cluster.num_devices,
        "kinds": [
            {
                "name": kind.name,
                "count": count,
                "memory": kind.memory,
                "bandwidth": kind.bandwidth,
                "launch": kind.launch,
                "overlaps": kind.overlaps,
                "rates": dict(kind.rates),
            }
            for kind, count in cluster.kinds().items()
        ],
        "levels": [asdict(level) for level in cluster.levels],
        "links": [asdict(link) for link in cluster.links],
        "host": None if cluster.host is None else asdict(cluster.host),
        "price": cluster.price,
        "source": cluster.source,
        "hash": cluster.hash,
    }


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a diagnosis; one cluster in full, several as a list."""
    console.print(_machine_table(diagnosis))
    if len(diagnosis.clusters) == 1:
        (cluster,) = diagnosis.clusters
        console.print(facts(cluster.name, _cluster_rows(cluster)))
    else:
        console.print(_list_table(diagnosis.clusters))
        console.print(
            "NAME:4 is four of a cluster's outermost level, local:4 four processes on this "
            "machine; `graphwright doctor --cluster NAME` shows one in full."
        )
    if diagnosis.store.problem is not None:
        console.print(f"[bold red]measured costs[/]: {diagnosis.store.problem}", highlight=False)


def _machine_table(diagnosis: Diagnosis) -> Table:
    machine, store = diagnosis.machine, diagnosis.store
    gpus = [f"{g.name}, {format_bytes(g.memory)}, driver {g.driver}" for g in machine.gpus]
    held = f"{store.num_compute:,} of operators, {store.num_collective:,} of collectives"
    rows = {
        "system": f"{machine.system}, Python {machine.python}",
        "processor": f"{machine.processor}, {machine.cores} cores for this process",
        "memory": format_bytes(machine.memory),
        "GPUs": "\n".join(gpus) or "none that the driver reports",
        "PyTorch": f"{diagnosis.torch} on {', '.join(diagnosis.torch_devices)}",
        "measured costs": f"{held if store.problem is None else 'unusable'}, {store.path}",
    }
    return facts(f"This machine, Graphwright {__version__}", rows.items())


def _list_table(clusters: tuple[Cluster, ...]) -> Table:
    table = headed(
        "Clusters",
        name_column("name", no_wrap=True),
        text_column("devices"),
        number_column("memory"),
        text_column("links, each way"),
    )
    for cluster in clusters:
        kinds = cluster.kinds()
        levels = [f"{_speed(v.bandwidth)} between {v.name}s" for v in cluster.levels if v.count > 1]
        links = [f"{len(cluster.links)} direct"] if cluster.links else []
        table.add_row(
            cluster.name,
            ", ".join(f"{count} x {kind.name}" for kind, count in kinds.items()),
            format_bytes(sum(kind.memory * count for kind, count in kinds.items())),
            ", ".join(levels + links) or "none",
        )
    return table


def _cluster_rows(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for kind, count in cluster.kinds().items():
        rates = ", ".join(f"{rate / 1e12:.3g} T/s {dtype}" for dtype, rate in kind.rates.items())
        alone = "" if kind.overlaps else ", no computing while it sends and receives"
        memory = f"{format_bytes(kind.memory)} at {_speed(kind.bandwidth)}"
        launch = f"{kind.launch * 1e6:.3g} µs a launch"
        yield f"{count} x {kind.name}", f"{memory}, {launch}{alone}; {rates}"
    for level in cluster.levels:
        how = "one medium for all" if level.shared else "each way"
        speed = f"{_speed(level.bandwidth)} {how}, {level.latency * 1e6:.3g} µs"
        yield f"{level.count} x {level.name}", speed
    for link in cluster.links:
        a, b = link.devices
        yield f"link {a}-{b}", f"{_speed(link.bandwidth)}, {link.latency * 1e6:.3g} µs"
    if cluster.host is not None:
        one, both = _speed(cluster.host.bandwidth), _speed(cluster.host.duplex)
        yield "host memory", f"{one} one way, {both} both ways"
    if cluster.price is not None:
        yield "price", f"{cluster.price:g} per device and hour"
    yield "source", cluster.source or "not said"


def _speed(bandwidth: float) -> str:
    return f"{format_bytes(int(bandwidth))}/s"
