"""The figures of a simulated step that a plan keeps, for a frontier to compare.

time                 the makespan
memory, breakdown    the peak of the fullest device
nbytes               bytes that leave a device
compute_time         busy time of the busiest device
communication_time   busy time of the busiest link
"""

from __future__ import annotations

from graphwright.plans import Figures
from graphwright.simulate.timeline import Timeline


def figures(timeline: Timeline, estimate: tuple[float, float] | None = None) -> Figures:
    """Summarise a timeline; `estimate` is the seconds and bytes that the search had expected.

    >>> plan = replace(plan, figures=figures(simulate(graph, plan)))
    """
    peak, busy = timeline.memory.peak, timeline.busy
    fullest = int(peak.argmax()) if len(peak) else 0
    held = timeline.memory.breakdown(fullest) if len(peak) else {}
    return Figures(
        time=timeline.makespan,
        memory=int(peak.max(initial=0)),
        nbytes=timeline.moved_bytes,
        estimate_time=None if estimate is None else float(estimate[0]),
        estimate_memory=None if estimate is None else round(estimate[1]),
        compute_time=float(timeline.computing.max(initial=0.0)),
        communication_time=float(busy[timeline.num_devices :].max(initial=0.0)),
        breakdown=held,
    )
