"""How long a part of an operator computes: what was measured, else the roofline of its description.

    measured   the store's median for (device, PyTorch, operator, attributes, local types), else
               that of the table that a preset with such a device ships
    roofline   max(operations / rate of the widest float, bytes / memory bandwidth) + launch

Views move nothing and constants are there before the step, so both take no time. Transfers are in
`communication`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version

from graphwright.describe import Cost, Types, cost
from graphwright.ir import CONSTANT_OP, DTYPE_BYTES, Attr, Attrs, TensorType
from graphwright.machine import Cluster, Device, Measurement, Store, preset_computes
from graphwright.simulate.communication import Table, analytic, load_tables, signature
from graphwright.tasks import Traffic

Key = tuple[str, str, Types]
"""What tells two computations apart: operator, attributes' text, local types."""


class CostModel:
    """Seconds for what tasks do; implements `tasks.Costs`.

    Measurements come from `store`, by default the user's own (see `machine.Store`), read in bulk
    for every device and cluster met; what is measured later is not seen. ``measured=False`` goes by
    formulas alone. `num_measured` and `num_estimated` count the distinct calls asked for so far.
    """

    def __init__(self, store: Store | None = None, *, measured: bool = True) -> None:
        self._store = store
        self._measured = measured
        self.num_measured = self.num_estimated = 0
        self._by_identity: dict[int, tuple[Device, dict[Key, float]]] = {}
        self._by_device: dict[Device, dict[Key, float]] = {}
        self._work: dict[Key, Cost] = {}
        self._measurements: dict[str, Mapping[tuple[str, str, str], Measurement]] = {}
        self._tables: dict[int, tuple[Cluster, Mapping[tuple[str, str], Table]]] = {}

    @cached_property
    def formulas(self) -> CostModel:
        """The same without measurements."""
        return CostModel(measured=False) if self._measured else self

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
        work = self._work.get(key)
        if work is None:
            work = self._work[key] = cost(op, attrs, types)
        if work.operations == 0 and work.bytes == 0:
            return 0.0
        return device.launch + max(
            work.operations / device.rate(rate_dtype(types)), work.bytes / device.bandwidth
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


def rate_dtype(types: Types) -> str:
    """The dtype whose rate counts: the widest float of the call, float32 where there is none.

    A tensor without dims does not count beside one that has some, as it does not in PyTorch's
    promotion of types.
    """
    floats = [t for t in (*types.inputs, *types.outputs) if t is not None and _is_float(t.dtype)]
    wide = [t for t in floats if t.shape] or floats
    dtype = max((t.dtype for t in wide), key=DTYPE_BYTES.__getitem__, default="float32")
    return {"complex128": "float64", "complex64": "float32", "complex32": "float16"}.get(
        dtype, dtype
    )


def _is_float(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


def spell_types(types: Types) -> str:
    """How the store names the types of a call: `float32[4, 6], _ -> float32[4, 6]`."""
    return f"{', '.join(map(_spell, types.inputs))} -> {', '.join(map(_spell, types.outputs))}"


def _spell(type: TensorType | None) -> str:
    return "_" if type is None else repr(type)


METHOD = 6
"""Counts the ways in which calls have been measured: since the second one beside what the other
ranks do and with inputs that no cache holds, since the fourth in sweeps and with memory that is
there, since the fifth with masks in runs, since the sixth with what a step takes beyond its
parts."""


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
