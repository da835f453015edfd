"""One way to draw whatever a stage returned; of a plan, who has what of its graph."""

from __future__ import annotations

from pathlib import Path

from graphwright.errors import InvalidOption
from graphwright.ir import Graph
from graphwright.partition import Profile
from graphwright.plans import Frontier, Plan
from graphwright.report.pictures.calibration import plot_calibration
from graphwright.report.pictures.frontier import plot_frontier
from graphwright.report.pictures.partition import plot_partition
from graphwright.report.pictures.profile import plot_profile
from graphwright.report.pictures.style import check_suffix
from graphwright.simulate import Calibration, Timeline


def plot(
    result: Calibration | Frontier | Profile | Timeline | tuple[Graph, Plan],
    path: str | Path,
    *,
    title: str | None = None,
) -> None:
    """Draw a result into a .png or .svg file.

    >>> gw.plot(gw.plan(graph, "dgx-h100"), "frontier.png")
    >>> gw.plot((graph, plan), "partition.svg")     # a plan alone does not know its tensors
    """
    path = check_suffix(path)
    match result:
        case Calibration():
            plot_calibration(result, path)
        case Frontier():
            plot_frontier(result, path, title)
        case Profile():
            limit = min(device.memory for device in result.cluster.devices)
            plot_profile(result.rows, path, title=title, memory_limit=limit, caption=_where(result))
        case Timeline():
            result.save(path)
        case (Graph() as graph, Plan() as plan):
            plot_partition(graph, plan, path, title=title)
        case Plan():
            raise InvalidOption("a plan alone does not know its tensors; draw (graph, plan)")
        case _:
            raise InvalidOption(
                f"{type(result).__name__} has no picture; draw a Frontier, a Profile, a Timeline, "
                "a Calibration, or (graph, plan)"
            )


def _where(profile: Profile) -> str:
    """The machine, and the graph where a plan says so."""
    made = next((row.plan for row in profile if row.plan is not None), None)
    seed = None if made is None or made.seed is None else f"seed {made.seed}"
    graph = None if made is None else f"graph {made.graph_hash[:12]}"
    return " · ".join(part for part in (profile.cluster.name, seed, graph) if part)
