"""``graphwright run``: train a model on several workers, under a plan."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import NamesInHelp, Pick, load_model, load_plan, size

if TYPE_CHECKING:
    from graphwright.plans import Plan


@app.command(cls=NamesInHelp)
def run(
    model: Model,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many processes to start on this machine. Leave it out under torchrun, which "
            "starts them itself.",
        ),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            help="A saved plan or frontier (.json), or the name of a plan to make for this "
            "machine: `fastest`, `smallest`, `fewest-bytes`, `turning-point`, {recipes}, "
            "{systems}, `mcmc`."
        ),
    ] = "fastest",
    pick: Pick = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="The most memory a plan may need on any worker, as `500MB`. Default: the worker's "
            "share of this machine's."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many steps to train, including those of a checkpoint. Default: 10; 3 with "
            "--check.",
        ),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Random seed: of dropout, of the search, and of torch when your function runs.",
        ),
    ] = 0,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Train a few steps under the plan and on one device, and compare every tensor. "
            "Exit status 1 if they differ.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints. One is saved at the end of the training."),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Also save a checkpoint after every so many steps; the last three are kept."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue from the newest checkpoint, whatever plan and number of workers saved "
            "it.",
        ),
    ] = False,
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic",
            help="If a worker is lost, plan for the remaining ones and continue from the newest "
            "checkpoint. Under torchrun, which restarts workers itself: start from the newest "
            "checkpoint if there is one.",
        ),
    ] = False,
    torch_compile: Annotated[
        bool,
        typer.Option(
            "--torch-compile",
            help="Compile what each worker computes between transfers with torch.compile. The "
            "first step takes longer.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on several workers, each with its part, exactly as on one device.

    `graphwright run lenet --workers 4 --plan fastest --steps 20`

    `graphwright run lenet --workers 4 --check` reports how far it is from training on one device.

    `torchrun --nproc-per-node 4 -m graphwright run lenet` does the same with torchrun's processes.

    Every step trains on the model's one batch. For a training loop of your own, use `gw.compile`.
    """
    from graphwright.pipeline import RunOptions, open_session

    options = RunOptions(
        workers=workers,
        plan=_find_plan(plan, pick),
        memory=None if memory is None else size(memory),
        steps=steps,
        seed=seed,
        check=check,
        checkpoint=checkpoint,
        every=checkpoint_every,
        resume=resume,
        elastic=elastic,
        torch_compile=torch_compile,
        quiet=as_json,
    )
    make = partial(load_model, model, batch_size, small)

    with outputs.progress(as_json or os.environ.get("RANK", "0") != "0") as report:
        report(f"capturing and planning {model}", 0, 0)
        session = open_session(make, options, report=report)
    console = Console(stderr=as_json, soft_wrap=True, highlight=False, markup=False)
    outcome = session.run(console.print)
    if not outcome.is_first:
        return
    if as_json:
        outputs.print_json(outcome.to_dict())
    else:
        for line in outcome.lines():
            console.print(line)
    if outcome.comparison is not None and not outcome.comparison.agrees:
        raise typer.Exit(1)


def _find_plan(text: str, pick: str | None) -> Plan | str:
    """A plan from a file, or the name of one."""
    if text.endswith((".json", ".json.gz")):
        return load_plan(Path(text), pick)
    if pick is not None:
        raise typer.BadParameter("--pick chooses from a frontier; give its file with --plan")
    return text
