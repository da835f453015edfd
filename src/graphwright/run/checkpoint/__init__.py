"""Save and load training state under any plan."""

from graphwright.run.checkpoint.folder import latest
from graphwright.run.checkpoint.save_load import (
    DamagedCheckpoint,
    examine,
    load,
    load_into_module,
    load_step,
    save,
)
from graphwright.run.checkpoint.shards import Shard
