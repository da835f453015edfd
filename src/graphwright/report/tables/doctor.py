"""What this machine offers: cores, memory, GPUs, PyTorch, measured costs, clusters to name."""

from __future__ import annotations

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
    preset_names,
)
from graphwright.machine import cluster as find_cluster
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


def diagnose(name: str | None = None) -> Diagnosis:
    """Look at this machine and at a cluster; without a name, at all presets."""
    import torch

    names = [name] if name is not None else [*preset_names(), "local"]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    threads = f"cpu ({torch.get_num_threads()} threads)"
    gpus = (f"cuda:{n} ({torch.cuda.get_device_name(n)})" for n in range(count))
    return Diagnosis(
        machine=inspect_machine(),
        torch=torch.__version__,
        torch_devices=(threads, *gpus),
        store=_store(),
        clusters=tuple(map(find_cluster, names)),
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
        console.print(_cluster_table(diagnosis.clusters[0]))
    else:
        console.print(_list_table(diagnosis.clusters))
        console.print(
            "NAME:4 is four of a cluster's outermost level, local:4 four processes on this "
            "machine; `graphwright doctor --cluster NAME` shows one in full."
        )
    if diagnosis.store.problem is not None:
        console.print(f"[bold red]measured costs[/]: {diagnosis.store.problem}", highlight=False)


def _machine_table(diagnosis: Diagnosis) -> Table:
    table = Table(
        title=f"This machine, Graphwright {__version__}", title_justify="left", show_header=False
    )
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    machine, store = diagnosis.machine, diagnosis.store
    table.add_row("system", f"{machine.system}, Python {machine.python}")
    table.add_row("processor", f"{machine.processor}, {machine.cores} cores for this process")
    table.add_row("memory", format_bytes(machine.memory))
    gpus = [f"{g.name}, {format_bytes(g.memory)}, driver {g.driver}" for g in machine.gpus]
    table.add_row("GPUs", "\n".join(gpus) or "none that the driver reports")
    table.add_row("PyTorch", f"{diagnosis.torch} on {', '.join(diagnosis.torch_devices)}")
    held = f"{store.num_compute:,} of operators, {store.num_collective:,} of collectives"
    table.add_row(
        "measured costs", f"{held if store.problem is None else 'unusable'}, {store.path}"
    )
    return table


def _list_table(clusters: tuple[Cluster, ...]) -> Table:
    table = Table(title="Clusters", title_justify="left")
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("devices", overflow="fold")
    table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("links, each way", overflow="fold")
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


def _cluster_table(cluster: Cluster) -> Table:
    table = Table(title=cluster.name, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for kind, count in cluster.kinds().items():
        rates = ", ".join(f"{rate / 1e12:.3g} T/s {dtype}" for dtype, rate in kind.rates.items())
        table.add_row(
            f"{count} x {kind.name}",
            f"{format_bytes(kind.memory)} at {_speed(kind.bandwidth)}, "
            f"{kind.launch * 1e6:.3g} µs a launch"
            f"{'' if kind.overlaps else ', no computing while it sends and receives'}; {rates}",
        )
    for level in cluster.levels:
        how = "one medium for all" if level.shared else "each way"
        table.add_row(
            f"{level.count} x {level.name}",
            f"{_speed(level.bandwidth)} {how}, {level.latency * 1e6:.3g} µs",
        )
    for link in cluster.links:
        a, b = link.devices
        table.add_row(f"link {a}-{b}", f"{_speed(link.bandwidth)}, {link.latency * 1e6:.3g} µs")
    if cluster.host is not None:
        host = cluster.host
        table.add_row(
            "host memory", f"{_speed(host.bandwidth)} one way, {_speed(host.duplex)} both ways"
        )
    if cluster.price is not None:
        table.add_row("price", f"{cluster.price:g} per device and hour")
    table.add_row("source", cluster.source or "not said")
    return table


def _speed(bandwidth: float) -> str:
    return f"{format_bytes(int(bandwidth))}/s"
