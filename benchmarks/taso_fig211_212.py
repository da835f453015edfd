"""TASO's figures 2.11 and 2.12: what larger rules gain, and what choosing layouts together with rules gains.

Figure 2.11: on one V100, rules of up to 1, 2, 3 and 4 operators: "improvement is consistently achieved by using larger substitutions up to size 3"; with size 4, ResNeXt-50 and BERT gain nothing more,
NasNet-A 1.2x. Ours are of up to 3 operators (with the splits that follow a merge, 4), so there is no size 4 here. Figure 2.12, BERT: joint optimisation is 1.2 to 1.3 times as fast as rules only, layouts only,
or one after the other. TASO's layouts there are those of cuBLAS's operands; here they are those of images, in the order of dims or with channels last. For products, weights lie transposed, as `linear` reads them.

    rules <= n          rules of up to n operators, and the layouts that are cheapest with them (n = 3: joint)
    layouts only        no rules
    rules only          images in the order of their dims
    layouts, rules      the cheaper layout of the whole model is chosen first, then rules by the prices of that
    rules, layouts      rules by the prices of dims in order, then the cheapest layouts of what they made

Costs are predicted by measured prices, and each outcome runs, in turns with the others. Gains are over the model with norms and biases merged and dims in order.
Targets: neither larger rules nor the joint search cost more than what they are compared with (a thousandth is for the order of sums); their outcome runs as fast (5 % are for the clock).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from _report import finish, parse_options, print_table, save_result
from graphwright.aten import call
from graphwright.capture import export
from graphwright.ir import Graph
from graphwright.pipeline.inference import measured_prices, module_of
from graphwright.rewrite import (
    ChannelsLast,
    Price,
    cost_of,
    fixed_tensors,
    layouts_of,
    rewrite_graph,
)
from graphwright.rewrite.substitutions import Rule, every_rule
from taso_fig27 import ROUNDS, load, times

NETWORKS = ("squeezenet", "nasrnn", "bert-base", "inception-v3", "nasnet-a-mobile", "resnext50")
QUICK = ("squeezenet", "nasrnn")
SIZES = (1, 2, 3)
EXACT, CLOCK = 1.001, 1.05


def rules_up_to(size: int) -> list[Rule]:
    """The shipped rules of up to so many operators on either side."""
    return [rule for rule in every_rule() if rule.substitution.size <= size]


def uniform(graph: Graph, price: Price, last: ChannelsLast) -> bool:
    """Whether a graph is cheaper with all channels last than with all dims in order."""
    costs = [rewrite_graph(graph, each, rules=()).cost for each in (price, last.price)]
    return costs[1] < costs[0]


def outcomes(
    graph: Graph, images: bool
) -> dict[str, tuple[Graph, Price, ChannelsLast | None, float]]:
    """Every strategy's graph, the prices its layouts follow from, and the seconds of its search."""
    price, last = measured_prices(torch.device("cpu"))
    plain = rewrite_graph(graph, lambda op, attrs, types: 0.0, rules=()).graph
    made: dict[str, tuple[Graph, Price, ChannelsLast | None, float]] = {}

    def keep(name: str, found: Graph, layouts: ChannelsLast | None, started: float) -> None:
        made[name] = found, price, layouts if images else None, perf_counter() - started

    keep("merged", plain, None, perf_counter())
    for size in SIZES:
        started = perf_counter()
        found = rewrite_graph(graph, price, last=last if images else None, rules=rules_up_to(size))
        keep(f"rules <= {size}", found.graph, last, started)
    if images:
        started = perf_counter()
        keep("layouts only", plain, last, started)
        started = perf_counter()
        alone = rewrite_graph(graph, price).graph
        keep("rules only", alone, None, started)
        keep("rules, layouts", alone, last, started)
        started = perf_counter()
        chosen = last.price if uniform(graph, price, last) else price
        keep("layouts, rules", rewrite_graph(graph, chosen).graph, last, started)
    return made


def milliseconds(found: Graph, price: Price, last: ChannelsLast | None) -> float:
    """What an outcome should take, in the layouts that it runs in."""
    if last is None:
        return 1e3 * cost_of(found, price)
    return 1e3 * layouts_of(found, price, last, fixed_tensors(found)).cost


def measured(name: str, seed: int) -> dict[str, Any]:
    """One network: predicted and measured milliseconds of each strategy."""
    model, inputs = load(name, seed)
    exported = export(model, inputs)
    images = any(
        len(t.type.shape) == 4 for t in map(exported.graph.tensors.get, exported.graph.inputs) if t
    )
    made = outcomes(exported.graph, images)
    bodies, predicted = {}, {}
    for strategy, (found, price, last, _) in made.items():
        folded, bodies[strategy] = module_of(exported, found, price, last)
        predicted[strategy] = milliseconds(folded, price, last)
    taken = times({k: partial(call, body, inputs) for k, body in bodies.items()}, ROUNDS)
    kernels = {
        k: sum(n.op not in ("aten.view", "aten.slice.Tensor") for n in found.nodes)
        for k, (found, *_) in made.items()
    }
    seconds = {k: took for k, (*_, took) in made.items()}
    return {
        "predicted_ms": predicted,
        "measured_ms": taken,
        "seconds": seconds,
        "calls": kernels,
        "images": images,
    }


def misses_of(name: str, result: dict[str, Any]) -> list[str]:
    """What is dearer than what it should not be dearer than."""
    sizes = [f"rules <= {size}" for size in SIZES]
    pairs = list(pairwise(sizes))
    if result["images"]:
        pairs += [
            (o, sizes[-1])
            for o in ("layouts only", "rules only", "layouts, rules", "rules, layouts")
        ]
    missed = []
    for kind, slack in (("predicted_ms", EXACT), ("measured_ms", CLOCK)):
        each = result[kind]
        missed += [
            f"{name}, {kind[:-3]}: {b} {each[b]:.2f} ms, {a} {each[a]:.2f}"
            for a, b in pairs
            if each[b] > slack * each[a]
        ]
    return missed


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", default="", help=f"some of {', '.join(NETWORKS)}, by commas")
    chosen, _ = own.parse_known_args()
    options = parse_options(__doc__, own)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = [n for n in chosen.models.split(",") if n] or (QUICK if options.quick else NETWORKS)
    results, misses, rows = {}, [], []
    for name in names:
        result = results[name] = measured(name, options.seed)
        misses += misses_of(name, result)
        base = result["measured_ms"]["merged"]
        for strategy, predicted in result["predicted_ms"].items():
            took = result["measured_ms"][strategy]
            rows.append((name, strategy, round(predicted, 2), round(took, 2), round(base / took, 2), round(result["seconds"][strategy], 1)))  # fmt: skip
        print_table(
            ("network", "strategy", "predicted ms", "measured ms", "gain", "search s"),
            rows[-len(result["predicted_ms"]) :],
        )
    save_result("taso_fig211_212", options, {"threads": 1, "networks": results})
    joint = [
        r["measured_ms"]["rules only"] / r["measured_ms"]["rules <= 3"]
        for r in results.values()
        if r["images"]
    ]
    figure = (
        f"joint search {min(joint):.2f} to {max(joint):.2f} times as fast as rules only"
        if joint
        else "no images"
    )
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
