"""TASO's figure 2.7: inference of eight networks at batch 1, the original beside the optimised model.

Published, on one V100 (thesis section 2.9): up to 2.8 times as fast as the best of five systems, most on ResNeXt-50, 1.3 times and more on NasNet-A, NasRNN and BERT; TENSAT reports gains of 8.8 to 69 %
and searches of about a second, 10.6 s for NasNet-A. Ours runs on a CPU, where a kernel is long beside its launch, so merging kernels gains less, and grouped convolutions more.

Times of a model are taken in turns, in one process, and are the least of several. With one thread (the default) they are the thread's own, which stand still while other programs have the core.
`merged` is the model with batch norms and biases merged and no rule used, as any inference engine does it: the gain of `ours` over it is that of the rules.

ResNeXt-50 has its 32 branches as separate convolutions, each of 1 x 1 and 3 x 3. Weights are drawn such that activations neither vanish nor grow, and every optimised model is compared with the original.
Both algorithms search each model; `ours` is that of the default. Targets: never slower than the original, eager, compiled or by onnxruntime (2 % are for the clock); each search below a minute, as TENSAT's.

The whole takes about half an hour: --resume FILE keeps each model's result, and goes on behind the last one; --models and --modes choose.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from _report import finish, parse_options, print_table, save_result
from graphwright import optimize, zoo
from graphwright.aten import call
from graphwright.pipeline.inference import Report, clock_of
from graphwright.rewrite import ALGORITHMS

ZOO = (
    "resnet50",
    "resnext50",
    "nasnet-a-mobile",
    "nasrnn",
    "bert-base",
    "inception-v3",
    "squeezenet",
    "vgg19",
)
QUICK = ("squeezenet", "inception-v3", "nasrnn")
MODES = ("eager", "compiled", "onnxruntime")
SLACK = 1.02
ROUNDS = 10
MINUTE = 60.0
DEFAULT: str = inspect.signature(optimize).parameters["algorithm"].default


class Fire(nn.Module):
    """A squeezing convolution, then two expanding ones side by side (Iandola et al. 2016)."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.one = nn.Conv2d(squeeze, expand, 1)
        self.three = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x).relu()
        return torch.cat([self.one(x).relu(), self.three(x).relu()], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1."""
    pool = partial(nn.MaxPool2d, 3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128), Fire(256, 32, 128), pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class Branches(nn.Module):
    """The first two layers of a ResNeXt block, branch by branch (Xie et al. 2017, figure 3b)."""

    def __init__(self, inputs: int, grouped: nn.Conv2d) -> None:
        super().__init__()
        count, width = grouped.groups, grouped.in_channels // grouped.groups
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, grouped.stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            )
            for _ in range(count)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Block(nn.Module):
    """A bottleneck of the zoo with its grouped convolution in branches."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.branches = Branches(block.conv1.in_channels, block.conv2)
        self.conv, self.norm, self.shortcut = block.conv3, block.bn3, block.shortcut

    def forward(self, x: Tensor) -> Tensor:
        return (self.norm(self.conv(self.branches(x))) + self.shortcut(x)).relu()


def in_branches(model: nn.Module) -> nn.Module:
    for path, module in list(model.named_modules()):
        if type(module).__name__ == "Bottleneck":
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, Block(module))
    return model


def load(name: str, seed: int) -> tuple[nn.Module, Any]:
    torch.manual_seed(seed)
    if name == "squeezenet":
        model, inputs = squeezenet(), torch.randn(1, 3, 224, 224)
    else:
        workload = zoo.load(name, batch_size=1, device="cpu")
        model, inputs = workload.model, workload.batch[0]
        model = in_branches(model) if name == "resnext50" else model
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.normal_(module.running_mean, std=0.1)
    return model.eval(), inputs


def times(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least milliseconds of each, in turns."""
    clock, least = clock_of(torch.device("cpu")), dict.fromkeys(runs, float("inf"))
    with torch.no_grad():
        for _ in range(rounds):
            for name, run in runs.items():
                started = clock()
                run()
                least[name] = min(least[name], 1e3 * (clock() - started))
    return least


def onnx_session(model: nn.Module, inputs: Any, folder: Path) -> Callable[[], object]:
    """A run of the model by onnxruntime, with one thread per thread of PyTorch."""
    import onnxruntime

    from graphwright.pipeline.inference.files import save_exported

    path = folder / f"{id(model)}.onnx"
    save_exported(model, inputs, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options)
    tensors = [t for t in torch.utils._pytree.tree_leaves(inputs) if isinstance(t, Tensor)]
    given = {i.name: t.numpy() for i, t in zip(session.get_inputs(), tensors, strict=True)}
    return lambda: session.run(None, given)


def milliseconds(
    mode: str, variants: dict[str, nn.Module], inputs: Any, rounds: int
) -> dict[str, float]:
    """The time of each variant in a mode."""
    if mode == "onnxruntime":
        with tempfile.TemporaryDirectory() as folder:
            runs = {k: onnx_session(m, inputs, Path(folder)) for k, m in variants.items()}
            return times(runs, rounds)
    if mode == "compiled":
        variants = {k: torch.compile(m) for k, m in variants.items()}
    taken = times({k: partial(call, m, inputs) for k, m in variants.items()}, rounds)
    torch._dynamo.reset()
    return taken


def summary(report: Report, whole: float) -> dict[str, Any]:
    """What a report has, as JSON."""
    return {
        "search_seconds": report.seconds, "measuring_seconds": report.measuring, "whole_seconds": whole, "graphs": report.seen,
        "pieces": report.pieces, "distinct": report.distinct, "kernels": [report.kernels_before, report.kernels_after],
        "predicted_ms": [1e3 * c for c in (report.original, report.merged, report.optimized)], "rules": dict(report.applied), "kept": report.kept, "channels_last": report.channels_last, "difference": report.difference,
    }  # fmt: skip


def measured(name: str, modes: Sequence[str], seed: int) -> dict[str, Any]:
    """One model: its times in each mode, and how each algorithm searched."""
    model, inputs = load(name, seed)
    variants = {"original": model, "merged": optimize(model, inputs, budget=1, seed=seed)}
    searches = {}
    for algorithm in ALGORITHMS:
        started = perf_counter()
        variants[algorithm] = made = optimize(model, inputs, algorithm=algorithm, seed=seed)
        searches[algorithm] = summary(made.report, perf_counter() - started)
        print(f"{name}, {algorithm}: {made.report}", flush=True)
    taken = {"eager": milliseconds("eager", variants, inputs, ROUNDS)}
    chosen = {"original": model, DEFAULT: variants[DEFAULT]}
    for mode in modes:
        if mode != "eager":
            taken[mode] = milliseconds(mode, chosen, inputs, ROUNDS)
        print(f"{name}, {mode}: {taken[mode]}", flush=True)
    return {"milliseconds": taken, "searches": searches}


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--threads", type=int, default=1, help="threads of PyTorch (1)")
    own.add_argument("--models", default="", help=f"some of {', '.join(ZOO)}, by commas")
    own.add_argument("--modes", default="", help=f"some of {', '.join(MODES)}, by commas")
    own.add_argument("--resume", type=Path, help="a file of results by model, to go on from")
    chosen, _ = own.parse_known_args()
    options = parse_options(__doc__, own)
    torch.set_num_threads(chosen.threads)
    warnings.simplefilter("ignore")
    names = [n for n in chosen.models.split(",") if n] or (QUICK if options.quick else ZOO)
    modes = [m for m in chosen.modes.split(",") if m] or MODES[: 1 if options.quick else None]
    results: dict[str, Any] = {}
    if chosen.resume is not None and chosen.resume.exists():
        results = json.loads(chosen.resume.read_text())
    for name in names:
        if name not in results:
            results[name] = measured(name, modes, options.seed)
            if chosen.resume is not None:
                chosen.resume.write_text(json.dumps(results))
    rows, misses, gains = [], [], []
    for name, result in results.items():
        for mode, each in result["milliseconds"].items():
            gain = each["original"] / each[DEFAULT]
            gains += [gain] if mode == "eager" else []
            rows.append((name, mode, *(f"{each[v]:.2f}" if v in each else "" for v in ("original", "merged", *ALGORITHMS)), round(gain, 2)))  # fmt: skip
            if gain < 1 / SLACK:
                misses.append(
                    f"{name}, {mode}: {each[DEFAULT]:.2f} ms, the original {each['original']:.2f}"
                )
    print_table(("model", "mode", "original ms", "merged ms", *ALGORITHMS, "gain"), rows)
    rows = []
    for name, result in results.items():
        for algorithm, found in result["searches"].items():
            before, after = found["kernels"]
            _, merged, predicted = found["predicted_ms"]
            rows.append((name, algorithm, round(found["search_seconds"], 1), round(found["measuring_seconds"], 1), round(found["whole_seconds"], 1), f"{merged:.2f} -> {predicted:.2f}", f"{before} -> {after}", str(found["kept"])))  # fmt: skip
            if algorithm == DEFAULT and found["search_seconds"] > MINUTE:
                misses.append(f"{name}: a search of {found['search_seconds']:.0f} s")
    print_table(
        ("model", "algorithm", "search s", "measuring", "all s", "predicted ms", "kernels", "kept"),
        rows,
    )
    save_result("taso_fig27", options, {"threads": chosen.threads, "models": results})
    return finish(
        options,
        misses,
        f"gains of {min(gains):.2f} to {max(gains):.2f} over the original in eager mode",
    )


if __name__ == "__main__":
    sys.exit(main())
