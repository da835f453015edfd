"""One way to show whatever a stage returned, and one to have it as data.

    show(result)       tables on a console                        what a verb prints
    to_dict(result)    plain numbers, strings, lists and tables   what it prints with --json

Both choose by the type of the result; the module of a type has the two functions for it.
"""

from __future__ import annotations

from rich.console import Console

from graphwright.errors import InvalidOption
from graphwright.ir import Graph
from graphwright.partition import Profile
from graphwright.plans import Frontier, Plan
from graphwright.report import rules
from graphwright.report.explain import Explanation, PlanDiff, diff, explanation
from graphwright.report.tables import (
    Coverage,
    Diagnosis,
    Listing,
    OperatorReport,
    calibration,
    coverage,
    doctor,
    frontier,
    graph,
    listing,
    operator,
    plan,
    profile,
    timeline,
)
from graphwright.simulate import Calibration, Timeline

Result = (
    Calibration
    | Coverage
    | Diagnosis
    | Explanation
    | Frontier
    | Graph
    | Listing
    | OperatorReport
    | Plan
    | PlanDiff
    | Profile
    | rules.RuleListing
    | Timeline
)


def to_dict(
    result: Result, *, limit: int | None = None
) -> dict[str, object] | list[dict[str, object]]:
    """A result as JSON-ready data; of a graph its statistics, of described operators a list.

    `limit` is for a frontier: what a plan may take of a device, all of its memory if not given.
    """
    match result:
        case Calibration():
            return calibration.to_dict(result)
        case Coverage():
            return coverage.to_dict(result)
        case Diagnosis():
            return doctor.to_dict(result)
        case Explanation():
            return explanation.to_dict(result)
        case Frontier():
            return frontier.to_dict(result, _limit(result, limit))
        case Graph():
            return graph.to_dict(result)
        case Listing():
            return listing.to_dict(result)
        case OperatorReport():
            return operator.to_dict(result)
        case Plan():
            return plan.to_dict(result)
        case PlanDiff():
            return diff.to_dict(result)
        case Profile():
            return profile.to_dict(result)
        case rules.RuleListing():
            return rules.to_dict(result)
        case Timeline():
            return result.to_dict()
        case _:
            raise InvalidOption(f"{type(result).__name__} is no result of a stage")


def show(
    result: Result, console: Console | None = None, *, title: str = "", limit: int | None = None
) -> None:
    """Print a result; `title` says of what it is, `limit` is as for `to_dict`."""
    console = Console() if console is None else console
    match result:
        case Calibration():
            calibration.show(result, console)
        case Coverage():
            coverage.show(result, console)
        case Diagnosis():
            doctor.show(result, console)
        case Explanation():
            explanation.show(result, console, title)
        case Frontier():
            frontier.show(result, console, title, _limit(result, limit))
        case Graph():
            graph.show(result, console, title)
        case Listing():
            listing.show(result, console)
        case OperatorReport():
            operator.show(result, console)
        case Plan():
            plan.show(result, console, title)
        case PlanDiff():
            diff.show(result, console)
        case Profile():
            profile.show(result, console, title)
        case rules.RuleListing():
            rules.show(result, console)
        case Timeline():
            timeline.show(result, console, title)
        case _:
            raise InvalidOption(f"{type(result).__name__} is no result of a stage")


def _limit(result: Frontier, limit: int | None) -> int:
    """What a plan may take of a device."""
    if limit is not None:
        return limit
    return min(device.memory for device in result.plans[0].cluster.devices)
