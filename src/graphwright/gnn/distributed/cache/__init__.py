"""A device's memory as a cache of the host's, for training on a graph that does not fit (ROC)."""

from graphwright.gnn.distributed.cache.device import DeviceCache
from graphwright.gnn.distributed.cache.passes import CACHING, Pass
