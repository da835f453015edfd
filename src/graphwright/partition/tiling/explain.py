"""A tiling plan in words: every array with its tiles, the copies of it, and the bytes they cost.

array     shape          operator  split  tiles   copies  MB received
x         2000000 x 32   given            4 x 1
mm        2000000 x 16   aten.mm   i i    4 x 1
mm_1      16 x 32        aten.mm   k k    4 terms  whole   0.012
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphwright.ir import TensorType
from graphwright.plans import Partial, Replicated, Sharding

if TYPE_CHECKING:
    from graphwright.partition.tiling.plan import TilingPlan

_HEADINGS = ("array", "shape", "operator", "split", "tiles", "copies", "MB received")


def explain_tilings(plan: TilingPlan) -> str:
    """Every array of a plan in a line: inputs first, then in the order of the program."""
    graph = plan.graph
    rows: list[tuple[str, ...]] = [_HEADINGS]
    makers = {name: node for node in graph.nodes for name in node.outputs}
    for name in (*graph.inputs, *makers):
        type, node = graph.tensors[name].type, makers.get(name)
        rows.append(
            (
                name,
                " x ".join(map(str, type.shape)) or "1",
                "given" if node is None else node.op,
                "" if node is None else str(plan.strategy(node.name)),
                spell_tiles(plan.shardings[name], type),
                ", ".join(spell_tiles(copy, type) for copy in plan.copies[name]),
                f"{plan.moved[name] / 1e6:,.3f}" if plan.moved[name] else "",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if at == len(_HEADINGS) - 1 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, f"{plan.nbytes / 1e6:,.3f} MB received by {plan.workers} workers"])


def spell_tiles(sharding: Sharding, type: TensorType) -> str:
    """How an array lies: "4 x 1" by rows, "2 x 2" in blocks, "whole" on all workers, "terms".

    Tiles are shifted where they are not cut evenly: by a halo, or as a slice needs them.
    """
    sizes = sharding.mesh.shape
    copies = terms = 1
    for placement, size in zip(sharding.placements, sizes, strict=True):
        if isinstance(placement, Replicated):
            copies *= size
        elif isinstance(placement, Partial):
            terms *= size
    ways = [sharding.ways(dim) for dim in range(type.rank)]
    split = max(ways, default=1) > 1
    words = [" x ".join(map(str, ways))] if split else []
    if sharding.pieces:
        words[-1] += " shifted"
    if terms > 1:
        words.append(f"{terms} terms")
    if copies > 1:
        words.append(f"on {copies} workers each" if split or terms > 1 else "whole")
    return ", ".join(words) or "whole"
