"""``graphwright run``: train a model on several workers, under a plan."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli.app import AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import NamesInHelp, Pick, load_model, load_plan, size
from graphwright.cli.progress import progress

if TYPE_CHECKING:
    from graphwright.plans import Plan


@app.command(cls=NamesInHelp)
def run(
    model: Model,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many processes to start on this machine. Leave it out under torchrun, which starts them itself.",
        ),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            help="A saved plan or frontier (.json), or a plan by name, made for this machine: "
            "`fastest`, `smallest`, `fewest-bytes`, `turning-point`, {recipes}, {systems}, `mcmc`."
        ),
    ] = "fastest",
    pick: Pick = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="What a plan may take of every worker, as `500MB`; its share if not given."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps in all, those of a checkpoint included; 10, or 3 with --check, if not given.",
        ),
    ] = None,
    batch_size: BatchSize = None,
    small: Small = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of dropout, of a plan's search, and of what a function of yours draws.",
        ),
    ] = 0,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Train a few steps both ways, with the plan and on one device, and compare every tensor; exit status 1 where they differ.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The folder of the checkpoints; one is saved at the end.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Save one after so many steps, too; three stay.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the newest checkpoint, whatever plan and number of workers saved it.",
        ),
    ] = False,
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic",
            help="When a worker is lost, plan for those that are left and go on from the newest checkpoint. Under torchrun, which restarts "
            "workers itself: begin from the newest checkpoint if there is one.",
        ),
    ] = False,
    torch_compile: Annotated[
        bool,
        typer.Option(
            "--torch-compile",
            help="Compile what each worker computes between what it sends and receives; takes a while at the first step.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on several workers, each with its part, exactly as on one device.

    `graphwright run lenet --workers 4 --plan fastest --steps 20`

    `graphwright run lenet --workers 4 --check` says how far it is from training on one device.

    `torchrun --nproc-per-node 4 -m graphwright run lenet` does the same with the processes of torchrun.

    Every step trains on the model's one batch; in a training loop of your own, use `gw.compile`.
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

    with progress(as_json or os.environ.get("RANK", "0") != "0") as report:
        report(f"capturing and planning {model}", 0, 0)
        session = open_session(make, options, report=report)
    console = Console(stderr=as_json, soft_wrap=True, highlight=False, markup=False)
    outcome = session.run(console.print)
    if not outcome.is_first:
        return
    if as_json:
        print(json.dumps(outcome.to_dict(), indent=2))
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
