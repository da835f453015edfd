"""Tasks on the workers of a Dask cluster, each pinned to the worker that holds what it reads.

Nothing else of Graphwright imports Dask.
"""

from graphwright.run.workers.collections import from_dask_array, to_dask_array
from graphwright.run.workers.dask_workers import (
    KeyOf,
    PinnedTask,
    WorkerLost,
    Workers,
    join_cluster,
    start_local,
)
