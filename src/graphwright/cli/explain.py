"""``graphwright explain`` and ``graphwright diff``: why a plan is what it is; how two differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, BatchSize, ModelOrGraph, Small, app
from graphwright.cli.inputs import Pick, check_model, load_graph, load_plan, open_plans
from graphwright.cli.inputs import pick as choose
from graphwright.errors import InvalidOption

if TYPE_CHECKING:
    from graphwright.plans import Plan


@app.command()
def explain(
    plan: Annotated[
        Path, typer.Argument(help="A plan or a frontier saved by `graphwright plan -o`.")
    ],
    model: ModelOrGraph,
    pick: Pick = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print the whole program, a line for every operator.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw which device has which part of every weight (.png, .svg)."),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    output: Annotated[
        Path | None, outputs.option("Save the picked plan by itself (.json, .json.gz).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a plan does with every operator, what that costs, and why the next best lost.

    `graphwright explain gpt2.plans.json gpt2 --pick turning-point`

    A plan does not hold its graph: name the model too, with the same batch size. Of blocks that
    repeat, one is shown.
    """
    outputs.check(picture, outputs.PICTURES)
    outputs.check(output, outputs.PLANS)
    given = load_plan(plan, pick)

    from graphwright import report

    with Console(stderr=True).status(f"Capturing {model}") as status:
        graph = load_graph(model, batch_size, small, given)
        check_model(given, graph, plan, model)
        status.update("Asking what else there was")
        if every and not as_json:
            program = list(report.annotated_program(graph, given))
        else:
            explanation = report.explain_plan(graph, given)
        if picture is not None:
            status.update(f"Drawing {picture}")
            report.plot((graph, given), picture)
        if output is not None:
            given.save(output)
    outputs.say_saved(picture, output)
    if every and not as_json:
        print("\n".join(program))
    else:
        outputs.print_result(explanation, as_json, title=model)


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A saved plan, or a frontier.")],
    second: Annotated[
        Path, typer.Argument(help="Another one; or the same frontier, with two --pick.")
    ],
    model: Annotated[
        str | None,
        typer.Argument(
            help="The model of both plans. Operators are then named by their modules, and plans "
            "that were never simulated are."
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
        difference = report.diff_plans(one, other, graph, names=names)
    outputs.print_result(difference, as_json)


def _load_both(first: Path, second: Path, picks: list[str]) -> tuple[list[Plan], tuple[str, str]]:
    """The plans and their names; picks go to the frontiers in their order, a single one to both."""
    from graphwright.plans import Frontier

    files = [(path, open_plans(path)) for path in (first, second)]
    number = sum(isinstance(opened, Frontier) for _, opened in files)
    if len(picks) > number:
        raise InvalidOption(
            f"--pick is given {len(picks)} times, but {number} of the two files are frontiers to "
            "pick from"
        )
    choices = iter(picks * 2 if len(picks) < number else picks)
    plans, names = [], []
    for path, opened in files:
        if isinstance(opened, Frontier):
            choice = next(choices, None)
            plans.append(choose(opened, choice, path))
            names.append(f"{path.name}, {choice}")
        else:
            plans.append(opened)
            names.append(path.name)
    return plans, (names[0], names[1])
