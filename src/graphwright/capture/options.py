"""The options of `gw.capture` as a graph keeps them, so that it can be captured again.

clip_norm=1.0, accumulate=1, batch_dim={"inputs.0": 1}, autocast=torch.bfloat16
{"clip_norm": 1.0, "batch_dim": (("inputs.0", 1),), "autocast": "bfloat16"}

The numbers, flags and words beside a batch's tensors are kept too, under "arguments".
"""

from __future__ import annotations

from typing import Any

import torch

from graphwright.aten import BatchDim
from graphwright.ir import Attr, Graph


def write_options(
    clip_norm: float | None,
    accumulate: int,
    batch_dim: BatchDim,
    autocast: torch.dtype | None,
    mixed_precision: torch.dtype | None = None,
) -> dict[str, Attr]:
    """Those that are not the default."""
    options: dict[str, Attr] = {}
    if clip_norm is not None:
        options["clip_norm"] = float(clip_norm)
    if accumulate != 1:
        options["accumulate"] = accumulate
        options["batch_dim"] = batch_dim if isinstance(batch_dim, int) else tuple(batch_dim.items())
    for name, dtype in (("autocast", autocast), ("mixed_precision", mixed_precision)):
        if dtype is not None:
            options[name] = str(dtype).removeprefix("torch.")
    return options


def read_arguments(graph: Graph) -> dict[str, Attr]:
    """The numbers, flags and words of the batch that a graph was captured with, by name."""
    return dict(graph.options.get("arguments", ()))  # type: ignore[arg-type]


def read_options(graph: Graph) -> dict[str, Any]:
    """The options that a graph was captured with, for `gw.capture`."""
    kept = graph.options
    options: dict[str, Any] = {n: kept[n] for n in ("clip_norm", "accumulate") if n in kept}
    for name in ("autocast", "mixed_precision"):
        if name in kept:
            options[name] = getattr(torch, str(kept[name]), None)
    if "batch_dim" in kept:
        dim = kept["batch_dim"]
        options["batch_dim"] = dict(dim) if isinstance(dim, tuple) else dim  # type: ignore[arg-type]
    return options
