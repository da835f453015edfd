"""One rank's program as a module that PyTorch runs."""

from graphwright.run.program.allocator import keep_freed_memory, touch_memory
from graphwright.run.program.cuda_graph import CudaGraphRunner, may_use_cuda_graph
from graphwright.run.program.module import build_module, run_module
from graphwright.run.program.overwriting import find_in_place, written_by
from graphwright.run.program.regions import cut, find_rows, hide_rows, move_rows, window
from graphwright.run.program.swapping import (
    RankExecutor,
    SwapExecutor,
    layouts_made,
    write_into,
    write_updates,
)
from graphwright.run.program.targets import Pending, Transport
