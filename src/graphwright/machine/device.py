"""A kind of device: its memory, arithmetic rates and memory bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphwright.errors import InvalidCluster
from graphwright.frozen import FrozenDict
from graphwright.machine.checks import check_count, check_figure, check_name
from graphwright.machine.efficiency import OTHER, Efficiency, Floats, check_efficiency

DTYPES = frozenset(
    {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
    | {"qint8", "quint8", "qint32", "float4_e2m1fn_x2", "float8_e4m3fn", "float8_e4m3fnuz"}
    | {"float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16", "float32"}
    | {"float64", "complex32", "complex64", "complex128", "tf32"}
)  # fmt: skip
"""The dtypes that a rate may be given for; tf32 is how convolutions of float32 multiply where there
is such a rate (PyTorch's default: `torch.backends.cudnn.allow_tf32`)."""

_FALLBACK = {
    "float64": ("float32", 0.5),
    "complex32": ("float16", 0.25),  # a complex product is four real products
    "complex64": ("float32", 0.25),
    "complex128": ("float64", 0.25),
    "uint8": ("int8", 1.0),
    "qint8": ("int8", 1.0),
    "quint8": ("int8", 1.0),
    "int64": ("int32", 0.5),
    "uint64": ("int32", 0.5),
    "float8_e4m3fn": ("float16", 1.0),
    "float8_e5m2": ("float16", 1.0),
    "float8_e4m3fnuz": ("float8_e4m3fn", 1.0),
    "float8_e5m2fnuz": ("float8_e5m2", 1.0),
}
"""The dtype that estimates a missing rate, and the factor; the default is float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A kind of device.

    `memory` is in bytes, `bandwidth` that of its memory in bytes/s, `launch` the fixed cost of a
    kernel in seconds. `rates` are operations/s by dtype (a multiply-add counts two); float32 is
    required. `overlaps`: it computes while it sends and receives, as GPUs do and CPUs do not.
    `handling` is what each transfer takes of its own time, in seconds, even if it overlaps, and
    `handling_bandwidth` the bytes/s that it receives if it does nothing else, None without limit:
    a CPU passes on what a network brings, a GPU's links do that by themselves.
    `efficiency` is what kernels reach of rates and bandwidth (see `machine.efficiency`). `spread`
    is how far the slowest of several such devices is behind one of them: all others wait for it.
    """

    name: str
    memory: int
    rates: FrozenDict[str, float]
    bandwidth: float
    launch: float
    overlaps: bool = True
    efficiency: Efficiency = FrozenDict()  # noqa: RUF009
    spread: float = 0.0
    handling: float = 0.0
    handling_bandwidth: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "device name")
        place = f"device {self.name!r}"
        memory = check_count(self.memory, f"{place}: memory")
        rates: object = self.rates
        if not isinstance(rates, Mapping):
            raise InvalidCluster(f"{place}: rates: {rates!r} is not a mapping from dtype to rate")
        if "float32" not in rates:
            raise InvalidCluster(f"{place}: rates: float32 is missing; other rates default to it")
        if unknown := sorted(str(name) for name in rates if name not in DTYPES):
            raise InvalidCluster(
                f"{place}: rates: {unknown[0]!r} is not a dtype; use {', '.join(sorted(DTYPES))}"
            )
        checked = {n: check_figure(rates[n], f"{place}: rates: {n}") for n in sorted(rates)}
        object.__setattr__(self, "memory", memory)
        object.__setattr__(self, "rates", FrozenDict(checked))
        object.__setattr__(self, "bandwidth", check_figure(self.bandwidth, f"{place}: bandwidth"))
        object.__setattr__(self, "launch", check_figure(self.launch, f"{place}: launch", zero=True))
        if not isinstance(self.overlaps, bool):
            raise InvalidCluster(f"{place}: overlaps: {self.overlaps!r} is not True or False")
        efficiency = check_efficiency(self.efficiency, checked, f"{place}: efficiency")
        object.__setattr__(self, "efficiency", efficiency)
        spread = check_figure(self.spread, f"{place}: spread", zero=True)
        if spread > 1:
            raise InvalidCluster(f"{place}: spread: {spread:g} is more than 1: twice as slow")
        object.__setattr__(self, "spread", spread)
        handling = check_figure(self.handling, f"{place}: handling", zero=True)
        object.__setattr__(self, "handling", handling)
        if self.handling_bandwidth is not None:
            bandwidth = check_figure(self.handling_bandwidth, f"{place}: handling_bandwidth")
            object.__setattr__(self, "handling_bandwidth", bandwidth)

    def handles(self, nbytes: float) -> float:
        """Seconds of its own time that a transfer takes by which it receives so many bytes."""
        rate = self.handling_bandwidth
        return self.handling + (0.0 if rate is None else nbytes / rate)

    def rate(self, dtype: str) -> float:
        """Operations/s for a dtype: its own rate, or an estimate from a similar dtype."""
        base, share = self.rate_source(dtype)
        return share * self.rates[base]

    def rate_source(self, dtype: str) -> tuple[str, float]:
        """The dtype whose rate stands for that of another, and the factor between them."""
        share = 1.0
        while dtype not in self.rates:
            dtype, factor = _FALLBACK.get(dtype, ("float32", 1.0))
            share *= factor
        return dtype, share

    def reached(self, kind: str, dtype: str, intensity: Floats) -> Floats:
        """The share of its rate, or of the bandwidth, that kernels of a kind reach."""
        curves = self.efficiency.get(kind)
        if not curves:
            return 1.0
        curve = curves.get(dtype) or curves.get(OTHER)
        return 1.0 if curve is None else curve.at(intensity)
