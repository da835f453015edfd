"""From a finished tape to a graph: drop what is dead, settle names and provenance, verify.

Alive is what leads to an output, and every random draw (removing one would shift all later ones). A
backward entry whose partner is dead takes the nearest living forward entry before it. An update
entry belongs to the parameter whose value, gradient or state it reads; what only reads shared state
(Adam's bias correction) belongs to the first parameter that uses it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphwright.capture.record.tape import Entry, Frame, Tape, Value, living
from graphwright.ir import Composite, Graph, GraphBuilder, Phase, Role, region_between


@dataclass(slots=True)
class Results:
    """What the step gives back.

    `outputs` are named values in order; `updates` maps an input to its new value; `gradients` maps
    a parameter to its gradient, `unclipped` to what that was before clipping; `owners` maps a
    parameter's value, gradient and state to the parameter.
    """

    outputs: dict[str, Value] = field(default_factory=dict[str, Value])
    updates: dict[str, Value] = field(default_factory=dict[str, Value])
    gradients: dict[str, Value] = field(default_factory=dict[str, Value])
    unclipped: dict[str, Value] = field(default_factory=dict[str, Value])
    gradients_returned: bool = False
    owners: dict[Value, str] = field(default_factory=dict[Value, str])


def assemble(tape: Tape, results: Results, calls: Mapping[str, int]) -> Graph:
    """Make the graph of a tape."""
    return _Assembly(tape, results, calls).run()


class _Assembly:
    def __init__(self, tape: Tape, results: Results, calls: Mapping[str, int]) -> None:
        self.tape, self.results, self.calls = tape, results, calls
        self.inputs = {value.name: value for value in tape.inputs}
        self.names: dict[Value, str] = {}
        self.placed: dict[Entry, tuple[str | None, str | None]] = {}  # partner and parameter
        self.builder = GraphBuilder()
        cells = (entry.cell[1] + 1 for entry in tape.entries if entry.cell is not None)
        self.num_steps = max(1, *calls.values(), *cells)  # of one micro-batch, at the most

    def run(self) -> Graph:
        named = self.name_results()
        alive = living(self.tape, [value for _, value, _ in named])
        used = {v for entry in alive for v in entry.inputs if v is not None}
        for value in self.tape.inputs:
            if value.role is not Role.CONSTANT or value in used:
                self.names[value] = value.name or ""
                of = value.of.name if value.of is not None else None
                self.builder.add_input(value.name or "", value.type, value.role, of)
        owners = self.owners(alive)
        forward = [entry.index for entry in alive if entry.phase is Phase.FORWARD]
        by_index = {entry.index: entry for entry in alive}
        for entry in alive:
            partner = self.partner(entry, by_index, forward)
            self.add(entry, partner, owners.get(entry))
        outputs: list[str] = []
        updates: dict[str, str] = {}
        for name, value, old in named:
            made = self.names.get(value)
            if made != name:  # the value has another name already: give it this one as well
                made = self.copy(name, value, old)
            if old is not None:
                updates[old] = made
            if old is not None or name in self.results.outputs or self.results.gradients_returned:
                outputs.append(made)
        return self.with_composites(self.builder.build(outputs, updates))

    def with_composites(self, graph: Graph) -> Graph:
        """The graph, knowing which of its nodes are the parts of one kernel."""
        composites: list[Composite] = []
        for parts in self.tape.taken_apart:
            inputs = [None if v is None else self.names.get(v, "") for v in parts.inputs]
            outputs = [self.names.get(v) for v in parts.outputs]
            if "" in inputs or not any(outputs):
                continue
            between = region_between(graph.producer, graph.tensors, inputs, outputs)
            if between is not None and len(between[0]) > 1:
                types = tuple(v.type for v in parts.outputs)
                composites.append(
                    Composite(
                        parts.op, tuple(inputs), parts.attrs, tuple(outputs), types, between[1]
                    )
                )
        return replace(graph, composites=tuple(composites))

    def name_results(self) -> list[tuple[str, Value, str | None]]:
        """Return (name, value, input it replaces) for all that has a name of its own."""
        named: list[tuple[str, Value, str | None]] = []
        for name, value in self.results.outputs.items():
            named.append((name, value, None))
        for parameter, value in self.results.gradients.items():
            if value.producer is not None and value.name is None:
                value.role, value.of = Role.GRADIENT, self.inputs[parameter]
            named.append((f"{parameter}.grad", value, None))
        for parameter, value in self.results.unclipped.items():
            if value.producer is not None and value.name is None:
                value.role, value.of = Role.GRADIENT, self.inputs[parameter]
                value.name = f"{parameter}.grad.unclipped"
        for old, value in self.results.updates.items():
            if value.producer is not None and value.name is None:
                value.role, value.of = self.inputs[old].role, self.inputs[old]
            named.append((f"{old}.new", value, old))
        for name, value, _ in named:
            if value.producer is not None and value.name is None:
                value.name = name
        return named

    def partner(
        self, entry: Entry, alive: Mapping[int, Entry], forward: Sequence[int]
    ) -> Entry | None:
        if entry.phase is not Phase.BACKWARD:
            return None
        if entry.accumulates:
            source = self.accumulated(entry)
            if source is not None and source.index in alive:
                return source
        wanted = entry.partner
        if wanted is not None and wanted.index in alive and wanted.phase is Phase.FORWARD:
            return wanted
        if not forward:
            return None
        at = bisect_right(forward, wanted.index if wanted is not None else forward[-1])
        return alive[forward[max(at - 1, 0)]]

    def accumulated(self, entry: Entry) -> Entry | None:
        """Return the first forward reader of the input whose gradient an addition gathers."""
        of = entry.outputs[0].of
        if of is None or of.producer is not None:
            return None
        for candidate in self.tape.entries:
            if candidate is entry:
                return None
            of_same = candidate.phase is Phase.FORWARD and candidate.micro == entry.micro
            if of_same and of in candidate.inputs:
                return candidate
        return None

    def owners(self, alive: Sequence[Entry]) -> dict[Entry, str]:
        """Return the parameter of each update entry."""
        owner_of = dict(self.results.owners)
        parameters: dict[Entry, str] = {}
        updates = [entry for entry in alive if entry.phase is Phase.UPDATE]
        for entry in updates:
            for value in entry.inputs:
                if value in owner_of:
                    parameters[entry] = owner_of[value]
                    owner_of.update(dict.fromkeys(entry.outputs, owner_of[value]))
                    break
        shared = {entry for entry in updates if entry not in parameters}
        for entry in reversed(updates):  # so that the first of several readers has the last word
            if entry in parameters:
                for value in entry.inputs:
                    source = None if value is None else value.producer
                    if source in shared:
                        parameters[source] = parameters[entry]
        anyone = next(iter(self.results.owners.values()), None)
        if anyone is not None:
            for entry in updates:
                parameters.setdefault(entry, anyone)
        return parameters

    def add(self, entry: Entry, partner: Entry | None, parameter: str | None) -> None:
        place = entry if partner is None else partner
        module = place.frame.path if place.frame else ""
        if parameter is not None:
            module = parameter.rpartition(".")[0]
        layer, step = self.layer_and_step(place, module)
        stem = _stem(entry.op)
        partner_name = None if partner is None else self.names[partner.outputs[0]]
        self.placed[entry] = (partner_name, parameter)
        outputs = self.builder.add(
            entry.op,
            [None if v is None else self.names[v] for v in entry.inputs],
            entry.attrs,
            [v.type for v in entry.outputs],
            names=[v.name or (f"{stem}:{i}" if i else stem) for i, v in enumerate(entry.outputs)],
            phase=entry.phase,
            role=[self.role(v) for v in entry.outputs],
            of=[self.of(v) for v in entry.outputs],
            partner=partner_name,
            module=module,
            layer=layer,
            step=step,
            parameter=parameter,
        )
        self.names.update(zip(entry.outputs, outputs, strict=True))

    def role(self, value: Value) -> Role:
        return Role.ACTIVATION if value.role is Role.GRADIENT and not self.of(value) else value.role

    def of(self, value: Value) -> str | None:
        return None if value.of is None else self.names.get(value.of)

    def layer_and_step(self, entry: Entry, module: str) -> tuple[int | None, int | None]:
        """The layer, and the step of a recurrence or of a module's calls, in each micro-batch."""
        layer, step = self.layer_and_inner_step(entry, module)
        if entry.micro is not None:
            step = entry.micro * self.num_steps + (step or 0)
        return layer, step

    def layer_and_inner_step(self, entry: Entry, module: str) -> tuple[int | None, int | None]:
        numbers = [int(part) for part in module.split(".") if part.isdigit()]
        layer = numbers[-1] if numbers else None
        if entry.cell is not None:
            return (layer if entry.cell[0] is None else entry.cell[0]), entry.cell[1]
        if entry.phase is Phase.UPDATE:
            return layer, None
        frame: Frame | None = entry.frame
        while frame is not None:
            if frame.has_parameters and self.calls.get(frame.path, 0) > 1:
                return layer, frame.call
            frame = frame.parent
        return layer, None

    def copy(self, name: str, value: Value, old: str | None) -> str:
        """Add a node that gives a value one more name."""
        source = self.names[value]
        if old is not None:
            role, of = self.inputs[old].role, old
        elif name.endswith(".grad") and name.removesuffix(".grad") in self.results.gradients:
            role, of = Role.GRADIENT, name.removesuffix(".grad")
        else:
            role, of = Role.ACTIVATION, None
        producer = value.producer
        partner, parameter = (None, None) if producer is None else self.placed[producer]
        if parameter is not None and old is not None:
            parameter = self.results.owners.get(self.inputs[old], parameter)
        (made,) = self.builder.add(
            "aten.clone", [source], {}, value.type, names=name, role=role, of=of,
            phase=Phase.FORWARD if producer is None else producer.phase,
            partner=partner, parameter=parameter,
        )  # fmt: skip
        return made


def _stem(op: str) -> str:
    return op.split(".")[1].lstrip("_")
