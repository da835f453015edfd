"""What calls cost by a formula: what they do and move, by their descriptions, on a named machine.

    launch + max(operations / rate, bytes / bandwidth)

Rates and bandwidths are those that kernels of the kind reach. Nothing is measured, so that every
process finds the same prices.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.describe import PRODUCTS, Types, arithmetic, cost, is_described
from graphwright.ir import CONSTANT_OP, Attr, Attrs
from graphwright.machine import Device


class FormulaPrice:
    """Seconds of calls on a device; each distinct one is computed once."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._known: dict[tuple[str, str, Types], float] = {}

    def __call__(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        """Seconds of one call."""
        key = (op, Attrs(attrs).text, types)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._seconds(op, attrs, types)
        return known

    def _seconds(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        if op == CONSTANT_OP:
            return 0.0
        device, count = self.device, cost(op, attrs, types)
        if count.operations == 0 and count.bytes == 0:
            return 0.0
        if not is_described(op):
            return device.launch + count.bytes / device.bandwidth
        what = arithmetic(op, attrs, types)
        base, share = device.rate_source(what.dtype)
        rate = share * device.rates[base]
        if what.kind in PRODUCTS:
            intensity = count.operations / max(count.bytes, 1)
            rate *= float(device.reached(what.kind, base, intensity))
        bandwidth = device.bandwidth * float(device.reached("elementwise", base, 1.0))
        return device.launch + max(count.operations / rate, count.bytes / bandwidth)
