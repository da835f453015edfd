"""Running a memory plan: an arena of fixed size, host memory behind it, three streams."""

from graphwright.run.program.swapping.arena import Arena, HostSlab
from graphwright.run.program.swapping.executor import SwapExecutor
from graphwright.run.program.swapping.placing import layouts_made, write_into, write_updates
from graphwright.run.program.swapping.ranks import RankExecutor
from graphwright.run.program.swapping.streams import CpuStreams, CudaStreams, Streams
