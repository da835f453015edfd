"""Save and load training state under any plan."""

from graphwright.run.checkpoint.folder import latest
from graphwright.run.checkpoint.save_load import examine, load, load_into_module, save
from graphwright.run.checkpoint.shards import Shard
