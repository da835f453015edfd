"""``graphwright optimize``: a model for inference, faster, by proved substitutions."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from graphwright.cli import outputs
from graphwright.cli.app import MAX_SEED, AsJson, BatchSize, Model, Small, app
from graphwright.cli.inputs import load_model
from graphwright.errors import InvalidOption

if TYPE_CHECKING:
    from graphwright.pipeline import Optimized

FILES = (".pt", ".pt2", ".onnx")


class Prices(StrEnum):
    """Where costs of operators come from."""

    MEASURED = "measured"
    ROOFLINE = "roofline"


class Algorithm(StrEnum):
    """How graphs are searched."""

    BACKTRACKING = "backtracking"
    SATURATION = "saturation"


@app.command()
def optimize(
    model: Model,
    batch_size: BatchSize = 1,
    small: Small = False,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help="For an ONNX file with open dims: the size of one, batch=1, or the shape of an "
            "input, image=1,3,224,224. Repeat it for several."
        ),
    ] = None,
    prices: Annotated[
        Prices,
        typer.Option(
            help="measured: run every distinct operator on this machine; roofline: by formulas, "
            "which is quicker, the same each time, and less true."
        ),
    ] = Prices.MEASURED,
    algorithm: Annotated[
        Algorithm,
        typer.Option(
            help="backtracking: graph by graph, by cost; saturation: all rules at once, in classes "
            "of equal terms, of which the cheapest graph is taken."
        ),
    ] = Algorithm.BACKTRACKING,
    alpha: Annotated[
        float,
        typer.Option(
            min=1.0,
            help="Backtracking goes on from graphs that cost up to this many times the best: 1 is "
            "greedy.",
        ),
    ] = 1.05,
    budget: Annotated[
        int,
        typer.Option(
            min=1,
            help="Look at so many graphs for each distinct piece of the model, or at ten times as "
            "many terms by saturation.",
        ),
    ] = 300,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Stop searching after so long, with the best so far.")
    ] = 60.0,
    check: Annotated[
        bool,
        typer.Option(help="Compare the results with the original's on random inputs."),
    ] = True,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Random seed of the inputs to compare.")
    ] = 0,
    output: Annotated[
        Path | None,
        outputs.option(
            "Save the optimised model: .pt for Graphwright, .pt2 for torch.export, .onnx."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a model faster for inference: rewrite its graph by substitutions that are proved equal.

    `graphwright optimize inception-v3` predicts the gain, `-o inception.pt2` saves the model.

    `graphwright optimize my_model.py:make --prices roofline --json`

    `graphwright optimize model.onnx --shape batch=1 -o faster.onnx` reads an ONNX file.

    Batch norms and biases become part of convolutions, then the search merges what the rules allow:
    products of one input, poolings and convolutions, branches. What depends on weights alone is
    computed once. `graphwright rules 269` shows a rule that was used. The result is checked, and
    the rules' outcome is only kept where it runs faster here.
    """
    outputs.check(output, FILES)

    from graphwright.aten import split_batch
    from graphwright.pipeline import optimize as make

    with outputs.progress(as_json) as tell:
        tell(f"loading {model}", 0, 0)
        source: Any = model
        inputs: Any = None
        if not model.endswith(".onnx"):
            workload = load_model(model, None if _is_file(model) else batch_size, small, "cpu")
            # a model without a loss function is given its inputs alone
            inputs, _ = split_batch(workload.batch, has_targets=workload.loss_fn is not None)
            source = workload.model.eval()
        result = make(
            source,
            inputs,
            shapes=_shapes(shape) if shape or inputs is None else None,
            prices=prices.value,
            algorithm=algorithm.value,
            alpha=alpha,
            budget=budget,
            seconds=seconds,
            check=check,
            seed=seed,
            report=tell,
        )
        if output is not None:
            tell(f"saving {output}", 0, 0)
            result.save(output, inputs)
    outputs.say_saved(output)
    if as_json:
        outputs.print_json(asdict(result.report))
    else:
        _show(model, result)


def _is_file(model: str) -> bool:
    return ":" in model or model.endswith(".py")


def _shapes(given: list[str] | None) -> dict[str, int | tuple[int, ...]]:
    """Sizes by names: batch=1, image=1,3,224,224."""
    shapes: dict[str, int | tuple[int, ...]] = {}
    for text in given or ():
        name, _, sizes = text.rpartition("=")
        try:
            numbers = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            numbers = ()
        if not name or not numbers:
            raise InvalidOption(f"--shape {text}: give a size, batch=1, or image=1,3,224,224")
        shapes[name] = numbers if len(numbers) > 1 else numbers[0]
    return shapes


def _show(model: str, result: Optimized) -> None:
    from graphwright.rewrite.substitutions import every_rule

    made, console = result.report, Console()
    table = Table(title=f"{model}, one inference", title_justify="left")
    for name in ("", "kernels", "predicted"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("as given", f"{made.kernels_before}", _milliseconds(made.original))
    table.add_row("norms and biases merged", "", _milliseconds(made.merged))
    table.add_row("optimised", f"{made.kernels_after}", _milliseconds(made.optimized))
    console.print(table)
    rules: list[Any] = [(every_rule()[n], count) for n, count in made.applied.items()]
    for rule, count in rules:
        console.print(f"{count:>4} x rule {rule}", highlight=False)
    if not made.kept:
        console.print("the rules' outcome was not faster here: only norms and biases are merged")
    console.print(
        f"{made.seen:,} graphs in {made.distinct} distinct of {made.pieces} pieces, "
        f"{made.seconds:.1f} s, of which {made.measuring:.1f} s measuring"
    )
    if made.channels_last:
        console.print(
            f"{made.channels_last} kernels read images with their channels last, faster here"
        )
    if made.difference is not None:
        by = " by onnxruntime" if made.compared_with == "onnxruntime" else ""
        console.print(f"results differ from the original's{by} by at most {made.difference:.1e}")
    if made.unsupported:
        listed = ", ".join(f"{count} {name}" for name, count in made.unsupported.items())
        console.print(f"kept as they are, run by onnxruntime: {listed}", highlight=False)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"
