"""SwapAdvisor's Table 5.1: memory, operators and distinct tensor sizes of its models, beside the zoo's.

The paper does not say how it counts memory. Three counts are shown, all from the captured training step, in GB (10^9 bytes):

    held    weights, their gradients and history, and every activation that the backward pass reads: what a step needs
            if nothing is freed before the end
    all     weights, gradients and history, and every activation and gradient of an activation, nothing reused (views not
            counted; written-out batch norms make this too large for the CNNs)
    peak    by liveness in program order, every tensor with storage of its own, freed after its last use

Tensor sizes are those of at least a megabyte. MXNet's graph has one operator per layer where ATen has several, and one fused
update per weight, so operators are also counted its way: one per module call and phase. What is known of each
difference over 10% is said below the table, and what is not known too.
"""

from __future__ import annotations

import sys
import time
import warnings

from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.describe import properties, types_of
from graphwright.ir import Graph, summarize

GB, MIB = 10**9, 2**20
PUBLISHED = {  # memory in GB, operators, tensor sizes, batch size
    "wresnet-152-10": (180, 882, 26, 64),
    "inception-4": (71, 830, 64, 64),
    "rnn-8-8k": (118, 8594, 7, 256),
    "brnn-4-8k": (99, 9034, 9, 128),
    "nasnet-25": (193, 5533, 65, 64),
}
QUICK = ("wresnet-152-10", "rnn-8-8k")


def saved_bytes(graph: Graph) -> int:
    """Activations made in the forward pass and read in the backward pass: what has to be kept or swapped."""
    forward = {name for node in graph.nodes if node.phase == "forward" for name in node.outputs}
    read = {
        name for node in graph.nodes if node.phase == "backward" for name in node.inputs if name
    }
    return sum(graph.tensors[name].type.nbytes for name in forward & read)


def all_bytes(graph: Graph, batch: int) -> int:
    """Weights, their gradients and history, and everything a step computes per sample, with nothing reused."""
    weights = sum(
        graph.tensors[name].type.nbytes
        for name in graph.inputs
        if graph.tensors[name].role == "parameter"
    )
    computed = sum(
        graph.tensors[name].type.nbytes
        for node in graph.nodes
        if node.phase != "update"
        and not properties(node.op, node.attrs, types_of(graph, node)).view
        for name in node.outputs
        if batch in graph.tensors[name].type.shape
    )
    return 3 * weights + computed


WHY = {
    "wresnet-152-10": "Held agrees. The peak is lower, because gradients appear while activations go.",
    "inception-4": "Convolutions of 1x7 and 7x1 and concatenations dominate. MXNet keeps the inputs of a concatenation and its "
    "result, where only the result is read again here; whether that is all of the difference cannot be told from the paper.",
    "rnn-8-8k": "The paper's figure is near the count of all tensors without reuse, so it seems to be taken without it; most of what "
    "an LSTM cell computes need not be kept.",
    "brnn-4-8k": "As for rnn-8-8k: all tensors without reuse give the paper's figure.",
    "nasnet-25": "Held is within 10%. The peak is lower, because gradients appear while activations go.",
}


def explain(name: str, graph: Graph) -> str:
    views = sum(properties(node.op, node.attrs, types_of(graph, node)).view for node in graph.nodes)
    updates = sum(node.phase == "update" for node in graph.nodes)
    norms = sum(node.op == "aten.rsqrt" and node.phase == "forward" for node in graph.nodes)
    text = f"{name}: {WHY[name]} Of our {len(graph.nodes):,} operators {views:,} are views and {updates:,} update arithmetic"
    return text + (
        f"; {norms:,} batch norms are written out as a dozen operators each." if norms else "."
    )


def main() -> int:
    options = parse_options(__doc__)
    warnings.simplefilter("ignore")
    rows, results, notes = [], {}, []
    for name, (gb, operators, sizes, batch) in PUBLISHED.items():
        if options.quick and name not in QUICK:
            continue
        workload = zoo.load(name, batch_size=batch)
        start = time.perf_counter()
        graph = workload.capture()
        seconds = time.perf_counter() - start
        found = summarize(graph)
        large = sum(size >= MIB for size in found.distinct_sizes)
        calls = len({(node.module, node.step, node.phase) for node in graph.nodes})
        peak = found.peak_bytes / GB
        held = (
            found.parameter_bytes
            + found.parameter_gradient_bytes
            + found.optimizer_state_bytes
            + saved_bytes(graph)
        ) / GB
        results[name] = {
            "memory": {
                "paper": gb,
                "held": held,
                "all": all_bytes(graph, batch) / GB,
                "peak": peak,
            },
            "operators": {"paper": operators, "ours": len(graph.nodes), "module_calls": calls},
            "sizes": {"paper": sizes, "ours": len(found.distinct_sizes), "large": large},
            "capture_seconds": seconds,
        }
        everything = all_bytes(graph, batch) / GB
        rows.append(
            (name, gb, f"{held:.0f}", f"{held / gb:.2f}", f"{everything:.0f}", f"{peak:.0f}", operators, len(graph.nodes), calls, sizes, large,
             f"{seconds:.1f}")
        )  # fmt: skip
        notes.append(explain(name, graph))
    headings = (
        "model", "memory, paper", "held, GB", "ratio", "all, GB", "peak, GB", "operators, paper", "ours", "module calls",
        "sizes, paper", "ours, 1 MiB up", "capture, s",
    )  # fmt: skip
    print_table(headings, rows)
    print("\n".join(notes))
    save_result("swapadvisor_table51", options, results)
    return finish(
        options,
        [],
        f"{len(rows)} models; memory held, ours / paper: "
        + ", ".join(f"{row[0]} {row[3]}" for row in rows),
    )


if __name__ == "__main__":
    sys.exit(main())
