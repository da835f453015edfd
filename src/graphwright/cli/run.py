"""``graphwright run`` and ``graphwright gnn-train``: train on several workers."""

from __future__ import annotations

import os
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphwright.cli import outputs
from graphwright.cli.app import MAX_SEED, AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import NamesInHelp, Pick, load_gnn, load_model, load_plan, size

if TYPE_CHECKING:
    from graphwright.gnn.distributed import Epoch, Trained
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
    swap: Annotated[
        bool,
        typer.Option(
            "--swap",
            help="Let the plan need more than --memory: what does not fit waits in host memory.",
        ),
    ] = False,
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
            max=MAX_SEED,
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
        swap=swap,
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


@app.command("gnn-train")
def gnn_train(
    model: Annotated[
        str,
        typer.Argument(
            help="`file.py:function`; the function takes no arguments and returns (model, graph): "
            "the model is called as model(graph, features), the graph has features of its nodes."
        ),
    ],
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="How many processes to start. Leave it out under torchrun."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs to train.")] = 100,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Adam's learning rate.")] = 0.01,
    partition: Annotated[
        str,
        typer.Option(help="How vertices are divided: `learned`, `edges` or `vertices`."),
    ] = "learned",
    order: Annotated[
        str | None,
        typer.Option(help="`metis` numbers vertices anew, so that fewer edges join workers."),
    ] = None,
    fanouts: Annotated[
        str | None,
        typer.Option(help="Train on sampled neighbours: edges into each vertex by layer, `10,10`."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Seeds of a sampled mini-batch.")] = 512,
    memory: Annotated[
        str | None,
        typer.Option(
            help="What each worker's device holds at most, as `2GB`; the rest waits on the host."
        ),
    ] = None,
    caching: Annotated[
        str,
        typer.Option(
            help="With --memory, what stays on the device: `least` (the fewest bytes are copied), "
            "`recent` or `nothing`."
        ),
    ] = "least",
    features: Annotated[str, typer.Option(help="The node feature that is learned from.")] = "feat",
    labels: Annotated[str, typer.Option(help="The node feature that is to be told.")] = "label",
    evaluate_every: Annotated[
        int, typer.Option(min=0, help="Epochs between two evaluations; 0 for none.")
    ] = 5,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Random seed of dropout and sampling.")
    ] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints; the two newest are kept.")
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Epochs between two checkpoints.")
    ] = 10,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue from the newest checkpoint, with any number of workers."
        ),
    ] = False,
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic",
            help="If a worker is lost, continue with the remaining ones from the newest "
            "checkpoint. Not under torchrun, which restarts workers itself.",
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write the trained model's state_dict() into this .safetensors file. "
            "`graphwright.gnn.data.load_tensors` reads it, as any reader of safetensors does."
        ),
    ] = None,
    balance_plot: Annotated[
        Path | None, typer.Option(help="Draw each worker's load into this .png or .svg file.")
    ] = None,
    accuracy_plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy against time into this .png or .svg file.")
    ] = None,
    output: Annotated[
        Path | None, outputs.option("Write the epochs and the cost model into this .json file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a graph network on the whole graph, each worker with a range of its vertices.

    `graphwright gnn-train model.py:make --workers 4 --epochs 100 --accuracy-plot accuracy.png`

    The parameters are those that a single process would find. Vertices with the boolean features
    train_mask, val_mask and test_mask are learned from and judged by.
    """
    from graphwright.gnn.data import save_tensors
    from graphwright.gnn.distributed import Sampling, adam, distribute_made
    from graphwright.report import plot_accuracy, plot_balance

    for path in (balance_plot, accuracy_plot):
        outputs.check(path, outputs.PICTURES)
    outputs.check(output, (".json",))
    outputs.check(save, (".safetensors",))
    sampling = None
    if fanouts is not None:
        sampling = Sampling(fanouts=_numbers(fanouts, "--fanouts"), batch_size=batch_size)
    with outputs.progress(as_json or os.environ.get("RANK", "0") != "0") as report:
        report(f"starting workers for {model}", 0, epochs)
        trained = distribute_made(
            partial(load_gnn, model), workers=workers, epochs=epochs, features=features,
            labels=labels, partition=partition, order=order, sampling=sampling,
            memory=memory, caching=caching, optimizer=partial(adam, lr=learning_rate),
            evaluate_every=evaluate_every, seed=seed,
            checkpoint=checkpoint, every=checkpoint_every, resume=resume, elastic=elastic,
            on_epoch=lambda epoch: report(_epoch_line(epoch), epoch.number, epochs),
        )  # fmt: skip
    if not trained.epochs:  # another rank tells
        return
    if save is not None:
        save_tensors(str(save), dict(trained.state))
    caption = f"{Path(model).name} · {partition} · seed {seed}"
    if balance_plot is not None:
        plot_balance(trained.epochs, balance_plot, caption=caption)
    if accuracy_plot is not None:
        name = "sampled" if sampling else "whole graph"
        mask = "test" if "test" in trained.epochs[-1].accuracy else "train"
        plot_accuracy({name: trained.epochs}, accuracy_plot, mask=mask, caption=caption)
    data = trained.to_dict()
    if output is not None:
        outputs.save_json(data, output)
    if as_json:
        outputs.print_json(data)
    else:
        _show_trained(trained)
    outputs.say_saved(save, balance_plot, accuracy_plot, output)


def _numbers(text: str, flag: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{flag} takes numbers with commas, as 10,10. Got {text}"
        ) from None


def _epoch_line(epoch: Epoch) -> str:
    right = "".join(f", {name} {share:.1%}" for name, share in epoch.accuracy.items())
    return f"loss {epoch.loss:.4g}{right}"


def _show_trained(trained: Trained) -> None:
    from graphwright.plans import format_seconds

    console = Console(soft_wrap=True, highlight=False, markup=False)
    first, last = trained.epochs[0], trained.epochs[-1]
    console.print(f"loss {first.loss:.4g} -> {last.loss:.4g} in {len(trained.epochs)} epochs")
    for name, share in last.accuracy.items():
        console.print(f"{name}: {share:.1%} of the vertices right")
    console.print(
        f"an epoch took {format_seconds(trained.epoch_seconds)} at the end; the slowest worker "
        f"computed {last.imbalance:.2f} times the mean"
    )
    for line in trained.lost:
        console.print(f"went on without a worker: {line}")
    for number, (low, high) in enumerate(pairwise(trained.bounds)):
        busy = format_seconds(sum(last.busy[number]))
        console.print(f"worker {number}: vertices {low:,} to {high:,}, busy {busy} an epoch")
