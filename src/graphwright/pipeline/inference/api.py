"""`gw.optimize`: a module that computes the same in less time.

    module or ONNX file -> torch.export -> graph -> rewrite by proved rules -> fold -> module
                                                       |                                 |
                                          prices: measured, roofline          checked and raced

Two things stand behind the outcome. It is *checked*: original and result run on random inputs, and
have to agree up to rounding. And it is *raced*: the outcome and the graph before the rules run in
turns, the latter with images in the order of their dims, with channels last, and as prices choose
for each operator; the quickest is returned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from graphwright.aten import call
from graphwright.capture import (
    Exported,
    OnnxModule,
    export,
    read_onnx,
    reference,
    without_cache,
)
from graphwright.describe import types_of
from graphwright.errors import GraphwrightError, InvalidOption
from graphwright.ir import Graph
from graphwright.machine import cluster
from graphwright.pipeline.inference.costs import (
    MeasuredPrice,
    RooflinePrice,
    clock_of,
    is_view,
    measured_prices,
)
from graphwright.pipeline.inference.files import load, save, save_exported
from graphwright.pipeline.inference.fold import fold
from graphwright.pipeline.inference.module import (
    Nested,
    Result,
    program_of,
    shapes_of,
)
from graphwright.pipeline.inference.options import GivenPrice, check_options
from graphwright.rewrite import (
    ALPHA,
    Algorithm,
    ChannelsLast,
    Price,
    Rewritten,
    Tell,
    fixed_tensors,
    is_image,
    layouts_of,
    rewrite_graph,
)

Prices = Literal["measured", "roofline"]
RACES = 7
"""How often each module runs in a race."""


class ResultsDiffer(GraphwrightError):
    """An optimised model does not give the results of the original.

    This should not happen: rules are proved, and rounding alone is far below the limit. Please
    report it with the model. ``check=False`` returns the model without this comparison, and
    ``tolerance`` allows for models that enlarge rounding errors, such as in half precision.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a model was optimised.

    Costs are predicted seconds of an inference: of the model as it was given, with batch norms and
    biases merged, and with the rules of `applied` (numbers of `graphwright rules`, and how often
    each was used). `difference` is the largest between original and result, relative to the
    largest output; None where it was not checked. `kept` says whether the rules' outcome won the
    race against the graph before them; where it did not, that is what is returned. `channels_last`
    is how many kernels read images with their channels last in memory. `unsupported` counts nodes
    of an ONNX file that are kept as they are, and `compared_with` says what the original ran by.
    """

    original: float
    merged: float
    optimized: float
    applied: Mapping[int, int]
    kernels_before: int
    kernels_after: int
    pieces: int
    distinct: int
    seen: int
    seconds: float
    measuring: float
    difference: float | None
    kept: bool
    channels_last: int
    unsupported: Mapping[str, int] = field(default_factory=dict)
    compared_with: str = "PyTorch"

    def __str__(self) -> str:
        rules = ", ".join(f"{n} x {count}" for n, count in self.applied.items()) or "none"
        checked = (
            "not compared with the original" if self.difference is None
            else f"differs from the original by {self.difference:.1e} at most"
        )  # fmt: skip
        return (
            f"{self.kernels_before} kernels -> {self.kernels_after}; "
            f"predicted {1e3 * self.original:.3g} ms -> {1e3 * self.optimized:.3g} ms; "
            f"rules: {rules}; {self.seen} graphs in {self.seconds:.1f} s; {checked}"
        )


class Optimized(nn.Module):
    """An optimised model: call it as the original. `report` says how it came about.

    It is a plain module over ATen calls: `torch.compile`, `torch.export` and `torch.onnx` take it.
    Weights are buffers, some of them computed from several of the original's.
    """

    def __init__(
        self, body: Nested, graph: Graph, report: Report, source: OnnxModule | None = None
    ) -> None:
        super().__init__()
        self.body, self.graph, self.report = body, graph, report
        self._example: tuple[Tensor, ...] | None = None
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        if source is not None:  # of an ONNX file: it says what is needed to write one
            self._example = source.example
            self._names = (source.input_names, source.output_names)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute what the original does."""
        return self.body(*args, **kwargs)

    def save(self, path: str | os.PathLike[str], inputs: Any = None) -> None:
        """Write the model: .pt for `load_optimized`, .pt2 for `torch.export.load`, or .onnx.

        The latter two need example inputs, unless the model was read from an ONNX file, and .onnx
        the packages onnx and onnxscript.
        """
        path = Path(path)
        if path.suffix in (".pt2", ".onnx"):
            given = self._example if inputs is None else inputs
            save_exported(self, given, path, self._names)
        else:
            save(self.body, self.graph, asdict(self.report), path)

    def extra_repr(self) -> str:
        """The report, in the module's text."""
        return str(self.report)


def optimize(
    model: nn.Module | str | os.PathLike[str],
    inputs: Any = None,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    prices: Prices | Price = "measured",
    algorithm: Algorithm = "backtracking",
    alpha: float = ALPHA,
    budget: int = 300,
    seconds: float = 60.0,
    check: bool = True,
    tolerance: float | None = None,
    seed: int = 0,
    report: Tell = lambda what, done, total: None,
) -> Optimized:
    """Return a module that computes what `model` does in inference, in less time.

    `inputs` is an example: a tensor, a tuple (positional arguments) or a mapping (keyword
    arguments); the result takes inputs of the same shapes. The model may be the path of an ONNX
    file: it needs no example where all its shapes are known, and `shapes` gives dims that are open,
    {"batch": 1}; the result takes the file's inputs in its order. `prices` are measured on this
    machine, or by formulas, or a function of a call's name, attributes and types. `algorithm` is
    "backtracking", graph by graph, or "saturation", all at once in an e-graph. `alpha` is how much
    dearer than the best a graph may be that backtracking goes on from, `budget` how many graphs it
    looks at in each distinct piece of the model (a tenth of the nodes of an e-graph), `seconds` how
    long the search may take in all. The result is checked against the model on random inputs like
    the example, drawn with `seed`, to within `tolerance` of the largest output.
    """
    check_options(algorithm, alpha, budget, seconds, tolerance, seed)
    report("reading the model", 0, 0)
    source, original = None, model
    if isinstance(model, str | os.PathLike):
        model = source = read_onnx(Path(model), inputs, shapes=shapes)
        inputs, original = source.example, reference(source)
    elif shapes is not None:
        raise InvalidOption(
            "shapes= is for ONNX files; an example of inputs= has them for a module"
        )
    elif inputs is None:
        raise InvalidOption("a module needs an example of its inputs: gw.optimize(model, inputs)")
    exported = export(model, inputs)
    device = next((t.device for t in exported.weights.values()), torch.device("cpu"))
    tensors = exported.graph.tensors
    has_images = any(is_image(tensors[name].type) for name in exported.graph.inputs)
    price, last = _prices(prices, device, has_images)
    plain = rewrite_graph(exported.graph, lambda op, attrs, types: 0.0, rules=())
    found = rewrite_graph(
        exported.graph,
        price,
        last=last,
        algorithm=algorithm,
        alpha=alpha,
        budget=budget,
        seconds=seconds,
        tell=report,
    )
    report("folding weights", 0, 0)
    candidates = [module_of(exported, (found if found.applied else plain).graph, price, last)]
    kept = True
    if prices == "measured" and (found.applied or last is not None):
        report("racing", 0, 0)
        candidates += _without_rules(exported, plain.graph, price, last)
        distinct: dict[object, tuple[Graph, Nested]] = {}
        for graph, body in candidates:
            distinct.setdefault((graph.program_hash, body.last), (graph, body))
        candidates = list(distinct.values())
        quickest = _race([body for _, body in candidates], inputs, device)
        kept = not found.applied or quickest == 0
        candidates = candidates[quickest:]
        if not kept:
            found = replace(found, cost=found.merged, applied={})
    graph, body = candidates[0]
    difference = None
    if check:
        report("checking", 0, 0)
        assert isinstance(original, nn.Module)
        difference = _checked(original, body, inputs, tolerance, seed)
    used = (price, None if last is None else last.price)
    measuring = sum(p.seconds for p in used if isinstance(p, MeasuredPrice))
    summary = _report(exported.graph, graph, found, measuring, difference, kept, len(body.last))
    if source is not None:
        by = "PyTorch" if original is source else "onnxruntime"
        summary = replace(summary, unsupported=source.kept, compared_with=by)
    return Optimized(body, graph, summary, source)


def load_optimized(path: str | os.PathLike[str]) -> Optimized:
    """Read a model that `Optimized.save` wrote."""
    body, graph, summary = load(Path(path))
    applied = {int(number): count for number, count in summary["applied"].items()}
    return Optimized(body, graph, Report(**{**summary, "applied": applied}))


def _prices(
    prices: Prices | Price, device: torch.device, has_images: bool
) -> tuple[Price, ChannelsLast | None]:
    """Prices of calls, and of those with channels last where both layouts can be measured."""
    if callable(prices):
        return GivenPrice(prices), None
    if prices == "measured":
        price, last = measured_prices(device)
        return price, last if has_images else None
    if prices == "roofline":
        return RooflinePrice(cluster("local:1").devices[0]), None
    raise InvalidOption(f"prices={prices!r}: it has to be 'measured' or 'roofline'")


def _without_rules(
    exported: Exported, plain: Graph, price: Price, last: ChannelsLast | None
) -> Iterator[tuple[Graph, Nested]]:
    """The graph before the rules, in the layouts that prices choose, in one, and in the other."""
    yield module_of(exported, plain, price, last)
    if last is not None:
        yield module_of(exported, plain, price, None)
        free = ChannelsLast(lambda op, attrs, types: 0.0, last.keeps, lambda type: 0.0)
        yield module_of(exported, plain, lambda op, attrs, types: 1.0, free)


def module_of(
    exported: Exported, graph: Graph, price: Price, last: ChannelsLast | None
) -> tuple[Graph, Nested]:
    """A rewritten graph as a module; its outputs are those of the exported graph, in order."""
    folded, weights = fold(graph, exported.weights)
    given = {name: n for n, name in enumerate(exported.inputs) if name is not None}
    made = {name: n for n, name in enumerate(exported.graph.outputs)}
    results: list[Result] = []
    for kind, what in exported.outputs:
        if kind == "plain":
            results.append((kind, what))
        else:
            results.append(("made", made[what]) if what in made else ("given", given[what]))
    read = tuple(given[name] for name in folded.inputs if name in given)
    turned = frozenset[str]()
    if last is not None:
        turned = layouts_of(folded, price, last, fixed_tensors(folded)).nodes
    body = Nested(
        program_of(folded, weights, turned),
        read,
        shapes_of(folded),
        tuple(results),
        exported.in_spec,
        exported.out_spec,
        turned,
    )
    return folded, body.eval()


def _report(
    before: Graph,
    after: Graph,
    found: Rewritten,
    measuring: float,
    difference: float | None,
    kept: bool,
    channels_last: int,
) -> Report:
    return Report(
        original=found.original,
        merged=found.merged,
        optimized=found.cost,
        applied=found.applied,
        kernels_before=_kernels(before),
        kernels_after=_kernels(after),
        pieces=found.pieces,
        distinct=found.distinct,
        seen=found.seen,
        seconds=found.seconds,
        measuring=measuring,
        difference=difference,
        kept=kept,
        channels_last=channels_last,
    )


def _kernels(graph: Graph) -> int:
    return sum(not is_view(n.op, n.attrs, types_of(graph, n)) for n in graph.nodes)


# -- race and check --------------------------------------------------------------------------------


def _race(modules: Sequence[nn.Module], inputs: Any, device: torch.device) -> int:
    """Which of some modules is the quickest; they run in turns."""
    clock = clock_of(device)
    best = [float("inf")] * len(modules)
    with torch.no_grad():
        for _ in range(RACES if len(modules) > 1 else 0):
            for n, module in enumerate(modules):
                best[n] = min(best[n], _seconds(module, inputs, device, clock))
    return best.index(min(best))


def _seconds(
    module: nn.Module, inputs: Any, device: torch.device, clock: Callable[[], float]
) -> float:
    started = clock()
    call(module, inputs)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - started


def _checked(
    model: nn.Module, body: nn.Module, inputs: Any, tolerance: float | None, seed: int
) -> float:
    """The largest difference on the example and on random inputs like it; refused if too large."""
    worst = 0.0
    generator = torch.Generator().manual_seed(seed)
    for given in (inputs, pytree.tree_map(lambda x: _like(x, generator), inputs)):
        with torch.no_grad(), without_cache(model):
            wanted, made = (pytree.tree_leaves(call(m, given)) for m in (model, body))
        for a, b in zip(wanted, made, strict=True):
            if isinstance(a, Tensor):
                limit = _tolerance(a) if tolerance is None else tolerance
                worst = max(worst, difference := _difference(a, b))
                if not difference <= limit:
                    raise ResultsDiffer(
                        f"the optimised model differs from the original by {difference:.2e} of the "
                        f"largest output, more than {limit:.0e}; give a larger tolerance if this "
                        "is rounding, else report it with the model"
                    )
    return worst


def _like(x: Any, generator: torch.Generator) -> Any:
    """A random tensor like a given one; indices and masks stay, as not every value is allowed."""
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        return x
    drawn = torch.randn(x.shape, generator=generator, dtype=torch.float32)
    return drawn.to(dtype=x.dtype, device=x.device)


def _difference(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not a.dtype.is_floating_point:
        return 0.0 if torch.equal(a, b) else float("inf")
    if a.numel() == 0:
        return 0.0
    finite = a.isfinite()
    infinite, other = a[~finite], b[~finite]
    if not torch.allclose(infinite, other, rtol=0, atol=0, equal_nan=True):
        return float("inf")
    a, b = a[finite].double(), b[finite].double()
    if a.numel() == 0:
        return 0.0
    return (a - b).abs().max().item() / (a.abs().max().item() or 1.0)


LARGEST_TOLERANCE = 0.1
"""The most that rounding is taken for, in formats of few digits."""


def _tolerance(x: Tensor) -> float:
    if not x.dtype.is_floating_point:
        return 0.0
    return min(2e3 * torch.finfo(x.dtype).eps, LARGEST_TOLERANCE)
