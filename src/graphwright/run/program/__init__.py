"""One rank's program as a module that PyTorch runs."""

from graphwright.run.program.allocator import keep_freed_memory, touch_memory
from graphwright.run.program.cuda_graph import Recorded, may_record
from graphwright.run.program.module import Links, Pending, build_module, run_module
from graphwright.run.program.regions import cut, find_rows, hide_rows, move_rows, window
