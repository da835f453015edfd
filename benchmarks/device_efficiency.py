"""What kernels reach of a device's rates and bandwidth, beside the curves of its preset.

Calls of every kind of arithmetic (`machine.efficiency`) in several sizes and dtypes are timed one by one, as `graphwright calibrate` does, on the device at hand. A call's share is what it must compute or move, by its
description, over its time less a launch, over the rate or bandwidth of the data sheet. Models are trained in calls of these kinds: if the curves are true here, predictions without calibration are true.

Targets: the preset's share within 25% of what was measured for nine in ten calls of each kind that take at least ten launches, and the mean over each kind within 10%. Without a GPU there is nothing to compare: the figures of a CPU are measured on first use. It says so and ends with status 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch

from _report import finish, parse_options, print_table, save_result
from graphwright.aten import complete_call, infer_types
from graphwright.ir import Attr, TensorType
from graphwright.machine import Store
from graphwright.run import calibrate
from graphwright.simulate import CostModel

Shape = tuple[int, ...]
Given = tuple[str, Mapping[str, Attr], list[tuple[Shape, str]]]
OFF, MEAN_OFF, SHARE, LAUNCHES = 0.25, 0.10, 0.9, 10


def products() -> Iterator[Given]:
    """Square, thin and batched products; one with rows that are not aligned."""
    for dtype in ("bfloat16", "float32"):
        for n in (1024, 2048, 4096, 8192):
            yield "aten.mm", {}, [((n, n), dtype), ((n, n), dtype)]
            yield "aten.mm", {}, [((4 * n, 512), dtype), ((512, 2048), dtype)]
            yield "aten.bmm", {}, [((64, n // 2, 64), dtype), ((64, 64, n // 2), dtype)]
        for rows in (8192, 24576):
            yield "aten.mm", {}, [((rows, 768), dtype), ((768, 50257), dtype)]


def convolutions() -> Iterator[Given]:
    """Those of residual networks, the first one included."""
    for dtype in ("float32", "bfloat16"):
        for channels, size, kernel in (
            (64, 56, 1), (64, 56, 3), (128, 28, 3), (256, 14, 1), (256, 14, 3), (512, 7, 3),
        ):  # fmt: skip
            window: dict[str, Attr] = {
                "stride": (1, 1), "padding": (kernel // 2,) * 2, "dilation": (1, 1),
                "transposed": False, "output_padding": (0, 0), "groups": 1,
            }  # fmt: skip
            image, weight = (128, channels, size, size), (channels, channels, kernel, kernel)
            yield "aten.convolution", window, [(image, dtype), (weight, dtype)]


def moves() -> Iterator[Given]:
    """Element by element, with and without a change of dtype."""
    for n in (4096, 8192, 16384):
        for dtype in ("float32", "bfloat16"):
            yield "aten.add.Tensor", {}, [((n, n), dtype), ((n, n), dtype)]
            yield "aten.gelu", {}, [((n, n), dtype)]
        yield "aten._to_copy", {"dtype": "bfloat16"}, [((n, n), "float32")]
        yield "aten._to_copy", {"dtype": "float32"}, [((n, n), "bfloat16")]


def attentions() -> Iterator[Given]:
    """Causal, 16,384 tokens in all, 16 heads of 128."""
    for length in (512, 1024, 2048, 4096, 8192):
        query = ((16384 // length, 16, length, 128), "bfloat16")
        yield (
            "aten._scaled_dot_product_flash_attention_for_cpu",
            {"is_causal": True},
            [query, query, query],
        )


def main() -> int:
    options = parse_options(__doc__)
    if not torch.cuda.is_available():
        print("no GPU here: nothing to compare")
        return 0
    torch.backends.cudnn.benchmark = True
    calls = []
    for op, attrs, inputs in (*products(), *convolutions(), *moves(), *attentions()):
        known, types = complete_call(op, attrs, [TensorType(*each) for each in inputs])
        calls.append((op, known, infer_types(op, types, known)))
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "costs.sqlite")
        found = calibrate(calls, device="cuda", store=store, seconds=0.02 if options.quick else 0.1)
    device, costs = found.figures, CostModel(measured=False)
    rows, saved = [], []
    by_kind: dict[tuple[str, str], list[float]] = {}
    for row in found.rows:
        work = costs.work(row.op, row.attrs, row.types)
        kind, dtype = work.what.kind, work.what.dtype
        predicted = float(costs.seconds(device, work.what, work.operations, work.bytes))
        seconds = row.measured - device.launch
        bound_by_memory = kind not in ("product", "convolution", "attention")
        rate = device.rate("tf32" if kind == "convolution" and dtype == "float32" else dtype)
        best = work.bytes / device.bandwidth if bound_by_memory else work.operations / rate
        if row.measured >= LAUNCHES * device.launch:
            by_kind.setdefault((kind, dtype), []).append(predicted / seconds - 1)
        shapes = ", ".join(str(t) for t in row.types.inputs if t is not None)
        rows.append(
            (kind, dtype, shapes, f"{work.operations / work.bytes:.0f}", row.measured * 1e3, best / seconds,
             best / predicted, f"{predicted / seconds - 1:+.0%}")
        )  # fmt: skip
        saved.append((kind, dtype, row.op, shapes, work.operations, work.bytes, row.measured))
    rows.sort(key=lambda r: (r[0], r[1], float(r[3])))
    print_table(("kind", "dtype", "call", "operations/byte", "ms", "share", "preset", "off"), rows)
    for each in found.skipped:
        print(f"not measured: {each.op}: {each.reason}")
    misses = []
    for (kind, dtype), off in sorted(by_kind.items()):
        close = sum(abs(each) <= OFF for each in off) / len(off)
        print(
            f"{kind}, {dtype}: {fmean(off):+.0%} on average, {close:.0%} of {len(off)} calls within {OFF:.0%}"
        )
        if close < SHARE or abs(fmean(off)) > MEAN_OFF:
            misses.append(f"{kind}, {dtype}: {fmean(off):+.0%}, {close:.0%} within {OFF:.0%}")
    save_result("device_efficiency", options, {"device": device.name, "calls": saved})
    return finish(options, misses, f"{len(rows)} calls on {device.name}")


if __name__ == "__main__":
    sys.exit(main())
