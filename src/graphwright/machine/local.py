"""This machine: its hardware, and N processes on it as a cluster.

N processes share cores, memory and bandwidth evenly. They exchange data through memory, one medium
for all, and the cores that compute also copy.

    estimated   from the cores and their vector units: reproducible and free
    measured    by N processes at once, on first use (`measure_once`): a program of its own, as
                whoever plans needs no PyTorch; kept in the store of measured costs
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from graphwright.errors import GraphwrightError, StoreError
from graphwright.frozen import FrozenDict
from graphwright.machine.checks import check_count, check_total
from graphwright.machine.cluster import Cluster, Level
from graphwright.machine.device import Device
from graphwright.machine.store import Store
from graphwright.machine.toml_file import from_toml

# Estimates for a server core and its share of the memory.
CORE_CYCLES = 1.5e9  # effective cycles per second: 60 % of 2.5 GHz
# Float32 operations per cycle, by vector extension:
CORE_OPERATIONS = {"avx512f": 64, "avx2": 32, "asimd": 16}
OTHER_OPERATIONS = 16
CORE_BANDWIDTH = 10e9  # bytes/s of one core
MACHINE_BANDWIDTH = 100e9  # bytes/s of all cores together
LAUNCH = 5e-6  # seconds that PyTorch needs to start an operator
EXCHANGE_BANDWIDTH = 8e9  # bytes/s of all processes together, reading each other's memory
EXCHANGE_LATENCY = 1e-4  # seconds of a message to a process that may have to wake up
UNKNOWN_MEMORY = 8 << 30  # if the system does not say

SWITCH = "GRAPHWRIGHT_MEASURE"
"""Set to 0, `local:N` goes by estimates until `graphwright calibrate` is told to measure."""
MEASURE_SECONDS = 180.0
"""Measuring is given up after this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU that the driver reports; `memory` is in bytes."""

    name: str
    memory: int
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """What this process can use: cores and memory within its limits, GPUs from the driver."""

    system: str
    processor: str
    cores: int
    memory: int
    gpus: tuple[Gpu, ...]
    python: str


def inspect_machine() -> MachineInfo:
    """Inspect this machine; querying the driver for GPUs may take a second."""
    return MachineInfo(
        system=f"{platform.system()} {platform.release()}".strip(),
        processor=_processor(),
        cores=num_cores(),
        memory=_memory(),
        gpus=_gpus(),
        python=platform.python_version(),
    )


def local_cluster(processes: int) -> Cluster:
    """`processes` processes on this machine, each with its share of cores and memory.

    Its figures are measured where that was done before, otherwise estimated.
    """
    check_count(processes, "local: number of processes")
    check_total(processes, "local")
    return measured_cluster(processes) or estimated_cluster(processes)


def measured_cluster(processes: int, store: Store | None = None) -> Cluster | None:
    """What processes of this machine were measured to be, if they were.

    A store that cannot be read says nothing here; whoever asks it for costs is told.
    """
    try:
        path = (store or Store()).path
        return _read_measured(note_of(processes), path, path.stat().st_mtime_ns)
    except (OSError, StoreError):
        return None


@lru_cache(maxsize=64)
def _read_measured(note: str, path: Path, changed: int) -> Cluster | None:
    text = Store(path).load_note(note)
    try:
        return None if text is None else from_toml(text, f"a note in {path}")
    except GraphwrightError:  # of another version: measured again
        return None


def note_of(processes: int) -> str:
    """The store's name for the figures of so many processes here: several machines may share it."""
    return f"local:{processes} on {_processor()}, {num_cores()} cores, {_memory()} bytes, 1"


def measures_itself(on: Cluster) -> bool:
    """Whether a cluster is processes of this machine as they were measured, and more may be."""
    if os.environ.get(SWITCH, "1") == "0" or "RANK" in os.environ:
        return False
    known = measured_cluster(on.num_devices) if on.name == f"local:{on.num_devices}" else None
    return known is not None and known.devices == on.devices and known.levels == on.levels


def measure_once(processes: int) -> None:
    """Measure so many processes of this machine, unless that was done or is switched off.

    Nothing is measured by ranks of a run, nor where processes would outnumber the cores by far.
    What goes wrong leaves the estimates, and is said.
    """
    if (
        os.environ.get(SWITCH, "1") == "0"
        or "RANK" in os.environ
        or processes > max(4, 2 * num_cores())
        or measured_cluster(processes) is not None
    ):
        return
    command = (sys.executable, "-m", "graphwright.run.measure.machine", str(processes))
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=MEASURE_SECONDS)
        failure = f"exit status {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure:
        os.environ[SWITCH] = "0"  # not again in this process
        print(
            f"graphwright: local:{processes} was not measured ({failure}); its figures are "
            f"estimates. {SWITCH}=0 leaves measuring out",
            file=sys.stderr,
        )


@lru_cache(maxsize=64)
def estimated_cluster(processes: int) -> Cluster:
    """The same by what is known of the cores alone."""
    cores = num_cores()
    share = cores / processes
    rate = _core_operations() * CORE_CYCLES * share
    device = Device(
        name=f"{_processor()} ({share:.3g} of {cores} cores)",
        memory=max(1, _memory() // processes),
        rates=FrozenDict({"float32": rate, "float64": rate / 2}),
        bandwidth=min(CORE_BANDWIDTH * cores, MACHINE_BANDWIDTH) / processes,
        launch=LAUNCH,
        overlaps=False,
    )
    level = Level(
        name="process",
        count=processes,
        bandwidth=EXCHANGE_BANDWIDTH,
        latency=EXCHANGE_LATENCY,
        shared=True,
    )
    return Cluster(
        name=f"local:{processes}",
        levels=(level,),
        devices=(device,) * processes,
        source=f"estimates from {cores} cores, not measured; graphwright calibrate measures them",
    )


def num_cores() -> int:
    """The cores that this process may use, by its affinity and its control group's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        cores = os.cpu_count() or 1
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        cores = min(cores, -(-int(words[0]) // int(words[1])))
    return max(1, cores)


def free_host_memory() -> int:
    """Bytes that this process can still allocate, by the system and its control group."""
    free = [
        int(line.split()[1]) * 1024
        for line in _read("/proc/meminfo").splitlines()
        if line.startswith("MemAvailable:")
    ]
    limit, used = (_read(f"/sys/fs/cgroup/memory.{n}").strip() for n in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        free.append(max(0, int(limit) - int(used)))
    return min(free, default=_memory())


def _core_operations() -> int:
    """The float32 operations per cycle of one core."""
    flags: set[str] = set()
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags.update(value.split())
            break
    return next((n for name, n in CORE_OPERATIONS.items() if name in flags), OTHER_OPERATIONS)


def _memory() -> int:
    """The bytes of memory that this process may use."""
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    limits = [int(limit)] if limit.isdigit() and int(limit) > 0 else []
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limits += [total] if total > 0 else []
    except (AttributeError, OSError, ValueError):
        pass
    return min(limits, default=UNKNOWN_MEMORY)


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Hardware", "cpu model") and value.strip().isprintable():
            return " ".join(value.split()) or "CPU"
    return " ".join((platform.processor() or platform.machine() or "CPU").split()) or "CPU"


def _gpus() -> tuple[Gpu, ...]:
    query = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
    try:
        done = subprocess.run(
            ("nvidia-smi", *query), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    gpus = []
    for line in done.stdout.splitlines():
        name, *rest = (word.strip() for word in line.rsplit(",", 2))
        if len(rest) == 2:
            memory = int(rest[0]) << 20 if rest[0].isdigit() else 0
            gpus.append(Gpu(name=name, memory=memory, driver=rest[1]))
    return tuple(gpus)


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
