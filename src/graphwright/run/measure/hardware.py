"""The devices of this machine that can be calibrated: their figures and their free memory.

    cpu        all cores: the device of the cluster "local"
    local:4    one of four processes' share of the cores: the device of that cluster
    cuda:1     a GPU, under the name that its driver gives

A GPU's figures come from a preset with the same model; those of an unknown one are measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from graphwright.errors import InvalidMeasurement
from graphwright.machine import (
    Cluster,
    Device,
    FrozenDict,
    cluster,
    free_host_memory,
    inspect_machine,
    preset_names,
)
from graphwright.run.measure.timing import measure

_MODEL = re.compile(r"\b[A-Z]{1,4}\d{1,4}[A-Z]?\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device to calibrate and its figures; a CPU's threads, and how many others compute there."""

    device: torch.device
    figures: Device
    threads: int | None = None
    others: int = 0
    beside: Cluster | None = None
    """The processes of which this is one."""

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """PyTorch uses as many threads as the device has."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def find_target(name: str, figures: Device | None = None) -> Target:
    """The device of this machine that goes by this name, or InvalidMeasurement."""
    if name == "cpu" or name == "local" or name.startswith("local:"):
        return _cpu("local" if name == "cpu" else name, figures)
    if re.fullmatch(r"cuda(:\d{1,3})?", name) is None:
        raise InvalidMeasurement(
            f"there is no device {name!r} to calibrate; give cpu, local:4 (one of 4 processes), "
            "cuda or cuda:1"
        )
    index = int(name.partition(":")[2] or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise InvalidMeasurement(
            f"{name} is not there: PyTorch {torch.__version__} sees {count} CUDA devices here"
        )
    device = torch.device("cuda", index)
    return Target(device=device, figures=figures or gpu_figures(device))


def _cpu(name: str, figures: Device | None) -> Target:
    local = cluster(name)
    cores = inspect_machine().cores
    if local.num_devices > cores:
        raise InvalidMeasurement(
            f"{name}: {local.num_devices} processes on {cores} cores take turns, so none can be "
            f"timed alone; local:{cores} is the most"
        )
    return Target(
        device=torch.device("cpu"),
        figures=figures or local.devices[0],
        threads=cores // local.num_devices,
        others=local.num_devices - 1,
        beside=local if local.num_devices > 1 else None,
    )


def gpu_figures(device: torch.device) -> Device:
    """A GPU's figures: of the preset with this model (with the GPU's own memory), else measured."""
    name = torch.cuda.get_device_name(device)
    memory = torch.cuda.get_device_properties(device).total_memory
    model = gpu_model(name)
    for preset in preset_names():
        for kind in cluster(preset).kinds():
            if kind.name == name or (model is not None and gpu_model(kind.name) == model):
                return replace(kind, name=name, memory=memory)
    return probe(device, name, memory)


def gpu_model(name: str) -> str | None:
    """The model in a GPU's name: `V100` of `Tesla V100-SXM2-16GB`; slower PCIe cards are others."""
    match = _MODEL.search(name)
    return None if match is None else match[0] + (" PCIe" if "PCIe" in name else "")


def probe(device: torch.device, name: str, memory: int) -> Device:
    """The figures of a device, from three calls: a matrix product, a copy, a tiny addition."""
    size, nbytes = (4096, 1 << 28) if device.type == "cuda" else (1024, 1 << 26)
    rates: dict[str, float] = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        a = torch.rand(size, size, device=device).to(dtype)
        seconds = measure(lambda a=a: a @ a, device).seconds  # type: ignore[misc]
        rates[str(dtype).removeprefix("torch.")] = 2 * size**3 / seconds
    source = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    copy = measure(source.clone, device).seconds
    few = torch.zeros(1, device=device)
    return Device(
        name=name,
        memory=memory,
        rates=FrozenDict(rates),
        bandwidth=2 * nbytes / copy,
        launch=measure(lambda: few + few, device).seconds,
    )


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_host_memory()
