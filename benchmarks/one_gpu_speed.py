"""A training step on one GPU: eager PyTorch, torch.compile, ours, and ours compiled; time, memory and the time until it runs.

Models as their libraries make them (torchvision, transformers; without dropout, so that losses can be compared), in float32 with PyTorch's defaults and in bfloat16. Ours is `gw.compile` under a plan for one device. Times are
medians of ten steps after five, all in; memory is what is reserved beyond what was before; ready is the time of capture, compiling and the first three steps. `loss apart` is between the third losses of eager and ours.

Targets: ours at most 1.02 times eager's time, ours compiled at most 1.02 times torch.compile's; memory at most 1.05 times either's, compiling no longer. Without a GPU, or without a model's library, it says so; without a GPU the status is 0.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch
from torch import nn

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright.machine import cluster
from graphwright.partition import data_parallel

STEPS, TIMED = 5, 10
SLOWER, MORE_MEMORY = 1.02, 1.05
EAGER, TORCH_COMPILE, OURS, COMPILED = "eager", "torch.compile", "ours", "ours compiled"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LIBRARY = {"resnet50": "torchvision", "vit-b-16": "torchvision", "bert-base": "transformers", "gpt2": "transformers", "llama": "transformers"}  # fmt: skip
QUICK = ("resnet50", "llama")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on the CPU, and what it trains with; without a loss the model returns its own."""

    model: nn.Module
    batch: Any
    loss_fn: Any
    optimizer: type[torch.optim.Optimizer]
    options: dict[str, float]


class UNet(nn.Module):
    """Three levels with skip connections, group norms and SiLU, as diffusion models have."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(self._block(w, w) for w in widths)
        self.narrower = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(widths))  # fmt: skip
        self.wider = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))  # fmt: skip
        self.up = nn.ModuleList(self._block(2 * w, w) for w in widths[:-1])
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def _block(inner: int, outer: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU(),
            nn.Conv2d(outer, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, skips = self.first(x), []
        for level, block in enumerate(self.down):
            x = block(x)
            if level < len(self.narrower):
                skips.append(x)
                x = self.narrower[level](x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([self.wider[level](x), skips[level]], 1))
        return self.last(x)


def load(name: str, dtype: torch.dtype) -> Case:
    torch.manual_seed(0)
    adamw: dict[str, Any] = {"optimizer": torch.optim.AdamW, "options": {}}
    classes = nn.functional.cross_entropy
    if name in ("resnet50", "vit-b-16"):
        import torchvision

        number = 64 if name == "resnet50" else 32
        batch = torch.randn(number, 3, 224, 224).to(dtype), torch.randint(0, 1000, (number,))
        if name == "resnet50":
            sgd = {"lr": 0.1, "momentum": 0.9}
            return Case(model=torchvision.models.resnet50().to(dtype), batch=batch, loss_fn=classes, optimizer=torch.optim.SGD, options=sgd)  # fmt: skip
        return Case(model=torchvision.models.vit_b_16().to(dtype), batch=batch, loss_fn=classes, **adamw)  # fmt: skip
    if name == "unet":
        images = torch.randn(16, 3, 128, 128).to(dtype)
        return Case(model=UNet().to(dtype), batch=(images, images.flip(0)), loss_fn=nn.functional.mse_loss, **adamw)  # fmt: skip
    import transformers

    match name:
        case "bert-base":
            config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
            model, words, shape = transformers.BertForMaskedLM(config), config.vocab_size, (8, 512)
        case "gpt2":
            config = transformers.GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # fmt: skip
            model, words, shape = transformers.GPT2LMHeadModel(config), config.vocab_size, (8, 512)
        case _:
            config = transformers.LlamaConfig(
                hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=16,
                num_key_value_heads=4, vocab_size=32000, max_position_embeddings=1024, use_cache=False,
            )  # fmt: skip
            model, words, shape = transformers.LlamaForCausalLM(config), 32000, (4, 1024)
    ids = torch.randint(0, words, shape)
    return Case(model=model.to(dtype), batch={"input_ids": ids, "labels": ids}, loss_fn=None, **adamw)  # fmt: skip


def on_gpu(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: tensor.cuda() for name, tensor in batch.items()}
    return tuple(tensor.cuda() for tensor in batch)


def make_step(way: str, case: Case) -> Callable[[], torch.Tensor]:
    batch = on_gpu(case.batch)
    if way in (OURS, COMPILED):
        graph = gw.capture(case.model, case.loss_fn, case.batch, optimizer=case.optimizer, optimizer_options=case.options)  # fmt: skip
        step = gw.compile(
            data_parallel(graph, cluster("local:1")), case.model, case.loss_fn, case.optimizer, graph=graph,
            optimizer_options=case.options, device="cuda", torch_compile=way == COMPILED,
        )  # fmt: skip
        return lambda: step(batch)
    case.model.cuda()
    optimizer = case.optimizer(case.model.parameters(), **case.options)
    model = torch.compile(case.model) if way == TORCH_COMPILE else case.model

    def eager_step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = case.loss_fn(model(batch[0]), batch[1]) if case.loss_fn else model(**batch).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return eager_step


def measure(way: str, name: str, dtype: torch.dtype) -> dict[str, Any]:
    case = load(name, dtype)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, began = torch.cuda.memory_reserved(), perf_counter()
    step = make_step(way, case)
    losses = [float(step()) for _ in range(3)]
    ready = perf_counter() - began
    for _ in range(STEPS - 3):
        step()
    seconds = []
    for _ in range(TIMED):
        torch.cuda.synchronize()
        start = perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(perf_counter() - start)
    gigabytes = (torch.cuda.max_memory_reserved() - before) / 1e9
    torch.compiler.reset()
    return {"ms": statistics.median(seconds) * 1e3, "gb": gigabytes, "ready": ready, "losses": losses}  # fmt: skip


def misses_of(where: str, ours: dict[str, Any], theirs: dict[str, Any], against: str) -> list[str]:
    misses = []
    if ours["ms"] > SLOWER * theirs["ms"]:
        misses.append(f"{where}: {ours['ms']:.1f} ms, {against} {theirs['ms']:.1f}")
    if ours["gb"] > MORE_MEMORY * theirs["gb"]:
        misses.append(f"{where}: {ours['gb']:.2f} GB, {against} {theirs['gb']:.2f}")
    if against == TORCH_COMPILE and ours["ready"] > theirs["ready"]:
        misses.append(f"{where}: ready in {ours['ready']:.0f} s, {against} in {theirs['ready']:.0f}")  # fmt: skip
    return misses


def main() -> int:
    names = (*LIBRARY, "unet")
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", nargs="+", choices=names, help="these only")
    own.add_argument("--dtypes", nargs="+", choices=DTYPES, help="these only")
    own.add_argument("--no-compile", action="store_true", help="eager and ours alone")
    options, given = parse_options(__doc__, own), own.parse_known_args()[0]
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return 0
    pairs = (
        (EAGER, OURS),
        *(((TORCH_COMPILE, COMPILED),) if not (given.no_compile or options.quick) else ()),
    )
    results: dict[str, dict[str, Any]] = {}
    rows, misses = [], []
    for name in given.models or (QUICK if options.quick else names):
        if name in LIBRARY and find_spec(LIBRARY[name]) is None:
            print(f"{name}: {LIBRARY[name]} is not installed")
            continue
        for dtype in given.dtypes or DTYPES:
            where = f"{name}, {dtype}"
            found = results[where] = {}
            for theirs, ours in pairs:
                for way in (theirs, ours):
                    try:
                        found[way] = measure(way, name, DTYPES[dtype])
                    except Exception as error:  # whatever a way raises: the others go on
                        first = str(error).strip().splitlines()
                        misses.append(f"{where}: {way}: {type(error).__name__}: {first[0] if first else ''}")  # fmt: skip
                if theirs in found and ours in found:
                    misses += misses_of(f"{where}, {ours}", found[ours], found[theirs], theirs)
            losses = [found[way]["losses"][2] for way in (EAGER, OURS) if way in found]
            apart = abs(losses[0] - losses[-1]) / abs(losses[0]) if len(losses) == 2 else ""
            row: list[object] = [where]
            for way in (EAGER, OURS, TORCH_COMPILE, COMPILED):
                row += [f"{found[way][key]:.4g}" if way in found else "" for key in ("ms", "gb")]
            ready = (f"{found[way]['ready']:.0f}" if way in found else "" for way in (TORCH_COMPILE, COMPILED))  # fmt: skip
            rows.append((*row, *ready, apart))
            print(*rows[-1], flush=True)
    print(torch.cuda.get_device_name(), torch.__version__)
    heads = [f"{way} {unit}" for way in (EAGER, OURS, TORCH_COMPILE, "compiled") for unit in ("ms", "GB")]  # fmt: skip
    print_table(("model", *heads, "ready s", "ours ready s", "loss apart"), rows)
    save_result("one_gpu_speed", options, results)
    return finish(options, misses, f"{len(rows)} models, {len(misses)} missed targets")


if __name__ == "__main__":
    sys.exit(main())
