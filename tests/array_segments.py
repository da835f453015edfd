"""Run a program of arrays as the workers would, in this process."""

import numpy as np

from graphwright.arrays.expression import needed
from graphwright.arrays.operators import run_segment
from graphwright.arrays.running.program import as_graph, plan_program
from graphwright.errors import InvalidStrategy
from graphwright.lower import cut_into_segments, lower
from graphwright.partition.tiling import worker_cluster
from graphwright.plans import Strategy, make_plan


def run_tiled(array, workers, choose=None):
    """The value of an array, computed by `workers` workers; `choose(graph, axes)` gives strategies."""
    program = as_graph([array._output], needed([array._output], lambda o: o.value is not None))
    if choose is None:
        segments = plan_program(program.graph, workers, {}).segments
    else:
        segments = segments_of(program.graph, workers, choose)
    values = {}
    for name, refs in segments.inputs.items():
        given = program.inputs[name].value
        for rank, ref in refs.items():
            values[ref] = cut(given, segments.homes[name][rank])
    for segment in segments.segments:
        made = run_segment(segment, program.functions, *(values[ref] for ref in segment.reads))
        values.update(zip(segment.makes, (made,) if len(segment.makes) == 1 else made, strict=True))
    ((name, output),) = program.results.items()
    whole = np.zeros(output.type.shape, output.type.dtype)
    for rank, ref in segments.results[name].items():
        whole[tuple(slice(*ends) for ends in segments.homes[name][rank])] = values[ref]
    return whole


def segments_of(graph, workers, choose):
    """Segments under chosen strategies; what cannot be done together is replicated."""
    cluster = worker_cluster(workers)
    axes = [axis.size for axis in cluster.axes]
    strategies = choose(graph, axes)
    for _ in graph.nodes:
        plan = make_plan(graph, cluster, strategies)
        try:
            lowered = lower(graph, plan)
            break
        except InvalidStrategy as error:  # two splits of one dim may not go together
            name = str(error).partition(":")[0]
            strategies[name] = Strategy(("-",) * len(axes))
    return cut_into_segments(graph, [lowered.program(rank) for rank in range(workers)])


def cut(value, box):
    return value[tuple(slice(*ends) for ends in box)]
