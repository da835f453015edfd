"""How long a part of an operator computes: what was measured, else the roofline of its description.

    measured   the store's median for (device, PyTorch, operator, attributes, local types), else
               that of the table that a preset with such a device ships
    roofline   max(operations / rate, bytes / memory bandwidth) + launch
               each with the share of it that kernels of this kind reach (`machine.efficiency`)

The rate is that of the dtype that is multiplied: bfloat16 for attention on bfloat16, though it
saves a logsumexp in float32. Convolutions of float32 multiply in TF32 where a device has it, which
is PyTorch's default. What memory bounds computes outside of matrix units, at the rate of float32 at
most. Matrix units want the channels of images last, and rows at multiples of 16 bytes:

    convolutions   read and write all once more to turn them round, unless ``channels_last`` says
                   that tensors are laid out like that (cuDNN does it; PyTorch's default is not)
    products       reach less where rows begin elsewhere; compilers pad them

``compiled=True`` prices the kernels of a compiled step: a run of element-wise operators reads and
writes each tensor once and is launched once (`tasks.fusion`). ``fusion="modules"`` prices PyTorch's
eager kernels, where a batch norm is one: capture takes it apart, and Graphwright runs the pieces;
``"foreach"`` those with an optimizer that is not ``fused=True``.
Measurements are of single operators, so they count for what is not fused.

Views move nothing and constants are there before the step, so both take no time. Transfers are in
`communication`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import PRODUCTS, Arithmetic, Types, arithmetic, cost
from graphwright.ir import CONSTANT_OP, Attr, Attrs, TensorType
from graphwright.machine import Cluster, Device, Measurement, Store, preset_computes
from graphwright.plans import transfers
from graphwright.simulate.communication import (
    Table,
    analytic,
    load_handling,
    load_tables,
    signature,
)
from graphwright.tasks import ALONE, EAGER, Fused, Fusion, Traffic

Floats = NDArray[np.float64] | float
Key = tuple[str, str, Types]
"""What tells two computations apart: operator, attributes' text, local types."""


class AssumedRate(UserWarning):
    """A device lists no rate for a dtype that a step multiplies in, so another one's was used."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a call does: its kind of arithmetic, how many operations, and bytes moved."""

    what: Arithmetic
    operations: int
    bytes: int


class CostModel:
    """Seconds for what tasks do; implements `tasks.Costs`.

    Measurements come from `store`, by default the user's own (see `machine.Store`), read in bulk
    for every device and cluster met; what is measured later is not seen. ``measured=False`` goes by
    formulas alone. `num_measured` and `num_estimated` count the distinct calls asked for so far.
    `compiled`: price what `torch.compile` makes of a step, not an operator at a time; short for
    ``fusion="all"``. `channels_last`: images are in that memory format.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        measured: bool = True,
        compiled: bool = False,
        fusion: Fusion = "none",
        channels_last: bool = False,
    ) -> None:
        self._store = store
        self._measured = measured
        self.fusion: Fusion = "all" if compiled else fusion
        self.channels_last = channels_last
        self.num_measured = self.num_estimated = 0
        self._by_identity: dict[int, tuple[Device, dict[Key, float]]] = {}
        self._by_device: dict[Device, dict[Key, float]] = {}
        self._fused: dict[tuple[Device, Key, Fused], float] = {}
        self._work: dict[Key, Work] = {}
        self._assumed: set[tuple[str, str]] = set()
        self._measurements: dict[str, Mapping[tuple[str, str, str], Measurement]] = {}
        self._handling: dict[Cluster, tuple[float, float] | None] = {}
        self._tables: dict[int, tuple[Cluster, Mapping[tuple[str, str], Table]]] = {}

    @cached_property
    def formulas(self) -> CostModel:
        """The same without measurements."""
        if not self._measured:
            return self
        return CostModel(measured=False, fusion=self.fusion, channels_last=self.channels_last)

    def compute(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        """Seconds that one part of an operator takes on a device."""
        text = attrs.text if type(attrs) is Attrs else Attrs(attrs).text
        entry = self._by_identity.get(id(device))
        known = self._known(device) if entry is None else entry[1]
        key = (op, text, types)
        seconds = known.get(key)
        if seconds is None:
            seconds = known[key] = self._seconds(key, attrs, device)
        return seconds

    def compute_fused(
        self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device, fused: Fused
    ) -> float:
        """Seconds that one part of an operator adds to the kernel that it is fused into."""
        if fused == ALONE:
            return self.compute(op, attrs, types, device)
        text = attrs.text if type(attrs) is Attrs else Attrs(attrs).text
        key = (device, (op, text, types), fused)
        seconds = self._fused.get(key)
        if seconds is None:
            work = self.work(op, attrs, types)
            inside = sum(
                kept * t.nbytes
                for kept, t in (
                    *zip(fused.inputs, types.inputs, strict=True),
                    *zip(fused.outputs, types.outputs, strict=True),
                )
                if t is not None
            )
            what = work.what
            own = not any((*fused.inputs, *fused.outputs))
            if what.kind == "cast" and not (own and self.fusion in EAGER):  # no kernel for it
                what = Arithmetic("elementwise", what.dtype)
            nbytes = max(0.0, work.bytes - inside)
            seconds = float(self.seconds(device, what, work.operations, nbytes))
            seconds = self._fused[key] = seconds + (device.launch if fused.launches else 0.0)
        return seconds

    def communicate(self, traffic: Traffic) -> float:
        """Seconds from the start to the end of a hop's transfers."""
        if self._measured:
            tables = self._tables_of(traffic.cluster)
            if tables:
                table = tables.get(
                    (traffic.kind.name, signature(traffic.spans, traffic.contenders))
                )
                if table is not None:
                    return table.time(traffic.nbytes)
        return analytic(traffic)

    def has_measured(self, device: Device) -> bool:
        """Whether anything was measured on such a device."""
        return self._measured and bool(self._measurements_of(device.name))

    def roofline(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        """Seconds by the formula, whatever was measured."""
        text = attrs.text if type(attrs) is Attrs else Attrs(attrs).text
        return self._roofline((op, text, types), attrs, device)

    def measurement(
        self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device
    ) -> Measurement | None:
        """What was measured for a call, if anything was."""
        if not self._measured:
            return None
        text = attrs.text if type(attrs) is Attrs else Attrs(attrs).text
        return self._measurements_of(device.name).get((op, text, spell_types(types)))

    def _known(self, device: Device) -> dict[Key, float]:
        """The seconds known for a device: by its identity, as hashing a device is slow."""
        known = self._by_device.setdefault(device, {})
        self._by_identity[id(device)] = (device, known)  # kept, so that the identity stays its own
        return known

    def handle(
        self, kind: transfers.TransferKind, nbytes: float, device: Device, cluster: Cluster
    ) -> float:
        """Seconds of its own time that a device takes for a transfer by which it gets `nbytes`."""
        if self._measured and cluster not in self._handling:
            self._handling[cluster] = load_handling(self._open(), cluster)
        measured = self._handling.get(cluster)
        if measured is None:
            return device.handles(nbytes)
        each, per_byte = measured
        return each + per_byte * nbytes

    def _seconds(self, key: Key, attrs: Mapping[str, Attr], device: Device) -> float:
        seconds = self._roofline(key, attrs, device)
        if seconds > 0 and self._measured:
            op, text, types = key
            known = self._measurements_of(device.name)
            measured = known.get((op, text, spell_types(types))) if known else None
            if measured is not None:
                self.num_measured += 1
                return measured.seconds
        self.num_estimated += seconds > 0
        return seconds

    def _roofline(self, key: Key, attrs: Mapping[str, Attr], device: Device) -> float:
        op, _, types = key
        if op == CONSTANT_OP:
            return 0.0
        work = self.work(op, attrs, types)
        if work.operations == 0 and work.bytes == 0:
            return 0.0
        return device.launch + float(self.seconds(device, work.what, work.operations, work.bytes))

    def work(self, op: str, attrs: Mapping[str, Attr], types: Types) -> Work:
        """What a call does."""
        text = attrs.text if type(attrs) is Attrs else Attrs(attrs).text
        key = (op, text, types)
        work = self._work.get(key)
        if work is None:
            count = cost(op, attrs, types)
            what = arithmetic(op, attrs, types)
            work = self._work[key] = Work(what, count.operations, count.bytes)
        return work

    def seconds(
        self, device: Device, what: Arithmetic, operations: Floats, nbytes: Floats
    ) -> Floats:
        """Seconds by the roofline, without the launch, for one call or for many."""
        kind, dtype = what.kind, what.dtype
        if kind == "convolution" and dtype == "float32" and "tf32" in device.rates:
            dtype = "tf32"
        bandwidth = device.bandwidth * device.reached(_moving(kind), dtype, 1.0)
        if kind not in PRODUCTS:
            rate: Floats = min(device.rate(dtype), device.rate("float32"))
            return np.maximum(operations / rate, nbytes / bandwidth)
        base, share = device.rate_source(dtype)
        if base != dtype and _has_matrix_units(device):
            self._report_rate(device, dtype, base, share)
        intensity = operations / np.maximum(nbytes, 1.0)
        rate = share * device.rates[base] * device.reached(kind, base, intensity)
        on_matrix_units = device.rates[base] > device.rates["float32"]
        if on_matrix_units and not what.aligned and self.fusion != "all":
            rate = rate * device.reached("unaligned", base, 1.0)
        seconds = np.maximum(operations / rate, nbytes / bandwidth)
        if on_matrix_units and kind == "convolution" and not self.channels_last:
            seconds = seconds + 2 * nbytes / bandwidth
        return seconds

    def _report_rate(self, device: Device, dtype: str, base: str, share: float) -> None:
        """Say once that the rate of another dtype is used."""
        if (device.name, dtype) not in self._assumed:
            self._assumed.add((device.name, dtype))
            times = "" if share == 1 else f", times {share:g}"
            warnings.warn(
                f"{device.name} lists no rate for {dtype}, which this step multiplies in: that of "
                f"{base}{times} is used ({share * device.rates[base] / 1e12:.4g} T/s); if it has "
                f"one, add {dtype} under [device.rates] in a cluster file",
                AssumedRate,
                stacklevel=2,
            )

    def _measurements_of(self, device: str) -> Mapping[tuple[str, str, str], Measurement]:
        known = self._measurements.get(device)
        if known is None:
            own = self._open().load_compute(device, measured_with())
            known = self._measurements[device] = {**preset_computes(device), **own}
        return known

    def _tables_of(self, cluster: Cluster) -> Mapping[tuple[str, str], Table]:
        entry = self._tables.get(id(cluster))
        if entry is None:
            entry = self._tables[id(cluster)] = (cluster, load_tables(self._open(), cluster))
        return entry[1]

    def _open(self) -> Store:
        if self._store is None:
            self._store = Store()
        return self._store


def _moving(kind: str) -> str:
    """The kind whose share of the bandwidth counts."""
    return "elementwise" if kind in PRODUCTS else kind


def _has_matrix_units(device: Device) -> bool:
    """Whether narrow floats multiply at rates of their own; elsewhere float32 stands for them."""
    return not device.rates.keys().isdisjoint(("float16", "bfloat16"))


def spell_types(types: Types) -> str:
    """How the store names the types of a call: `float32[4, 6], _ -> float32[4, 6]`."""
    return f"{', '.join(map(_spell, types.inputs))} -> {', '.join(map(_spell, types.outputs))}"


def _spell(type: TensorType | None) -> str:
    return "_" if type is None else repr(type)


METHOD = 7
"""Counts the ways in which calls have been measured: since the second one beside what the other
ranks do and with inputs that no cache holds, since the fourth in sweeps and with memory that is
there, since the fifth with masks in runs, since the sixth with what a step takes beyond its
parts, since the seventh among other calls and into memory that no cache holds."""


@cache
def torch_version() -> str:
    """The release of PyTorch, read without importing it."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return "none"


def measured_with() -> str:
    """Whose measurements count: the release of PyTorch, and the way of measuring.

    Builds of one release share their measurements: a GPU's are made by a CUDA build, and often used
    by a CPU build.
    """
    return f"{torch_version()}, method {METHOD}"
