"""A captured step as a memory problem: nodes with time, tensors with storage.

    operators     all nodes that compute; views are made anew where they are read, but for one that
                  is the new value of an input: it is computed, since what it shows may change
    storages      a tensor and its views; sizes rounded up to ALIGNMENT
    on the host   every input: parameters, buffers and optimizer state have their home there, data
                  and learning rates come from there
    in place      the new value of a parameter is written over the old one by the operator that
                  makes it, behind all readers of the old one; where that is impossible, a copy at
                  the end does it: the operator `copy:NAME`
    kept          what the step returns

Times of operators are those of the cost model, copies take the latency of the host link and their
bytes at the rate that one way has while the other one is busy as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from graphwright.describe import is_random
from graphwright.ir import CONSTANT_OP, Graph, Phase, Role, TensorType
from graphwright.machine import PICOSECONDS, Cluster
from graphwright.plans import MemoryProblem, Operator, Storage
from graphwright.tasks import Costs, GraphFacts

ALIGNMENT = 512
COPY = "copy:"
KEEP = "keep:"
_RATES = "optimizer.lr."


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProblem:
    """The problem of a graph, and what connects the two.

    `storage_of` names the storage of every tensor (that of a new value is the old one's where it is
    written in place), `views` the tensors that are made anew from their storage where they are
    read, `copied` where an operator that only copies copies to and from. `results` names the
    storages of what the step returns, `types` says what is in each.
    """

    graph: Graph
    facts: GraphFacts
    problem: MemoryProblem
    storage_of: dict[str, str]
    views: frozenset[str]
    copied: dict[str, tuple[str, str]]
    results: dict[str, str]
    types: dict[str, TensorType]
    categories: dict[str, int]


def problem_of(graph: Graph, cluster: Cluster, costs: Costs) -> GraphProblem:
    """The memory problem of a graph on device 0 of a cluster."""
    return _Builder(graph, cluster, costs).build()


class _Builder:
    def __init__(self, graph: Graph, cluster: Cluster, costs: Costs) -> None:
        self.graph, self.cluster, self.costs = graph, cluster, costs
        self.facts = GraphFacts(graph)
        made_anew = (n for i, n in enumerate(graph.nodes) if self.facts.is_view[i])
        self.views = frozenset(name for node in made_anew for name in node.outputs)
        self.views -= set(graph.updates.values())
        self.to_host = cluster.to_host(0, both=True)
        self.from_host = cluster.from_host(0, both=True)

    def build(self) -> GraphProblem:
        graph, facts = self.graph, self.facts
        in_place = self._in_place()
        storage_of = {}
        for name in graph.tensors:
            own = facts.root[name] if name in self.views else name
            storage_of[name] = in_place.get(own, own)
        aside = self._aside(storage_of)
        results = {name: aside.get(storage_of[name], storage_of[name]) for name in facts.results}
        copied = {f"{COPY}{old}": (old, storage_of[new]) for old, new in graph.updates.items()}
        copied = {
            name: (old, aside.get(new, new)) for name, (old, new) in copied.items() if old != new
        }
        shows = {storage: storage for storage in storage_of.values()}
        shows |= {storage: name for name, storage in aside.items()}
        number = {name: n for n, name in enumerate(shows)}
        kept = set(results.values())
        storages = tuple(self._storage(name, shown, kept) for name, shown in shows.items())
        operators = [
            Operator(
                name=storage,
                reads=(number[name],),
                makes=(number[storage],),
                duration=self._copy_time(name),
                repeats=False,
            )
            for name, storage in aside.items()
        ]
        position: dict[int, int] = {}
        for i, node in enumerate(graph.nodes):
            outputs = [name for name in node.outputs if name not in self.views]
            if not outputs:
                continue
            reads = dict.fromkeys(storage_of[n] for n in node.inputs if n is not None)
            made = [storage_of[n] for n in outputs]
            writes = [name for name in made if name in graph.inputs]
            makes = [name for name in made if name not in graph.inputs]
            position[i] = len(operators)
            operators.append(
                Operator(
                    name=node.name,
                    reads=tuple(number[n] for n in dict.fromkeys((*reads, *writes))),
                    makes=tuple(number[n] for n in makes),
                    writes=tuple(number[n] for n in writes),
                    duration=self._duration(i),
                    over=self._over(i, made, storage_of, number),
                    repeats=not is_random(graph, node) and not writes,
                    updates=node.phase is Phase.UPDATE,
                )
            )
        for name, (old, new) in copied.items():
            operators.append(
                Operator(
                    name=name,
                    reads=(number[old], number[new]),
                    makes=(),
                    writes=(number[old],),
                    duration=self._copy_time(old),
                    repeats=False,
                    updates=True,
                )
            )
        problem = MemoryProblem(
            operators=tuple(operators),
            storages=storages,
            before=self._before(operators, position),
            graph_hash=graph.hash,
        )
        return GraphProblem(
            graph=graph,
            facts=facts,
            problem=problem,
            storage_of=storage_of,
            views=self.views,
            copied=copied | {storage: (storage, name) for name, storage in aside.items()},
            results=results,
            types={name: graph.tensors[shown].type for name, shown in shows.items()},
            categories={name: facts.category[shown] for name, shown in shows.items()},
        )

    def _aside(self, storage_of: dict[str, str]) -> dict[str, str]:
        """Inputs that change, but whose old values are needed when the step ends; and the storages
        that keep them."""
        graph = self.graph
        changed = {old for old, new in graph.updates.items() if old != new}
        taken = [storage_of[new] for old, new in graph.updates.items() if new in graph.inputs]
        shown = [storage_of[name] for name in self.facts.results]
        return {name: f"{KEEP}{name}" for name in (*taken, *shown) if name in changed}

    def _in_place(self) -> dict[str, str]:
        """New values that are written over the old ones: nobody who reads those comes later."""
        facts, graph = self.facts, self.graph
        reached: dict[str, str] = {}
        taken: set[str] = set()
        for old, new in graph.updates.items():
            made = facts.producer.get(new)
            alone = facts.replaces[new] == [old] and made is not None
            if not alone or made is None or old in taken:
                continue
            same = graph.tensors[old].type == graph.tensors[new].type
            last = max(
                (r for alias in facts.family[old] for r, _ in facts.readers[alias]), default=-1
            )
            if same and last <= made[0]:
                reached[new] = old
                taken.add(old)
        return reached

    def _before(
        self, operators: list[Operator], position: dict[int, int]
    ) -> tuple[tuple[int, int], ...]:
        """Who reads comes before who writes, who reads that behind; random operators keep turns."""
        pairs: list[tuple[int, int]] = []
        readers: dict[int, list[int]] = {}
        writer: dict[int, int] = {}
        for i, op in enumerate(operators):
            for s in op.reads:
                if s in writer:
                    pairs.append((writer[s], i))
                if s not in op.writes:
                    readers.setdefault(s, []).append(i)
            for s in op.writes:
                pairs += [(r, i) for r in readers.get(s, ())]
                writer[s] = i
        random = [
            position[i]
            for i, node in enumerate(self.graph.nodes)
            if i in position and is_random(self.graph, node)
        ]
        return (*pairs, *pairwise(random))

    def _storage(self, name: str, shown: str, kept: set[str]) -> Storage:
        tensor = self.graph.tensors[shown]
        is_input = name in self.graph.inputs
        lasts = is_input and not is_given(name, tensor.role)
        exact = tensor.type.nbytes
        return Storage(
            name=name,
            nbytes=aligned(exact),
            out_time=_picoseconds(self.to_host.latency + exact / self.to_host.bandwidth),
            in_time=_picoseconds(self.from_host.latency + exact / self.from_host.bandwidth),
            begins_on_host=is_input,
            ends="home" if lasts else "kept" if name in kept else "free",
        )

    def _duration(self, i: int) -> int:
        node = self.graph.nodes[i]
        if node.op == CONSTANT_OP:
            return 0
        if self.facts.is_view[i]:
            return sum(self._copy_time(n) for n in node.outputs if n not in self.views)
        facts, device = self.facts, self.cluster.devices[0]
        return _picoseconds(self.costs.compute(node.op, facts.attrs[i], facts.types[i], device))

    def _copy_time(self, name: str) -> int:
        device = self.cluster.devices[0]
        nbytes = self.graph.tensors[name].type.nbytes
        return _picoseconds(device.launch + 2 * nbytes / device.bandwidth)

    def _over(
        self, i: int, made: list[str], storage_of: dict[str, str], number: dict[str, int]
    ) -> int | None:
        """The operand that the output may take the place of."""
        node, facts = self.graph.nodes[i], self.facts
        if not facts.writes_over[i] or len(made) != 1 or made[0] in self.graph.inputs:
            return None
        type = self.graph.tensors[node.outputs[0]].type
        for name in node.inputs:
            if name is None or storage_of[name] in self.graph.inputs:
                continue
            if self.graph.tensors[name].type == type and storage_of[name] == name:
                return number[name]
        return None


def aligned(nbytes: int) -> int:
    """The bytes of a storage that holds so many."""
    return max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT


def is_given(name: str, role: Role) -> bool:
    """Whether an input is given to every step anew: the batch, learning rates."""
    return role is Role.INPUT or name.startswith(_RATES)


def _picoseconds(seconds: float) -> int:
    return round(seconds * PICOSECONDS)
