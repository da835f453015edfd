"""What an ATen call costs, for the search over graphs: measured here, or by a formula.

    measured     the call runs a few times on random inputs; the quickest counts
    roofline     max(operations / rate, bytes / bandwidth) + launch, of a device of `machine`

Operators that have a form in place are timed so, as the optimised module runs most of them. Views
cost nothing. Every distinct call is priced once in a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from time import perf_counter, thread_time

import torch
from torch import Tensor

from graphwright.aten import (
    call_kernel,
    in_own_memory,
    in_place_of,
    keeps_channels_last,
    laid_out,
    to_dtype,
)
from graphwright.describe import Types, is_described
from graphwright.errors import GraphwrightError
from graphwright.ir import Attr, Attrs, TensorType
from graphwright.machine import Device
from graphwright.rewrite import ChannelsLast
from graphwright.simulate import CostModel

Key = tuple[str, str, Types]


def is_view(
    op: str, attrs: Mapping[str, Attr], types: Types, *, channels_last: bool = False
) -> bool:
    """Whether a call moves nothing, as its result lies in the memory of an input."""
    return in_own_memory(op, attrs, types.inputs, channels_last=channels_last) is False


COLD = 32 << 20
"""Elements that weights are taken from in turns: more than caches hold."""
WEIGHTS = {"conv2d": 1, "convolution": 1, "linear": 1, "mm": 1, "addmm": 2}
"""Which argument is usually a weight."""


def clock_of(device: torch.device) -> Callable[[], float]:
    """A clock for calls; with one thread on a CPU, it stands while other programs have the core."""
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return thread_time if alone else perf_counter


class MeasuredPrice:
    """Seconds of calls on a device, each measured once; `seconds` is what measuring took.

    A model reads all its weights in turn, and each result right after it was made. So weights come
    from memory here, and all else from where the last call left it.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        channels_last: bool = False,
        repeats: int = 8,
        limit: float = 0.05,
    ) -> None:
        self.device, self.repeats, self.limit = device, repeats, limit
        self.channels_last = channels_last
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.seconds, self._known = 0.0, dict[Key, float]()
        self._memory: dict[torch.dtype, Tensor] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        """Seconds of one call."""
        if is_view(op, attrs, types, channels_last=self.channels_last):
            return 0.0
        op, attrs, types = _without_bias(op, attrs, types)
        key = (op, Attrs(attrs).text, types)
        known = self._known.get(key)
        if known is None:
            started = perf_counter()
            known = self._known[key] = self._measure(op, attrs, types)
            self.seconds += perf_counter() - started
        return known

    def _measure(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        written = in_place_of(op) if types.inputs[:1] == types.outputs[:1] else None
        inputs = [
            None if t is None else laid_out(_sample(t, self.device), self.layout)
            for t in types.inputs
        ]
        try:
            with torch.no_grad():
                return self._quickest(written or op, inputs, attrs)
        except (RuntimeError, IndexError, GraphwrightError):  # such inputs are not what it takes
            nbytes = sum(t.nbytes for t in (*types.inputs, *types.outputs) if t is not None)
            return nbytes / 1e10

    def _quickest(self, op: str, inputs: list[Tensor | None], attrs: Mapping[str, Attr]) -> float:
        best, spent, clock = float("inf"), float("inf"), clock_of(self.device)
        for _ in range(self.repeats + 1):  # the first one warms up
            place = WEIGHTS.get(op.split(".")[1])
            if place is not None:
                inputs[place] = self._cold(inputs[place])
            started = clock()
            call_kernel(op, inputs, attrs, self.device)
            self._wait()
            took = clock() - started
            if spent == float("inf"):
                spent = 0.0
                continue
            best, spent = min(best, took), spent + took
            if spent > self.limit:
                break
        return best

    def _cold(self, like: Tensor | None) -> Tensor | None:
        """Another tensor of this type that no cache holds."""
        if like is None or like.numel() * 2 > COLD:
            return like
        memory = self._memory.get(like.dtype)
        if memory is None:
            memory = self._memory[like.dtype] = torch.rand(
                COLD, dtype=like.dtype, device=like.device
            )
        if self._next + like.numel() > COLD:
            self._next = 0
        taken = memory[self._next : self._next + like.numel()]
        self._next += like.numel()
        if like.dim() == 4 and self.layout == torch.channels_last:
            outputs, depth, height, width = like.shape
            return taken.view(outputs, height, width, depth).permute(0, 3, 1, 2)
        return taken.view(like.shape)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


TURNED = (0, 2, 3, 1)
"""The order of dims in memory where channels are last."""


def measured_prices(device: torch.device) -> tuple[MeasuredPrice, ChannelsLast]:
    """Prices of calls on images in the order of their dims, and with their channels last."""
    price, last = MeasuredPrice(device), MeasuredPrice(device, channels_last=True)

    def copy(type: TensorType) -> float:
        turned = TensorType(tuple(type.shape[dim] for dim in TURNED), type.dtype)
        return price("aten.permute_copy", {"dims": TURNED}, Types((type,), (turned,)))

    def keeps(op: str, attrs: Mapping[str, Attr], types: Types) -> bool:
        return keeps_channels_last(op, attrs, types.inputs, device)

    return price, ChannelsLast(price=last, keeps=keeps, copy=copy)


def _without_bias(
    op: str, attrs: Mapping[str, Attr], types: Types
) -> tuple[str, Mapping[str, Attr], Types]:
    """The same call as one kernel that is measured once, whatever its name and bias."""
    if op == "aten.convolution" and not attrs["transposed"]:
        op, kept = "aten.conv2d", ("stride", "padding", "dilation", "groups")
        attrs = {name: attrs[name] for name in kept}
    if op in ("aten.conv2d", "aten.linear"):
        types = Types((*types.inputs[:2], None), types.outputs)
    return op, attrs, types


def _sample(type: TensorType, device: torch.device) -> Tensor:
    dtype = to_dtype(type.dtype)
    assert dtype is not None
    if dtype.is_floating_point:
        return torch.rand(type.shape, dtype=dtype, device=device)
    return torch.zeros(type.shape, dtype=dtype, device=device)


class RooflinePrice:
    """Seconds of calls by formulas, for a device that need not be there."""

    def __init__(self, device: Device) -> None:
        self.device, self._costs = device, CostModel(measured=False)

    def __call__(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        """Seconds of one call; of an operator without description, those of its bytes."""
        if is_view(op, attrs, types):
            return 0.0
        op, attrs, types = _described(op, attrs, types)
        if is_described(op):
            return self._costs.compute(op, attrs, types, self.device)
        nbytes = sum(t.nbytes for t in (*types.inputs, *types.outputs) if t is not None)
        return self.device.launch + nbytes / self.device.bandwidth


def _described(
    op: str, attrs: Mapping[str, Attr], types: Types
) -> tuple[str, Mapping[str, Attr], Types]:
    """The same call as the operator that has a description."""
    match op:
        case "aten.conv2d":
            return (
                "aten.convolution",
                {**attrs, "transposed": False, "output_padding": (0, 0)},
                types,
            )
        case "aten.linear":
            x, w = types.inputs[:2]
            assert x is not None and w is not None
            rows, (columns, depth) = prod(x.shape[:-1]), w.shape
            shapes = ((rows, depth), (depth, columns), (rows, columns))
            a, b, made = (TensorType(shape, x.dtype) for shape in shapes)
            return "aten.mm", {}, Types((a, b), (made,))
        case _:
            return op, attrs, types
