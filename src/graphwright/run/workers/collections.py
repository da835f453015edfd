"""To and from dask.array: the same blocks under the names of Dask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Client

Box = tuple[tuple[int, int], ...]


def to_dask_array(blocks: Mapping[Box, Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """The dask.array whose chunks are blocks that workers hold, by their boxes."""
    import dask.array as da

    cuts = [sorted({box[d] for box in blocks}) for d in range(len(shape))]
    chunks = tuple(tuple(stop - start for start, stop in own) for own in cuts)
    name = f"graphwright-{id(blocks):x}"
    graph = {}
    for box, future in blocks.items():
        place = tuple(own.index(ends) for own, ends in zip(cuts, box, strict=True))
        graph[(name, *place)] = future
    return da.Array(graph, name, chunks, dtype=dtype)


def from_dask_array(array: Any, client: Client) -> Any:
    """The value of a dask.array, computed by the client's workers, as one NumPy array."""
    return client.compute(array).result()
