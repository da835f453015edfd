"""Whether a program is faster on one worker than shared by all.

    on one worker       work
    shared              work / workers  +  bytes that a worker receives, at `RECEIVED` each

A byte that goes through Dask is copied out, sent, received and put together: measured between
processes of one machine, it takes 7 to 14 ns, where NumPy passes over thirty bytes. So what
rearranges arrays of some megabytes between cheap passes is best left on one worker, and nothing is
received at all. `work` is an estimate from descriptions: bytes that are read and written,
operations, and elements of functions that are described by their name alone. A user's function may
take any time, and is shared.
"""

from __future__ import annotations

from math import inf, prod

from graphwright.describe import cost
from graphwright.ir import Graph
from graphwright.tasks import GraphFacts, facts_of

RECEIVED = 8e-9
"""Seconds for each byte that a worker receives (measured: 7 to 14 ns)."""
TOUCHED = 0.25e-9
"""Seconds for each byte that an operator reads or writes (measured: 0.17 to 0.36 ns)."""
OPERATION = 0.1e-9
"""Seconds for each operation: those of products, which are most, at 10 GFLOP/s on one core."""
OPAQUE = 10e-9
"""Seconds for each element of a transform along a line (measured: 5 to 12 ns)."""
LEAST_BYTES = 1 << 20
"""A program that receives less is shared in any case."""
MOST_BYTES = 1 << 30
"""A program whose arrays take more in all is shared: one worker might not have the memory."""


def is_faster_alone(graph: Graph, received: int, gathered: int, workers: int) -> bool:
    """Whether to leave a program to one worker, which receives nothing.

    `received` are the bytes that all workers would receive together, `gathered` those that are on
    one worker now, and would go by way of this process to the others.
    """
    if received + gathered <= LEAST_BYTES:
        return False
    facts = facts_of(graph)
    if _bytes_held(facts) > MOST_BYTES:
        return False
    saved = _work(facts) * (1 - 1 / workers)
    return saved < RECEIVED * (received / workers + 2 * gathered)


def _bytes_held(facts: GraphFacts) -> int:
    """The bytes of all arrays but views."""
    graph = facts.graph
    made = (
        name
        for node, view in zip(graph.nodes, facts.is_view, strict=True)
        if not view
        for name in node.outputs
    )
    return sum(graph.tensors[name].type.nbytes for name in (*graph.inputs, *made))


def _work(facts: GraphFacts) -> float:
    """Seconds on one worker."""
    total = 0.0
    for node, attrs, types in zip(facts.graph.nodes, facts.attrs, facts.types, strict=True):
        function = str(attrs.get("function", attrs.get("reducer_name", "")))
        if function.startswith("user."):
            return inf
        taken = cost(node.op, attrs, types)
        total += taken.bytes * TOUCHED + taken.operations * OPERATION
        if node.op == "array.batch":  # of whole matrices, each element takes a line of them
            lead = int(str(attrs["dims"]))
            for type in types.outputs:
                total += OPAQUE * type.numel * prod(type.shape[max(lead + 1, 1) :])
    return total
