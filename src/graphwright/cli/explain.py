"""``graphwright explain`` and ``graphwright diff``: why a plan is what it is, and how two plans differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, BatchSize, ModelOrGraph, Small, app, check_output
from graphwright.cli.inputs import Pick, check_model, load_graph, load_plan, open_plans
from graphwright.cli.inputs import pick as choose
from graphwright.cli.plan import PICTURE_SUFFIXES, PLAN_SUFFIXES
from graphwright.errors import InvalidOption

if TYPE_CHECKING:
    from graphwright.plans import Plan


@app.command()
def explain(
    plan: Annotated[
        Path, typer.Argument(help="A plan or a frontier that `graphwright plan -o` saved.")
    ],
    model: ModelOrGraph,
    pick: Pick = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print every operator as a line of the program.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw which device has which part of every weight (.png, .svg)."),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Save the plan by itself (.json, .json.gz)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a plan does with every operator, what that costs, and what the next best would.

    `graphwright explain gpt2.plans.json gpt2 --pick turning-point`

    The plan does not hold the graph, so the model is named too, with the same batch size. Blocks that are repeated are shown once.
    """
    check_output(picture, PICTURE_SUFFIXES)
    check_output(output, PLAN_SUFFIXES)
    given = load_plan(plan, pick)

    from graphwright import report

    progress = Console(stderr=True)
    with progress.status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small, given)
        check_model(given, graph, plan, model)
        status.update("Asking what else there was")
        if every and not as_json:
            program = list(report.annotated_program(graph, given))
        else:
            found = report.explain_plan(graph, given)
        if picture is not None:
            status.update(f"Drawing {picture}")
            report.plot((graph, given), picture)
        if output is not None:
            given.save(output)
    for path in (picture, output):
        if path is not None:
            progress.print(f"saved {path}")
    if as_json:
        print(json.dumps(report.to_dict(found), indent=2))
    elif every:
        print("\n".join(program))
    else:
        report.show(found, title=model)


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A saved plan, or a frontier.")],
    second: Annotated[Path, typer.Argument(help="Another; or the same frontier.")],
    model: Annotated[
        str | None,
        typer.Argument(
            help="The model of both: then operators are named by their modules, in words, and what was not simulated is."
        ),
    ] = None,
    pick: Annotated[
        list[str] | None,
        typer.Option(
            help="Which plan of a frontier, as for `explain`; give it twice for two frontiers."
        ),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    as_json: AsJson = False,
) -> None:
    """Compare two plans: what they take, and which operators they split differently.

    `graphwright diff gpt2.plans.json gpt2.plans.json gpt2 --pick data --pick fastest`
    """
    if model is None and (batch_size is not None or small):
        raise typer.BadParameter("--batch-size and --small go with a model")

    from graphwright import report

    (one, other), names = _load_both(first, second, pick or [])
    with Console(stderr=True).status(f"Capturing {model}" if model else "Comparing"):
        graph = None if model is None else load_graph(model, batch_size, small, one)
        if model is not None and graph is not None:
            check_model(one, graph, first, model)
        found = report.diff_plans(one, other, graph, names=names)
    if as_json:
        print(json.dumps(report.to_dict(found), indent=2))
    else:
        report.show(found)


def _load_both(first: Path, second: Path, picks: list[str]) -> tuple[list[Plan], tuple[str, str]]:
    """The plans and their names; choices go to the frontiers in their order, a single one to both."""
    from graphwright.plans import Frontier

    paths = (first, second)
    opened = [open_plans(path) for path in paths]
    number = sum(isinstance(found, Frontier) for found in opened)
    if len(picks) > number:
        raise InvalidOption(
            f"--pick is given {len(picks)} times, but {number} of the two files are frontiers to pick from"
        )
    choices = iter(picks * 2 if len(picks) < number else picks)
    plans, names = [], []
    for path, found in zip(paths, opened, strict=True):
        if isinstance(found, Frontier):
            choice = next(choices, None)
            plans.append(choose(found, choice, path))
            names.append(f"{path.name}, {choice}")
        else:
            plans.append(found)
            names.append(path.name)
    return plans, (names[0], names[1])
