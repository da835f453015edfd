"""Files of plans and of frontiers, and which plan of a frontier is meant: ``--pick``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphwright.errors import InvalidOption, PlanFormatError, PlanMismatch

if TYPE_CHECKING:
    from graphwright.ir import Graph
    from graphwright.plans import Frontier, Plan

Pick = Annotated[
    str | None,
    typer.Option(
        help="Which plan of a frontier: `fastest`, `fastest:14.5GB` (the fastest within that "
        "memory), `smallest`, `turning-point`, its number, or a plan it is compared with, such as "
        "`data`."
    ),
]


def load_plan(path: Path, choice: str | None) -> Plan:
    """The plan in a file, or the picked one of a frontier."""
    from graphwright.plans import Frontier

    plans = open_plans(path)
    if isinstance(plans, Frontier):
        return pick(plans, choice, path)
    if choice is not None:
        raise InvalidOption(f"--pick {choice}: {path} holds one plan, not a frontier to pick from")
    return plans


def open_plans(path: Path) -> Plan | Frontier:
    """What a file holds."""
    from graphwright.plans import Plan

    try:
        return Plan.load(path)
    except PlanFormatError as error:
        return _load_frontier(path, error)


def _load_frontier(path: Path, error: PlanFormatError) -> Frontier:
    from graphwright.plans import Frontier

    try:
        return Frontier.load(path)
    except PlanFormatError as other:
        if "not a frontier" not in str(other):
            raise
        if "not a plan" not in str(error):
            raise error from None
        raise PlanFormatError(
            f"{path} is neither a plan nor a frontier; `graphwright plan MODEL --cluster CLUSTER "
            "-o FILE` makes one"
        ) from None


def pick(frontier: Frontier, choice: str | None, path: Path) -> Plan:
    """One plan of a frontier, as a word or a number says."""
    number = len(frontier)
    ways = f"fastest, fastest:14.5GB, smallest, turning-point, 1 to {number}"
    if frontier.others:
        ways += f", or {', '.join(frontier.others)}"
    noun = "plan" if number == 1 else "plans"
    match (choice or "").partition(":"):
        case ("fastest", "", _):
            return frontier.fastest()
        case ("fastest", _, memory):
            return frontier.fastest(size(memory))
        case ("smallest", "", _):
            return frontier.smallest()
        case ("turning-point", "", _):
            return frontier.turning_point()
        case (word, "", _) if word in frontier.others:
            return frontier.others[word]
        case (word, "", _) if word.isdecimal() and 1 <= int(word[:9]) <= number:
            return frontier[int(word) - 1]
        case ("", "", _):
            raise InvalidOption(
                f"{path} is a frontier of {number} {noun}; choose one with --pick: {ways}"
            )
    raise InvalidOption(
        f"--pick {choice}: {path} is a frontier of {number} {noun}; choose one of {ways}"
    )


def size(text: str) -> int | str:
    """A size as the interface takes it: a plain number is one of bytes."""
    return int(text) if text.isdecimal() and len(text) < 20 else text


def check_model(plan: Plan, graph: Graph, path: Path, model: str) -> None:
    """Refuse a plan of another model, or of the same one in another size."""
    from graphwright.plans import check_plan

    if plan.graph_hash != graph.hash:
        raise PlanMismatch(
            f"{path} was planned for graph {plan.graph_hash[:12]}, but {model} is "
            f"{graph.hash[:12]}; name the model that it was planned for, with the same "
            "--batch-size and --small, or plan again"
        )
    check_plan(plan, graph)
