"""Training with less memory than a model needs, on one GPU: memory plans against eager PyTorch, its offloading and its checkpoints.

    need          the memory that eager PyTorch takes at its peak, unlimited
    cap           1/2, 1/4 and 1/8 of that, for what PyTorch's allocator may reserve in all; a ballast takes the rest of the GPU but 2 GB for contexts and libraries
    save_on_cpu   torch.autograd.graph.save_on_cpu(pin_memory=True): activations wait on the host
    checkpoint    blocks of layers run again in the backward pass (torch.utils.checkpoint)
    both          checkpointed blocks whose inputs wait on the host

Plans are priced by what is measured here: every distinct operator, the host link one way and both ways, and the memory that kernels need beside the arena. Targets: losses equal to
eager's to 1e-3, the peak within 1% of the prediction and within the cap, throughput never lower at a higher cap, and at each cap ours at least as fast as the best of the others that runs.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # for all systems
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import ir, zoo
from graphwright.aten import split_batch
from graphwright.machine import Cluster, Store, from_toml, to_toml
from graphwright.plans import MemoryTooSmall
from graphwright.run import SwapPlan, calibrate, calls_of, measure_host_link, memory_beside
from graphwright.simulate import CostModel

CASES = {  # batch size, and the blocks that are checkpointed
    "resnet152": (64, ("Bottleneck",)),
    "rnn-6-4k": (128, ("LSTMCell",)),
    "gpt2-large": (4, ("GptLayer",)),
}
QUICK = {
    "resnet50": (64, ("Bottleneck",)),
    "rnnlm": (64, ("LSTMCell",)),
    "gpt2": (2, ("GptLayer",)),
}
CAPS = (2, 4, 8)
CLOSE, PEAK_CLOSE, SLACK = 1e-3, 0.01, 2 << 30
STEPS, CHECKED, MARGIN = 5, 3, 32 << 20
SEARCHES = ("greedy",)
MEASURED = 150
"""The calls that take longest are measured, the others go by the roofline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Milliseconds of a step, bytes at the peak, and the first losses; or why there are none."""

    ms: float = 0.0
    peak: int = 0
    losses: tuple[float, ...] = ()
    failure: str = ""


def load(name: str, batch: int) -> zoo.Workload:
    """A model without dropout, whose random numbers differ between systems."""
    torch.manual_seed(0)
    workload = zoo.load(name, batch_size=batch, device="cpu")
    for module in workload.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return workload


def plan_one(path: str, store: str, machine: str, room: int, out: str) -> str | None:
    """Plan in a process of its own; why there is no plan."""
    warnings.simplefilter("ignore")
    try:
        gw.swap(
            ir.load(path),
            room,
            cluster=from_toml(machine),
            costs=CostModel(Store(store)),
            search=SEARCHES,
        ).save(out)
    except MemoryTooSmall as error:
        return str(error)[:160]
    return None


def clean() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    torch._C._host_emptyCache()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def timed(step: Callable[[], torch.Tensor]) -> Run:
    """The first losses, then the median time of some steps."""
    try:
        losses = tuple(float(step()) for _ in range(CHECKED))
        times = []
        for _ in range(STEPS):
            torch.cuda.synchronize()
            start = perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(perf_counter() - start)
    except torch.OutOfMemoryError:
        return Run(failure="out of memory")
    return Run(ms=1e3 * statistics.median(times), peak=torch.cuda.max_memory_allocated(), losses=losses)  # fmt: skip


def eager(workload: zoo.Workload, blocks: tuple[str, ...], offload: bool, again: bool) -> Run:
    """A training loop of PyTorch's, with what the whole model needs made anew."""
    clean()
    held = torch.cuda.memory_allocated()
    try:
        model = copy.deepcopy(workload.model).cuda()
        if again:
            for module in model.modules():
                if type(module).__name__ in blocks:
                    module.forward = checkpointed(module.forward)
        optimizer = workload.optimizer(model.parameters(), **workload.optimizer_options)
        given, targets = split_batch(workload.batch, has_targets=True)
        given, targets = pinned(given), pinned(targets)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            x, y = on_gpu(given), on_gpu(targets)
            aside = torch.autograd.graph.save_on_cpu(pin_memory=True) if offload else nullcontext()
            with aside:
                out = model(*x) if isinstance(x, tuple) else model(**x) if isinstance(x, dict) else model(x)  # fmt: skip
                loss = workload.loss_fn(out, y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        found = timed(step)
    except torch.OutOfMemoryError:
        found = Run(failure="out of memory")
    model = optimizer = step = None  # type: ignore[assignment]
    clean()
    return replace(found, peak=found.peak - held)


def checkpointed(forward: Callable[..., object]) -> Callable[..., object]:
    return lambda *given: checkpoint(forward, *given, use_reentrant=False, preserve_rng_state=False)


def pinned(tree: object) -> object:
    return each(tree, lambda t: t.pin_memory())


def on_gpu(tree: object) -> object:
    return each(tree, lambda t: t.to("cuda", non_blocking=True))


def each(tree: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {name: each(value, change) for name, value in tree.items()}
    return type(tree)(each(value, change) for value in tree)


class Cap:
    """So many bytes for the allocator, the rest of the GPU but some slack taken away."""

    def __init__(self, nbytes: int) -> None:
        clean()
        free, total = torch.cuda.mem_get_info()
        size = max(0, free - nbytes - SLACK)
        self.ballast = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.held = torch.cuda.memory_reserved()
        torch.cuda.set_per_process_memory_fraction(min(1.0, (self.held + nbytes) / total))

    def lift(self) -> None:
        del self.ballast
        torch.cuda.set_per_process_memory_fraction(1.0)
        clean()


def ours(workload: zoo.Workload, graph: ir.Graph, path: str, machine: Cluster, costs: CostModel) -> tuple[Run, SwapPlan, int, str]:  # fmt: skip
    """A memory plan's steps; its plan, the most that the allocator reserved, and why it is not recorded."""
    clean()
    held, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    planned = gw.swap(graph, plan=path, cluster=machine, costs=costs)
    failure: str | None = ""
    try:
        step = planned.compile(
            workload.model, workload.loss_fn, workload.optimizer,
            optimizer_options=workload.optimizer_options, device="cuda", check_graph=False,
        )  # fmt: skip
        batch = pinned(workload.batch)
        found = timed(lambda: step(batch))
        failure = step._executor.recorder.failure
    except (torch.OutOfMemoryError, MemoryTooSmall) as error:
        found = Run(failure=f"out of memory: {str(error)[:160]}")
    most = torch.cuda.max_memory_reserved() - reserved
    step = None
    clean()
    return replace(found, peak=found.peak - held), planned, most, failure or ""


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", help="names with commas; all if not given")
    own.add_argument("--caps", default="2,4,8", help="parts of the need (2,4,8)")
    options, given = parse_options(__doc__, own), own.parse_known_args()[0]
    if not torch.cuda.is_available():
        return finish(options, [], "there is no GPU here: nothing was measured")
    warnings.simplefilter("ignore")
    cases = QUICK if options.quick else CASES
    names = given.models.split(",") if given.models else list(cases)
    caps = tuple(map(int, given.caps.split(",")))
    link = measure_host_link()
    print(f"{torch.cuda.get_device_name()}; host link {link.bandwidth / 1e9:.1f} GB/s one way, {link.duplex / 1e9:.1f} both, {link.latency * 1e6:.1f} us")  # fmt: skip
    machine = replace(gw.cluster("h200"), host=link)
    rows, misses, results = [], [], {"host_link": [link.bandwidth, link.duplex, link.latency]}
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            max(1, min(9, (os.cpu_count() or 2) - 2)), mp_context=get_context("spawn")
        ) as pool,
    ):
        for name in names:
            batch, blocks = {**CASES, **QUICK}[name] if not options.quick else cases[name]
            result = case(name, batch, blocks, caps, machine, Path(folder), pool, misses, rows)
            results[name] = result
    print_table(
        ["model", "cap", "ours", "of eager", "predicted", "peak", "predicted", "swapped", "save_on_cpu", "checkpoint", "both", "losses"],
        rows,
    )  # fmt: skip
    save_result("swap_gpu", options, results)
    return finish(options, misses, f"{len(rows)} rows, {len(misses)} missed targets")


def case(name, batch, blocks, caps, machine, folder, pool, misses, rows):
    start = perf_counter()
    workload = load(name, batch)
    graph = workload.capture()
    ir.save(graph, graph_path := folder / f"{name}.json")
    whole = eager(workload, blocks, False, False)
    need = whole.peak
    store = Store(folder / f"{name}.sqlite")
    runs = gw.swap(graph, "1TB", cluster=machine).given.graph  # with whole kernels
    beside = memory_beside(runs)
    calibrate(calls_of(runs), device="cuda", store=store, seconds=0.01, limit=MEASURED)
    costs = CostModel(store)
    clean()
    print(f"{name}, batch {batch}: eager {whole.ms:.1f} ms, needs {need / 1e9:.2f} GB; {len(runs.nodes):,} operators, {beside / 1e6:.0f} MB beside; {perf_counter() - start:.0f} s", flush=True)  # fmt: skip
    tasks = {}
    for cap in (1, *caps):
        room = max(1, need // cap - beside - MARGIN) if cap > 1 else 130 * 10**9
        out = str(folder / f"{name}-{cap}.plan.json")
        args = (str(graph_path), str(store.path), to_toml(machine), room, out)
        tasks[cap] = (out, pool.submit(plan_one, *args))
    result = {"eager_ms": whole.ms, "need": need, "beside": beside, "caps": {}}
    speeds = []
    for cap in (*sorted(caps, reverse=True), 1):
        others: dict[str, Run] = {}
        limit = Cap(need // cap) if cap > 1 else None
        if limit is not None:
            ways = {"save_on_cpu": (True, False), "checkpoint": (False, True), "both": (True, True)}
            others = {way: eager(workload, blocks, *flags) for way, flags in ways.items()}
        out, task = tasks[cap]
        if (refused := task.result()) is not None:
            rows.append(
                [name, f"1/{cap}", "no plan", "", "", "", "", "", *map(shown, others.values()), ""]
            )
            misses.append(f"{name} at 1/{cap}: {refused}")
            if limit is not None:
                limit.lift()
            continue
        found, planned, most, why = ours(workload, graph, out, machine, costs)
        if limit is not None:
            limit.lift()
        predicted_peak = planned.plan.arena + beside
        apart = max((abs(a - b) / abs(b) for a, b in zip(found.losses, whole.losses, strict=False)), default=1.0)  # fmt: skip
        rows.append([
            name, f"1/{cap}" if cap > 1 else "all", shown(found), f"{whole.ms / found.ms:.0%}" if found.ms else "-", f"{planned.time * 1e3:.1f} ms",
            f"{found.peak / 1e9:.3f} GB", f"{predicted_peak / 1e9:.3f} GB", "/".join(f"{n / 1e9:.1f}" for n in planned.swapped) + " GB",
            *([shown(run) for run in others.values()] or ["", "", ""]), f"{apart:.1e}",
        ])  # fmt: skip
        print("  ".join(map(str, rows[-1])), f"; reserved {most / 1e9:.3f} GB", why, found.failure, flush=True)  # fmt: skip
        result["caps"][str(cap)] = {
            "ms": found.ms, "predicted_ms": planned.time * 1e3, "peak": found.peak, "predicted_peak": predicted_peak, "reserved": most,
            "losses": found.losses, "eager_losses": whole.losses, "others": {way: [run.ms, run.failure] for way, run in others.items()}, "not_recorded": why,
        }  # fmt: skip
        label = f"{name} at {'1/' if cap > 1 else ''}{cap}"
        if found.failure:
            misses.append(f"{label}: {found.failure}")
            continue
        speeds.append((cap, found.ms))
        if apart > CLOSE:
            misses.append(f"{label}: losses differ by {apart:.1e}")
        if abs(found.peak / predicted_peak - 1) > PEAK_CLOSE:
            misses.append(f"{label}: the peak is {found.peak / predicted_peak - 1:+.1%} off")
        if cap > 1 and most > need // cap:
            misses.append(f"{label}: {most:,} bytes are reserved, the cap is {need // cap:,}")
        best = min((run.ms for run in others.values() if not run.failure), default=0.0)
        if best and found.ms > best:
            misses.append(f"{label}: {found.ms:.1f} ms, the best of the others {best:.1f}")
    for (more, slow), (less, fast) in zip(speeds[1:], speeds, strict=False):
        if slow > 1.02 * fast:
            misses.append(f"{name}: {slow:.1f} ms at 1/{more}, {fast:.1f} at 1/{less}")
    return result


def shown(run: Run) -> str:
    return run.failure.partition(":")[0] or f"{run.ms:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
