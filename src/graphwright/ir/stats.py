"""How big a graph is: what `repr` is too short for and a plan's report starts from.

`peak_bytes` is by the simplest liveness that is right: nodes run in program order, a tensor is
allocated when it is made and freed after its last reader.

    live(i) = inputs still held + tensors made by nodes 0..i and read after i, or returned

Inputs are held throughout, except those that the step replaces, which go after their last reader.
Every tensor counts with storage of its own: a view's or an in-place update's saving is not known at
this level, so this is an upper bound on what a good allocator needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from graphwright.frozen import FrozenDict
from graphwright.ir.graph import Graph
from graphwright.ir.types import Phase, Role


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary:
    """Counts and bytes of a graph; `repr` is a small report.

    `parameter_gradient_bytes` are those of gradients of parameters alone, `gradient_bytes` of all
    gradients. New values of parameters, buffers and state are in `new_value_bytes`, not with the
    old.
    """

    num_nodes: int
    num_tensors: int
    num_parameters: int
    nodes_per_phase: Mapping[Phase, int]
    nodes_per_op: Mapping[str, int]
    parameter_bytes: int
    buffer_bytes: int
    optimizer_state_bytes: int
    input_bytes: int
    constant_bytes: int
    activation_bytes: int
    gradient_bytes: int
    parameter_gradient_bytes: int
    new_value_bytes: int
    distinct_sizes: Mapping[int, int]
    peak_bytes: int
    peak_node: str | None

    def __repr__(self) -> str:
        phases = ", ".join(f"{count} {phase}" for phase, count in self.nodes_per_phase.items())
        ops = sorted(self.nodes_per_op.items(), key=lambda item: (-item[1], item[0]))
        rows = [
            ("nodes", f"{self.num_nodes}" + (f" ({phases})" if phases else "")),
            ("operators", ", ".join(f"{op} x{count}" for op, count in ops[:6]) or "none"),
            ("tensors", f"{self.num_tensors} of {len(self.distinct_sizes)} distinct sizes"),
            ("parameters", f"{self.num_parameters:,}, {format_bytes(self.parameter_bytes)}"),
            ("gradients of parameters", format_bytes(self.parameter_gradient_bytes)),
            ("all gradients", format_bytes(self.gradient_bytes)),
            ("optimizer state", format_bytes(self.optimizer_state_bytes)),
            ("activations", format_bytes(self.activation_bytes)),
            (
                "peak",
                format_bytes(self.peak_bytes) + (f" at {self.peak_node}" if self.peak_node else ""),
            ),
        ]
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {value}" for label, value in rows)


def summarize(graph: Graph) -> Summary:
    """Count a graph's nodes, tensors and bytes, in one pass each."""
    given = frozenset(graph.inputs)
    sizes = {name: tensor.type.nbytes for name, tensor in graph.tensors.items()}
    held: Counter[Role] = Counter()
    made: Counter[Role] = Counter()
    parameter_gradients = 0
    for name, tensor in graph.tensors.items():
        (held if name in given else made)[tensor.role] += sizes[name]
        if tensor.role is Role.GRADIENT and tensor.of in given:
            owner = graph.tensors[tensor.of]
            parameter_gradients += sizes[name] if owner.role is Role.PARAMETER else 0
    phases = Counter(node.phase for node in graph.nodes)
    peak, where = _peak(graph, sizes)
    return Summary(
        num_nodes=len(graph.nodes),
        num_tensors=len(graph.tensors),
        num_parameters=sum(
            graph.tensors[name].type.numel
            for name in graph.inputs
            if graph.tensors[name].role is Role.PARAMETER
        ),
        nodes_per_phase=FrozenDict({phase: phases[phase] for phase in Phase if phases[phase]}),
        nodes_per_op=FrozenDict(dict(sorted(Counter(node.op for node in graph.nodes).items()))),
        parameter_bytes=held[Role.PARAMETER],
        buffer_bytes=held[Role.BUFFER],
        optimizer_state_bytes=held[Role.OPTIMIZER_STATE],
        input_bytes=held[Role.INPUT],
        constant_bytes=held[Role.CONSTANT] + made[Role.CONSTANT],
        activation_bytes=made[Role.ACTIVATION],
        gradient_bytes=made[Role.GRADIENT],
        parameter_gradient_bytes=parameter_gradients,
        new_value_bytes=made[Role.PARAMETER] + made[Role.BUFFER] + made[Role.OPTIMIZER_STATE],
        distinct_sizes=FrozenDict(dict(sorted(Counter(sizes.values()).items()))),
        peak_bytes=peak,
        peak_node=where,
    )


def _peak(graph: Graph, sizes: Mapping[str, int]) -> tuple[int, str | None]:
    """Most bytes live at once, and the node that runs then (None: before the first node)."""
    last_use: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        for name in node.outputs:
            last_use[name] = i  # what nobody reads goes as soon as it is made
        for read in node.inputs:
            if read is not None:
                last_use[read] = i
    kept = {name for name in graph.inputs if graph.updates.get(name, name) == name}
    kept.update(graph.outputs)
    freed = [0] * len(graph.nodes)
    for name, i in last_use.items():
        if name not in kept:
            freed[i] += sizes[name]
    live = sum(sizes[name] for name in graph.inputs)
    peak, where = live, None
    for i, node in enumerate(graph.nodes):
        live += sum([sizes[name] for name in node.outputs])
        if live > peak:
            peak, where = live, node.name
        live -= freed[i]
    return peak, where


def format_bytes(count: int) -> str:
    """Write a number of bytes in decimal units, as machines' memory is sold: `14.5 GB`."""
    if count < 1000:
        return f"{count} B"
    size = count / 1000
    for unit in ("kB", "MB", "GB"):
        if size < 999.5:  # what would round to 1000 goes to the next unit
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB" if size < 999.5 else f"{size:,.0f} TB"
