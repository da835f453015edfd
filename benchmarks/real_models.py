"""Models of torchvision, timm, transformers and diffusers, captured as they are; twenty of them trained on two workers.

    pip install -e .[models]; python benchmarks/real_models.py --check

Every model is captured with its training step (AdamW) in a process of its own, so that none can end the run. The table
says how many nodes its graph has, which operators have no description, and how long capture took (processor time), or
why it could not be captured. Those of `EXACT` are trained for three steps in float64 on two workers, with the batch
split and under a random plan, and compared with eager PyTorch: the model itself and its optimizer.
Targets: 95% are captured with no change to the model, no failure is without an error type of its own, and nothing
differs by more than 1e-9 of a tensor's largest element.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import graphwright as gw
from _models import Case, Made, cases, squares
from _report import finish, parse_options, print_table, save_result
from graphwright.aten import call, map_tensors, own_loss, split_batch
from graphwright.describe import is_described
from graphwright.errors import CaptureError
from graphwright.ir import CONSTANT_OP, Graph
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan
from graphwright.plans import Plan

SHARE, LIMIT = 0.95, 1e-9
FLOOR = 1e-3
"""Differences of what is smaller are relative to this, of the largest parameter."""
SECONDS = 300.0
"""What one model may take."""
QUICK = 10
"""Every so many-th model is tried with --quick."""
STEPS = 3
EXACT = (
    *(f"torchvision/{name}" for name in ("resnet18", "shufflenet_v2_x0_5")),
    *(f"timm/{name}" for name in ("convnext_atto", "vit_tiny_patch16_224")),
    *(
        f"transformers/{name}"
        for name in (
            "BertForMaskedLM", "AlbertForMaskedLM", "DistilBertForMaskedLM", "ModernBertForMaskedLM",
            "FNetForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM", "OPTForCausalLM", "MixtralForCausalLM",
            "DeepseekV2ForCausalLM", "MambaForCausalLM", "T5ForConditionalGeneration",
            "BartForConditionalGeneration", "SwinForImageClassification", "DetrForObjectDetection",
            "WhisperForConditionalGeneration", "CLIPModel",
        )
    ),
    *(f"diffusers/{name}" for name in ("UNet2DConditionModel", "DiTTransformer2DModel")),
)  # fmt: skip
QUICK_EXACT = ("transformers/BertForMaskedLM", "transformers/MixtralForCausalLM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What came of a capture; `error` and `reason` are empty where it succeeded."""

    name: str
    nodes: int = 0
    opaque: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    reason: str = ""

    @property
    def has_own_error(self) -> bool:
        """Whether a failure has a type that says what it is."""
        return hasattr(gw.errors, self.error) and self.error != CaptureError.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """How far training on two workers is from eager training, at the worst."""

    name: str
    plan: str
    difference: float = float("inf")
    where: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", default="", help="those with one of these words in their name")
    options, own = parse_options(__doc__, parser), parser.parse_known_args()[0]
    try:
        listed = cases()
    except ImportError as error:
        print(f"not run: {error.name} is not installed; pip install -e '.[models]'")
        return 0
    wanted = {n: case for n, case in listed.items() if any(w in n for w in own.models.split(","))}
    tried = list(wanted)[:: QUICK if options.quick else 1]
    capture(Made(model=nn.Linear(2, 2), loss_fn=squares, batch=(torch.zeros(2, 2), ())))  # imports
    with ThreadPoolExecutor(2) as pool:
        captured = list(pool.map(lambda name: capture_alone(name, listed[name]), tried))
    print_table(
        ("model", "nodes", "seconds", "operators without a description, or why not"),
        [(c.name, c.nodes, c.seconds, c.reason or ", ".join(c.opaque)) for c in captured],
    )
    exact = [n for n in (QUICK_EXACT if options.quick else EXACT) if n in wanted]
    trained = [each for name in exact for each in train(name)]
    if trained:
        print_table(
            ("model", "plan", "difference", "where"),
            [(t.name, t.plan, t.difference, t.where) for t in trained],
        )
    save_result(
        "real_models",
        options,
        {"captured": [asdict(c) for c in captured], "exact": [asdict(t) for t in trained]},
    )
    return finish(options, *verdict(captured, trained))


def verdict(captured: list[Captured], trained: list[Trained]) -> tuple[list[str], str]:
    """What was missed, and the figure."""
    good = [c for c in captured if not c.error]
    share = len(good) / max(len(captured), 1)
    misses = [] if share >= SHARE else [f"{share:.1%} captured, not {SHARE:.0%}"]
    misses += [
        f"{c.name} has no error of its own: {c.error}"
        for c in captured
        if c.error and not c.has_own_error
    ]
    misses += [
        f"{t.name} under {t.plan} is {t.difference:.3g} apart ({t.where})"
        for t in trained
        if not t.difference <= LIMIT
    ]
    all_of = Counter(c.name.partition("/")[0] for c in captured)
    good_of = Counter(c.name.partition("/")[0] for c in good)
    parts = ", ".join(f"{library} {good_of[library]} of {n}" for library, n in all_of.items())
    worst = max((t.difference for t in trained), default=0.0)
    figure = f"{len(good)} of {len(captured)} captured ({share:.1%}: {parts}); "
    figure += (
        f"{len({t.name for t in trained})} trained on two workers, worst difference {worst:.2g}"
    )
    return misses, figure


# -- capture ------------------------------------------------------------------------------------------


def capture(made: Made) -> Graph:
    return gw.capture(made.model, made.loss_fn, made.batch, optimizer=torch.optim.AdamW)


def capture_alone(name: str, case: Case) -> Captured:
    """Capture a model in a process of its own."""
    context = get_context("fork")  # the libraries are imported already
    ours, theirs = context.Pipe()
    process = context.Process(target=_capture_into, args=(theirs, name, case))
    process.start()
    theirs.close()
    try:
        result = Captured(name=name, error="Timeout", reason=f"more than {SECONDS:.0f} s")
        if ours.poll(SECONDS):
            result = ours.recv()
    except EOFError:
        result = Captured(name=name, error="Crash", reason="the process ended")
    process.kill()
    process.join()
    said = result.reason[:200] or f"{result.nodes} nodes"
    print(f"{name}: {said}, {result.seconds:.1f} s", file=sys.stderr, flush=True)
    return result


def _capture_into(pipe: Connection, name: str, case: Case) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    made = case.make()
    begun = process_time()
    try:
        graph = capture(made)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        seconds = process_time() - begun
        pipe.send(Captured(name=name, seconds=seconds, error=type(error).__name__, reason=reason))
        return
    seconds = process_time() - begun
    operators = {node.op for node in graph.nodes} - {CONSTANT_OP}
    opaque = tuple(sorted(op for op in operators if not is_described(op)))
    pipe.send(Captured(name=name, nodes=len(graph.nodes), opaque=opaque, seconds=seconds))


# -- training -----------------------------------------------------------------------------------------


PLANS: dict[str, Callable[[Graph], Plan]] = {
    "data parallel": lambda graph: data_parallel(graph, "local:2"),
    "random": lambda graph: random_plan(graph, cluster("local:2")),
}
SGD: dict[str, Any] = {"lr": 0.01, "momentum": 0.9}


def train(name: str) -> list[Trained]:
    """Train a model on two workers under each plan."""
    warnings.simplefilter("ignore")
    try:
        made = in_double(name)
        with Widened():
            graph = gw.capture(
                made.model,
                made.loss_fn,
                made.batch,
                optimizer=torch.optim.SGD,
                optimizer_options=SGD,
            )
        plans = {label: make_plan(graph) for label, make_plan in PLANS.items()}
        ranks = gw.launch(2, timeout=SECONDS, threads=1)(train_here, name, graph, plans)
        worst = {label: max(rank[label] for rank in ranks) for label in PLANS}
        trained = [
            Trained(name=name, plan=label, difference=difference, where=where)
            for label, (difference, where) in worst.items()
        ]
    except Exception as error:
        trained = [Trained(name=name, plan="any", where=" ".join(str(error).split())[:500])]
    for each in trained:
        print(name, each.plan, each.difference, file=sys.stderr, flush=True)
    return trained


def train_here(name: str, graph: Graph, plans: dict[str, Plan]) -> dict[str, tuple[float, str]]:
    """Train in this worker, and eagerly; the largest difference under each plan and where it is."""
    warnings.simplefilter("ignore")
    eager = in_double(name)
    expected = _train_eagerly(eager)
    apart: dict[str, tuple[float, str]] = {}
    for label, plan in plans.items():
        made = in_double(name)
        with Widened():  # the graph is compared with a capture, which has to be the same one
            step = gw.compile(
                plan,
                made.model,
                made.loss_fn,
                torch.optim.SGD,
                graph=graph,
                optimizer_options=SGD,
                device="cpu",
            )
        losses = [float(step(made.batch)) for _ in range(STEPS)]
        apart[label] = _difference(losses, step.gather(), expected, eager.model)
        step.close()
    return apart


def _difference(
    losses: list[float], model: nn.Module, expected: list[float], eager: nn.Module
) -> tuple[float, str]:
    """The largest difference between two trainings, and where it is."""
    pairs = zip(losses, expected, strict=True)
    apart = [(abs(a - b) / max(abs(b), FLOOR), "loss") for a, b in pairs]
    now = dict(model.named_parameters())
    largest = max(float(p.detach().abs().max()) for p in now.values())
    for parameter, value in eager.named_parameters():
        difference = (now[parameter] - value).detach().abs().max()
        size = max(float(value.detach().abs().max()), FLOOR * largest)
        apart.append((float(difference) / size, parameter))
    return max(apart)


def _train_eagerly(made: Made) -> list[float]:
    if hasattr(made.model, "set_experts_implementation"):  # PyTorch's kernel takes no float64
        made.model.set_experts_implementation("eager")
    optimizer = torch.optim.SGD(made.model.parameters(), **SGD)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with Widened():
            loss = _loss(made)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _loss(made: Made) -> Tensor:
    inputs, targets = split_batch(made.batch, has_targets=made.loss_fn is not None)
    output = call(made.model, inputs)
    loss: Tensor = own_loss(output) if made.loss_fn is None else made.loss_fn(output, targets)
    return loss


def in_double(name: str) -> Made:
    """A model in float64 with nothing drawn at random, as eager PyTorch draws other numbers."""
    torch.manual_seed(0)
    made = cases()[name].make(on="cpu")
    normalises = any(isinstance(m, nn.BatchNorm2d) for m in made.model.modules())
    made.model.train(normalises).double()
    batch = map_tensors(lambda t: t.double() if t.is_floating_point() else t, made.batch)
    return replace(made, batch=batch)


class Widened(TorchFunctionMode):
    """Computes in float64 what a model computes in float32 whatever its dtype: norms, its loss."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.float:
            return args[0].double()
        wide = [torch.float64 if a is torch.float32 else a for a in args]
        named = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        return func(*wide, **named)


if __name__ == "__main__":
    sys.exit(main())
