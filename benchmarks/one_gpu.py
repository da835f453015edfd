"""A step on one GPU against eager PyTorch on the same GPU: values, time and memory.

The step is that of `gw.compile` under a plan for one device, in a world of one, with the code that runs on many. Models with dropout draw other numbers than eager PyTorch
(decision 8), so theirs are compared with the same step on the CPU. Values are compared in float64 at an eighth of the batch: in float32 a deep network at its first steps, or Adam on a
gradient that is zero but for rounding, makes of any other order of sums something else. Time and memory (what is reserved, with what a recording keeps) are those of float32 by PyTorch's defaults: convolutions with TF32, products without. Target: parameters and buffers after five steps, of which
the last three are replays of a recording, equal to 1e-8 relative to each tensor's largest element. In float64 attention is not fused, so the fused kernels are compared in float32 with the definition, to 1e-5.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.aten.batches import split_batch
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.run.program.cuda_graph import SWITCH
from graphwright.run.random.philox import RandomBox, fill, find_kernel
from graphwright.zoo.workload import Workload

CASES = {
    "lenet": 256,
    "alexnet": 128,
    "resnet50": 64,
    "gpt2": 8,
    "rnnlm-16": 64,
    "dlrm": 512,
    "bert-base": 8,
}
QUICK = ("lenet", "gpt2")
COMPILED = ("lenet", "alexnet", "gpt2")
"""Those that are also timed with torch_compile=True; the others have thousands of operators, take
minutes to compile, and are with `--compile` only."""
STEPS, TIMED = 5, 10
CLOSE = 1e-8
FUSED_CLOSE = 1e-5


def to(tree: Any, device: str, dtype: torch.dtype | None = None) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.to(device, dtype if tree.is_floating_point() else None)
    if isinstance(tree, dict):
        return {k: to(v, device, dtype) for k, v in tree.items()}
    return (
        type(tree)(to(t, device, dtype) for t in tree) if isinstance(tree, tuple | list) else tree
    )


def load(name: str, exact: bool = False) -> Workload:
    """A model with its weights and batch; for comparing values in float64, with an eighth of the batch."""
    found = zoo.load(
        name, batch_size=max(2, CASES[name] // 8) if exact else CASES[name], device="cpu"
    )
    if not exact:
        return found
    return replace(found, model=found.model.double(), batch=to(found.batch, "cpu", torch.float64))


def has_dropout(workload: Workload) -> bool:
    return any(isinstance(m, torch.nn.Dropout) and m.p for m in workload.model.modules())


def measured(
    make: Callable[..., tuple[Any, ...]], *given: Any, **options: bool
) -> tuple[float, float]:
    """A step's time in ms, and the GB that it reserves."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    run = make(*given, **options)[0]
    run()
    seconds = []
    for _ in range(TIMED):
        torch.cuda.synchronize()
        start = perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(perf_counter() - start)
    return statistics.median(seconds) * 1e3, (torch.cuda.max_memory_reserved() - before) / 1e9


def eager(workload: Workload, steps: int) -> tuple[Any, dict[str, torch.Tensor], list[float]]:
    """A training loop; its step, the state after some steps, their losses."""
    model = workload.model.to("cuda")
    inputs, targets = split_batch(to(workload.batch, "cuda"), has_targets=True)
    optimizer = workload.optimizer(model.parameters(), **workload.optimizer_options)
    given = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    named = inputs if isinstance(inputs, dict) else {}

    def run() -> float:
        optimizer.zero_grad()
        loss = workload.loss_fn(model(*given, **named), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(run()) for _ in range(steps)]
    return run, {n: t.detach().clone() for n, t in model.state_dict().items()}, losses


def ours(
    workload: Workload,
    steps: int,
    device: str,
    torch_compile: bool = False,
    recorded: bool = True,
) -> tuple[Any, dict[str, torch.Tensor], list[float]]:
    os.environ[SWITCH] = "1" if recorded else "0"
    graph = workload.capture()
    step = gw.compile(
        data_parallel(graph, cluster("local:1")), workload.model, workload.loss_fn, workload.optimizer,
        graph=graph, optimizer_options=workload.optimizer_options, device=device,
        torch_compile=torch_compile,
    )  # fmt: skip
    batch = to(workload.batch, device)
    losses = [float(step(batch)) for _ in range(steps)]
    state = {n: s.local.clone() for n, s in step.shards().items()}
    return (lambda: step(batch)), state, losses


def apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> tuple[float, str]:
    worst = (0.0, "")
    for name, value in a.items():
        other = b.get(name)
        if other is not None and value.is_floating_point():
            x, y = value.double().cpu(), other.double().cpu()
            worst = max(worst, (float((x - y).abs().max() / y.abs().max().clamp(min=1e-3)), name))
    return worst


def fused_apart() -> float:
    """How far fused attention and its gradients are from the definition in float64, relative to
    each result's largest element."""
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    worst = 0.0
    for causal in (False, True):
        for length in (40, 64, 1000):
            q, k, v, grad = (torch.randn(2, 3, length, 64, device="cuda") for _ in range(4))
            found = []
            for dtype in (torch.float32, torch.float64):
                given = [t.to(dtype) for t in (q, k, v)]
                out, normaliser = forward(*given, 0.0, causal)
                grads = backward(grad.to(dtype), *given, out, normaliser, 0.0, causal)
                found.append([t.double() for t in (out, normaliser, *grads)])
            for a, b in zip(*found, strict=True):
                worst = max(worst, float((a - b).abs().max() / b.abs().max()))
    return worst


BOXES = (
    ((7,), ((0, 7),)),
    ((3, 70), ((1, 2), (5, 8))),
    ((5, 7, 3), ((0, 5), (1, 6), (0, 3))),
    ((10_000, 1), ((17, 9000), (0, 1))),
    ((64, 12, 128, 100), ((1, 5), (0, 12), (3, 128), (7, 99))),
    ((3000, 2000), ((0, 3000), (1, 2000))),
    ((70_000, 70_000, 64), ((69_998, 70_000), (69_990, 70_000), (1, 64))),
    ((2, 1 << 24), ((0, 2), (3, 1 << 24))),
)


def words_alike() -> bool:
    """Whether boxes of random words on the GPU, by the kernel of `gpu_words`, are those of the CPU."""
    if find_kernel(torch.device("cuda")).__name__ != "draw_words":
        return False
    for shape, box in BOXES:
        drawn = RandomBox(seed=5, operator=3, shape=shape, box=box)
        streams = [
            fill(drawn, "word", 2, lambda a, b: a << 31 ^ b, torch.int64, torch.device(on)).cpu()
            for on in ("cpu", "cuda")
        ]
        if not torch.equal(*streams):
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", nargs="+", choices=CASES, help="these only")
    parser.add_argument("--compile", action="store_true", help="time all with torch_compile=True")
    options, own = parse_options(__doc__, parser), parser.parse_known_args()[0]
    if not torch.cuda.is_available():
        return finish(options, ["there is no GPU here"], "no GPU")
    names = own.models or (QUICK if options.quick else CASES)
    rows, misses, results = [], [], {}
    fused = fused_apart()
    print(f"fused attention in float32 is {fused:.1e} from its definition in float64")
    if fused > FUSED_CLOSE:
        misses.append(f"fused attention differs by {fused:.1e}, limit {FUSED_CLOSE}")
    if not words_alike():
        misses.append("random words on the GPU have no kernel, or differ from those on the CPU")
    for name in names:
        random = has_dropout(load(name))
        eager_ms, eager_gb = measured(eager, load(name), 1)
        ms, gb = measured(ours, load(name), 1, "cuda")
        unrecorded_ms, _ = measured(ours, load(name), 1, "cuda", recorded=False)
        compiled_ms = None
        if own.compile or name in COMPILED:
            compiled_ms, _ = measured(ours, load(name), 1, "cuda", torch_compile=True)
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            state, losses = ours(load(name, exact=True), STEPS, "cuda")[1:]
            exact = load(name, exact=True)
            wanted, eager_losses = (ours(exact, STEPS, "cpu") if random else eager(exact, STEPS))[1:]  # fmt: skip
        difference, where = apart(state, wanted)
        del exact, state, wanted
        rows.append((name, CASES[name], f"{difference:.1e}", where, abs(losses[-1] - eager_losses[-1]),
                     eager_ms, ms, eager_ms / ms, eager_gb, gb, unrecorded_ms, compiled_ms or ""))  # fmt: skip
        results[name] = {"difference": difference, "where": where, "losses": losses, "eager_losses": eager_losses,
                         "eager_ms": eager_ms, "ms": ms, "unrecorded_ms": unrecorded_ms, "compiled_ms": compiled_ms, "eager_gb": eager_gb, "gb": gb}  # fmt: skip
        if difference > CLOSE:
            misses.append(f"{name}: {where} differs by {difference:.1e}")
        torch.cuda.empty_cache()
    print(torch.cuda.get_device_name(), torch.__version__)
    print_table(
        ("model", "batch", "difference", "largest in", "loss apart", "eager ms", "ours ms", "ratio", "eager GB", "ours GB", "not recorded ms", "compiled ms"),
        rows,
    )  # fmt: skip
    save_result("one_gpu", options, results)
    return finish(options, misses, "; ".join(f"{r[0]} {r[2]}, {r[7]:.2f}x eager" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
