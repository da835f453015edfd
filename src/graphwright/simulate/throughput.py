"""What a step trains on and how much arithmetic that is: for rates, utilisation and prices.

    samples      the size of the batch dim of what the step is given
    tokens       the elements of its first input where that is whole numbers [batch, position]
    operations   of all products of the forward pass, and twice as many for the backward pass:
                 the model's own, without what checkpoints do again

    model FLOPs utilisation = operations / (seconds * rate of all devices)

where the rate is that of the dtype in which most products are (PaLM, Chowdhery et al. 2022,
appendix B). What a causal mask hides is not counted, so it is a little less than by formulas that
count all of attention.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from graphwright.describe import PRODUCTS, arithmetic, cost, types_of
from graphwright.ir import CONSTANT_OP, Graph, Phase, Role
from graphwright.machine import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """What one step of a graph trains on, and the arithmetic of the model for it."""

    samples: int
    tokens: int
    operations: int
    dtype: str

    def utilisation(self, seconds: float, cluster: Cluster) -> float | None:
        """The share of the devices' rate that the model's arithmetic takes."""
        rate = sum(n * d.rate(self.dtype) for d, n in cluster.kinds().items())
        return self.operations / (seconds * rate) if seconds and self.operations else None


_KNOWN: dict[int, tuple[Graph, StepSize]] = {}
_MOST_KNOWN = 8


def step_size(graph: Graph) -> StepSize:
    """What a step of a graph trains on; many plans of one graph ask for it."""
    entry = _KNOWN.get(id(graph))
    if entry is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        entry = _KNOWN[id(graph)] = (graph, _step_size(graph))  # kept, so that its id stays its own
    return entry[1]


def _step_size(graph: Graph) -> StepSize:
    given = [graph.tensors[n].type for n in graph.inputs if graph.tensors[n].role is Role.INPUT]
    samples = max((t.shape[0] for t in given if t.rank), default=0)
    tokens = given[0].numel if given and given[0].rank == 2 and "int" in given[0].dtype else 0
    by_dtype: Counter[str] = Counter()
    for node in graph.nodes:
        if node.phase is Phase.FORWARD and node.op != CONSTANT_OP:
            types = types_of(graph, node)
            what = arithmetic(node.op, node.attrs, types)
            if what.kind in PRODUCTS:
                by_dtype[what.dtype] += cost(node.op, node.attrs, types).operations
    trains = any(node.phase is Phase.BACKWARD for node in graph.nodes)
    dtype = by_dtype.most_common(1)[0][0] if by_dtype else "float32"
    total = sum(by_dtype.values()) * (3 if trains else 1)
    return StepSize(samples=samples, tokens=tokens, operations=total, dtype=dtype)
