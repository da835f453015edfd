"""Time to build, verify, hash and round-trip graphs of 1,000, 10,000 and 100,000 nodes.

No paper publishes these figures: they are our own limits. Every stage handles the whole graph, so
the graph has to stay out of the way of graphs as long as an unrolled recurrence makes them. Targets
(--check): from 10,000 to 100,000 nodes the time grows by no more than 1.5 times linearly, and no
stage takes more than 10 s.

    python benchmarks/ir_scale.py [--quick] [--check]

The graph is a training step of a deep stack: half of the nodes forward, half backward, and one
update for each hundred; attributes, modules, layers and partners as capture gives them. Times are
processor seconds, the best of several runs, with garbage collected before each.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from _report import finish, parse_options, print_table, save_result
from graphwright.ir import (
    Graph,
    GraphBuilder,
    Phase,
    Role,
    TensorType,
    from_json,
    parse_text,
    summarize,
    to_json,
    to_text,
    verify,
)

SIZES = (1_000, 10_000, 100_000)
MAX_GROWTH = 1.5
MAX_SECONDS = 10.0
MIN_SECONDS = 1.0  # measure what is short again and again, for so long in all
MAX_RUNS = 20

R = TypeVar("R")


def make_graph(num_nodes: int, seed: int) -> Graph:
    """Build a training step of `num_nodes` nodes, one long chain with skip connections."""
    rng = random.Random(seed)
    build = GraphBuilder()
    kinds = [
        TensorType((32, 2**k), dtype) for k in range(4, 9) for dtype in ("float32", "bfloat16")
    ]
    x = build.add_input("inputs.0", kinds[0])
    num_updates = num_nodes // 100
    num_forward = (num_nodes - num_updates) // 2
    weights = [
        build.add_input(f"layers.{i}.weight", rng.choice(kinds), Role.PARAMETER)
        for i in range(max(1, num_updates))
    ]
    forward: list[str] = []
    for i in range(num_forward):
        layer = i * len(weights) // num_forward
        skip = forward[rng.randrange(max(0, i - 50), i)] if forward else x
        (x,) = build.add(
            "aten.convolution",
            [x, weights[layer], skip, None],
            {
                "stride": (1, rng.choice((1, 2))),
                "padding": (0, 0),
                "transposed": False,
                "eps": 1e-5,
                "scale": rng.random(),
            },
            rng.choice(kinds),
            module=f"layers.{layer}.conv",
            layer=layer,
        )
        forward.append(x)
    for i in range(num_nodes - num_updates - num_forward):
        partner = forward[-1 - i % len(forward)]
        (x,) = build.add(
            "aten.threshold_backward",
            [x, partner],
            {"threshold": 0},
            build.type(partner),
            phase=Phase.BACKWARD,
            role=Role.GRADIENT,
            of=partner,
            partner=partner,
        )
    updates: dict[str, str] = {}
    for weight in weights[:num_updates]:
        (updates[weight],) = build.add(
            "aten.add.Tensor",
            [weight, x],
            {"alpha": -0.1},
            build.type(weight),
            names=f"{weight}.new",
            phase=Phase.UPDATE,
            role=Role.PARAMETER,
            of=weight,
            parameter=weight,
        )
    return build.build([x, *updates.values()], updates)


def measure(run: Callable[[], R], repeats: int) -> tuple[float, R]:
    """Return the best time of so many runs, and of more while they are short; and a result.

    Processor time, so that others at work on the machine count for less.
    """
    best, spent, count = float("inf"), 0.0, 0
    while True:
        gc.collect()
        start = time.process_time()
        result = run()
        seconds = time.process_time() - start
        best, spent, count = min(best, seconds), spent + seconds, count + 1
        if count >= repeats and (spent > MIN_SECONDS or count >= MAX_RUNS):
            return best, result
        del result


def measure_stages(num_nodes: int, seed: int, repeats: int) -> dict[str, float]:
    """Time each stage on a graph of this size; fails where a round trip is not exact."""
    seconds: dict[str, float] = {}
    seconds["build"], graph = measure(lambda: make_graph(num_nodes, seed), repeats)
    seconds["verify"], _ = measure(lambda: verify(graph), repeats)
    seconds["hash"], _ = measure(lambda: replace(graph).hash, repeats)  # a copy has no cached hash
    seconds["summarize"], _ = measure(lambda: summarize(graph), repeats)
    seconds["text write"], text = measure(lambda: to_text(graph), repeats)
    seconds["text read"], again = measure(lambda: parse_text(text), repeats)
    if again != graph or again.hash != graph.hash:
        raise AssertionError("the text form did not give the graph back")
    del again, text
    seconds["json write"], text = measure(lambda: to_json(graph), repeats)
    seconds["json read"], again = measure(lambda: from_json(text), repeats)
    if again != graph or again.hash != graph.hash:
        raise AssertionError("the JSON form did not give the graph back")
    return seconds


def main() -> int:
    """Run the benchmark; the last line is the worst growth and the slowest stage."""
    options = parse_options(__doc__)
    seconds: dict[int, dict[str, float]] = {}
    for size in SIZES:
        repeats = 1 if options.quick else 3
        seconds[size] = measure_stages(size, options.seed, repeats)
    middle, large = SIZES[-2:]
    growth = {
        stage: seconds[large][stage] / seconds[middle][stage] / (large / middle)
        for stage in seconds[large]
    }
    headings = ["stage", *(f"{size:,} s" for size in SIZES), *(f"{s:,} ns/node" for s in SIZES)]
    rows = [
        [
            stage,
            *(seconds[size][stage] for size in SIZES),
            *(seconds[size][stage] / size * 1e9 for size in SIZES),
            growth[stage],
        ]
        for stage in growth
    ]
    print_table([*headings, "growth / linear"], rows)
    path = save_result(
        "ir_scale",
        options,
        {
            "seconds": {str(size): seconds[size] for size in SIZES},
            "growth_over_linear": growth,
            "targets": {"growth_over_linear": MAX_GROWTH, "seconds": MAX_SECONDS},
        },
    )
    if path is not None:
        print(f"saved {path.name}")
    misses = [
        f"{stage} grows {value:.2f} times linearly from {middle:,} to {large:,} nodes"
        for stage, value in growth.items()
        if value > MAX_GROWTH
    ]
    misses += [
        f"{stage} takes {value:.1f} s for {large:,} nodes"
        for stage, value in seconds[large].items()
        if value > MAX_SECONDS
    ]
    steepest = max(growth, key=growth.__getitem__)
    slowest = max(seconds[large], key=seconds[large].__getitem__)
    return finish(
        options,
        misses,
        f"growth {growth[steepest]:.2f}x linear ({steepest}; at most {MAX_GROWTH}), slowest "
        f"{seconds[large][slowest]:.2f} s ({slowest}, {large:,} nodes; at most {MAX_SECONDS:g} s)",
    )


if __name__ == "__main__":
    sys.exit(main())
