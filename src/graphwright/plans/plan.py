"""A plan: a strategy for every node of a graph, on a cluster.

    {"format": "graphwright.plan", "version": 2, "graph": "<hash>", "cluster": "name = ...",
     "strategies": [{"choices": ["b", "b", "b"], "nodes": ["convolution", ...]},
                    {"choices": [], "devices": [3], "shape": [], "nodes": ["mm"]}],
     "inputs": {"fc.weight": {"placements": ["S0", "R", "R"]}},
     "keep": {"fc.weight": "before"},
     "results": {"logits": {"placements": ["S0", "S0", "S0"]}},
     "algorithm": "data", "seed": 0, "made_by": "0.1.0",
     "figures": {"time": 0.0125, "memory": 14500000000, ...}}

The cluster is there as its TOML text. Nodes with equal strategies share an entry. Reading checks
every field; nothing in a file is executed. Version 1 had neither "keep" nor "figures". "passes" are
those that made the graph from the captured one, {"name": ..., "options": ...} each; they are left
out if that is "unmerge" alone, and "results" if there are none, as it was before there were the
fields. "memory" is there where the step is to run in so many bytes of each device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from graphwright.errors import (
    GraphFormatError,
    InvalidCluster,
    InvalidStrategy,
    PlanFormatError,
    PlanMismatch,
    UnknownDevice,
)
from graphwright.frozen import FrozenDict
from graphwright.ir import (
    UNMERGED,
    Graph,
    PassRecord,
    TensorType,
    format_bytes,
    passes_from_json,
    passes_to_json,
    read_whole,
    write_atomically,
)
from graphwright.machine import Cluster, from_toml, to_toml
from graphwright.plans.figures import Figures
from graphwright.plans.mesh import Mesh, whole_mesh
from graphwright.plans.sharding import Sharding, check_sharding, parse_placement
from graphwright.plans.strategy import Replicate, Strategy, parse_choice
from graphwright.version import __version__

FORMAT = "graphwright.plan"
PLAN_VERSION = 2

Kept = Literal["before", "after"]
KEPT: tuple[Kept, ...] = ("before", "after")
_FIELDS = ("format", "version", "graph", "cluster")
_BODY = ("algorithm", "seed", "made_by", "strategies", "inputs")
_BODY_SINCE_2 = ("keep", "figures", "passes", "results", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A strategy for every node, by the node's name; a node without one is replicated everywhere.

    `inputs` says where graph inputs live between steps; one that is not named lives as its first
    reader needs it. `keep` says which copy of a tensor that the forward pass moves is kept for the
    rest of the step (TensorOpt section 4, tensor reuse): the one "before" it was moved, or the one
    "after"; the other is moved again when it is needed. Of a tensor that is not named both are
    kept. `results` says where results are that are made as terms; one that is not named is added up
    on all devices that have terms of it.
    `figures` is what was predicted. `passes` made the graph from the captured one. With `memory`,
    the step runs in so many bytes of each device: what does not fit waits in host memory.
    """

    strategies: Mapping[str, Strategy]
    inputs: Mapping[str, Sharding] = field(default_factory=dict)
    cluster: Cluster
    graph_hash: str
    algorithm: str = "given"
    seed: int | None = None
    made_by: str = __version__
    keep: Mapping[str, Kept] = field(default_factory=dict)
    figures: Figures | None = None
    passes: tuple[PassRecord, ...] = UNMERGED
    results: Mapping[str, Sharding] = field(default_factory=dict)
    memory: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", tuple(self.passes))
        object.__setattr__(self, "strategies", MappingProxyType(dict(self.strategies)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))
        object.__setattr__(self, "keep", FrozenDict(self.keep))
        object.__setattr__(self, "results", FrozenDict(self.results))

    def strategy(self, name: str) -> Strategy:
        """The strategy of a node."""
        strategy = self.strategies.get(name)
        return _replicate(self.cluster) if strategy is None else strategy

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process as its JSON: hashes of text differ from process to process."""
        return Plan.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        limit = "" if self.memory is None else f" in {format_bytes(self.memory)} each"
        predicted = "" if self.figures is None else f": {self.figures}"
        return (
            f"Plan({self.algorithm}, {len(self.strategies):,} strategies, "
            f"{len(set(self.strategies.values()))} distinct, "
            f"on {self.cluster.num_devices} devices of {self.cluster.name}{limit}{predicted})"
        )

    def to_json(self) -> str:
        """The plan as JSON, which `from_json` reads."""
        return json.dumps(_to_json(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that `to_json` wrote."""
        return _from_json(json.loads(text))

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON: all of it, or nothing."""
        write_json(path, _to_json(self))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan; what is not one is refused with the field that is wrong."""
        document = read_json(path)
        try:
            return _from_json(document)
        except PlanFormatError as error:
            raise PlanFormatError(f"{path}: {error}") from None


def make_plan(
    graph: Graph,
    cluster: Cluster,
    strategies: Mapping[str, Strategy | str],
    *,
    inputs: Mapping[str, Sharding] | None = None,
    keep: Mapping[str, Kept] | None = None,
    results: Mapping[str, Sharding] | None = None,
    algorithm: str = "given",
    seed: int | None = None,
) -> Plan:
    """A plan for a graph and a cluster, checked; strategies may be given in words, "i - -"."""
    plan = Plan(
        strategies={
            name: Strategy(tuple(map(parse_choice, s.split()))) if isinstance(s, str) else s
            for name, s in strategies.items()
        },
        inputs=inputs or {},
        keep=keep or {},
        results=results or {},
        cluster=cluster,
        graph_hash=graph.hash,
        algorithm=algorithm,
        seed=seed,
        passes=graph.passes,
    )
    check_plan(plan, graph)
    return plan


def check_plan(plan: Plan, graph: Graph) -> None:
    """Refuse a plan that does not fit the graph or its cluster.

    Whether the splits exist is seen when it is expanded.
    """
    if plan.graph_hash != graph.hash:
        raise PlanMismatch(
            f"the plan was made for graph {plan.graph_hash[:12]}, this one is {graph.hash[:12]}; "
            "plan again"
        )
    cluster = plan.cluster
    names = {node.outputs[0] for node in graph.nodes}
    checked: set[Strategy] = set()
    axes = whole_mesh(cluster).shape
    for name, strategy in plan.strategies.items():
        if name not in names:
            raise PlanMismatch(
                f"the plan has a strategy for {name!r}, which the graph does not have"
                f"{_near(name, names)}"
            )
        if not isinstance(strategy, Strategy):
            raise InvalidStrategy(f"{name}: {strategy!r} is no strategy")
        if strategy in checked:
            continue
        checked.add(strategy)
        check_strategy(strategy, cluster, name)
        if strategy.mesh is None and len(strategy.choices) != len(axes):
            raise InvalidStrategy(
                f"{name}: {len(strategy.choices)} choices ({strategy}), but {cluster.name} has "
                f"{len(axes)} axes: {axes}"
            )
    results = frozenset(graph.outputs) - frozenset(graph.updates.values())
    _check_homes("input", frozenset(graph.inputs), plan.inputs, cluster, graph)
    _check_homes("result", results, plan.results, cluster, graph)
    for name, kept in plan.keep.items():
        check_keep(name, kept, graph)


def _check_homes(
    what: str,
    names: frozenset[str],
    homes: Mapping[str, Sharding],
    cluster: Cluster,
    graph: Graph,
) -> None:
    """Refuse places where inputs, or results, cannot be between steps."""
    checked: set[tuple[Sharding, TensorType]] = set()
    for name, sharding in homes.items():
        if not isinstance(sharding, Sharding):
            raise InvalidStrategy(f"{name}: {sharding!r} is no sharding")
        if name not in names:
            article = "an" if what == "input" else "a"
            raise PlanMismatch(
                f"the plan places {name!r}, which is not {article} {what} of the graph"
            )
        type = graph.tensors[name].type
        if (sharding, type) in checked:
            continue
        checked.add((sharding, type))
        _check_devices(sharding.mesh, cluster, name)
        check_sharding(sharding, type, name)
        if sharding.is_partial:
            raise InvalidStrategy(f"{name} cannot live as terms between steps: {sharding}")
        if sharding.pieces:
            raise InvalidStrategy(f"{name} lives in even parts between steps; leave its pieces out")


def check_keep(name: str, kept: object, graph: Graph) -> None:
    """Refuse to keep what the graph does not have, or to drop an input."""
    if name not in graph.tensors:
        raise PlanMismatch(
            f"the plan keeps {name!r}, which the graph does not have"
            f"{_near(name, set(graph.tensors), 'tensors')}"
        )
    if kept not in KEPT:
        raise InvalidStrategy(
            f"keep of {name}: {kept!r} is none of 'before' and 'after'; leave it out to keep both"
        )
    if kept == "after" and graph.producer(name) is None:
        raise InvalidStrategy(
            f"keep of {name}: it lives between steps, so what it is before it is moved is always "
            "kept; 'before' drops the moved copies"
        )


def _near(name: str, names: set[str], what: str = "nodes") -> str:
    """Which names might have been meant; a node has the name of its first output."""
    near = get_close_matches(str(name), names, n=3, cutoff=0.3) or sorted(names)[:3]
    return f"; its {what} are called {', '.join(map(repr, near))}, ..."


def check_strategy(strategy: Strategy, cluster: Cluster, what: str) -> None:
    """Refuse devices that the cluster does not have."""
    if strategy.mesh is not None:
        _check_devices(strategy.mesh, cluster, what)


def _check_devices(mesh: Mesh, cluster: Cluster, what: str) -> None:
    if mesh is whole_mesh(cluster):  # as almost all are; a mesh may have thousands of devices
        return
    count = cluster.num_devices
    for device in mesh.devices:
        if not 0 <= device < count:
            raise UnknownDevice(
                f"{what} is placed on device {device}, but {cluster.name} has {count}: "
                f"0 to {count - 1}"
            )


def _replicate(cluster: Cluster) -> Strategy:
    return Strategy((Replicate(),) * len(cluster.axes))


# -- JSON -----------------------------------------------------------------------------------------


def write_json(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write a document: all of it, or nothing."""
    write_atomically(path, (json.dumps(document, indent=1) + "\n").encode())


def read_json(path: str | Path) -> Any:
    """Read a document, whatever is in it."""
    try:
        return json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise PlanFormatError(f"{path} is not JSON: {error}") from error


def _to_json(plan: Plan) -> dict[str, Any]:
    head = {
        "format": FORMAT,
        "version": PLAN_VERSION,
        "graph": plan.graph_hash,
        "cluster": to_toml(plan.cluster),
    }
    return head | body_to_json(plan)


def body_to_json(plan: Plan) -> dict[str, Any]:
    """All of a plan but its graph and cluster, which the plans of a frontier share."""
    by_strategy: dict[Strategy, list[str]] = {}
    for name, strategy in plan.strategies.items():
        by_strategy.setdefault(strategy, []).append(name)
    entries = []
    for strategy, nodes in by_strategy.items():
        entry: dict[str, Any] = {"choices": [str(c) for c in strategy.choices]}
        if strategy.mesh is not None:
            entry |= _mesh_json(strategy.mesh)
        entries.append(entry | {"nodes": nodes})
    passes = {} if plan.passes == UNMERGED else {"passes": passes_to_json(plan.passes)}
    results = {"results": _homes_json(plan.results)} if plan.results else {}
    memory = {} if plan.memory is None else {"memory": plan.memory}
    return {
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "made_by": plan.made_by,
        "strategies": entries,
        "inputs": _homes_json(plan.inputs),
        "keep": dict(plan.keep),
        "figures": None if plan.figures is None else plan.figures.to_json(),
    } | passes | results | memory  # fmt: skip


def _homes_json(homes: Mapping[str, Sharding]) -> dict[str, Any]:
    return {
        name: {"placements": [str(p) for p in sharding.placements]} | _mesh_json(sharding.mesh)
        for name, sharding in homes.items()
    }


def _mesh_json(mesh: Mesh) -> dict[str, Any]:
    return {"devices": list(mesh.devices), "shape": list(mesh.shape)}


def _from_json(document: Any) -> Plan:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanFormatError(f"not a plan: the field format has to be {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= PLAN_VERSION:
        raise PlanFormatError(
            f"version {version!r}; this Graphwright reads versions 1 to {PLAN_VERSION}: plan again"
        )
    body = {name: value for name, value in document.items() if name not in _FIELDS}
    if version == 1:
        refuse_unknown(body, _BODY)
        body |= {"keep": {}, "figures": None}
    return body_from_json(body, read_cluster(document), read_field(document, "graph", str))


def read_cluster(document: Mapping[str, Any]) -> Cluster:
    """The cluster of a document, from its TOML text."""
    try:
        return from_toml(read_field(document, "cluster", str), "cluster")
    except InvalidCluster as error:
        raise PlanFormatError(f"cluster: {error}") from error


def body_from_json(body: Any, cluster: Cluster, graph_hash: str) -> Plan:
    """The plan that `body_to_json` wrote."""
    if not isinstance(body, dict):
        raise PlanFormatError(f"a plan has to be a table, not {body!r}")
    refuse_unknown(body, _BODY + _BODY_SINCE_2)
    seed, figures, memory = body.get("seed"), body.get("figures"), body.get("memory")
    if memory is not None and (type(memory) is not int or memory < 0):
        raise PlanFormatError(f"memory has to be a number of bytes, not {memory!r}")
    if seed is not None and type(seed) is not int:
        raise PlanFormatError(f"seed has to be a whole number, not {seed!r}")
    keep = read_field(body, "keep", dict)
    for name, kept in keep.items():
        if kept not in KEPT:
            raise PlanFormatError(f"keep.{name}: {kept!r} is none of 'before' and 'after'")
    try:
        passes = passes_from_json(body["passes"]) if "passes" in body else UNMERGED
    except GraphFormatError as error:
        raise PlanFormatError(str(error)) from None
    return Plan(
        strategies=_strategies(body),
        inputs=_homes(body, "inputs"),
        cluster=cluster,
        graph_hash=graph_hash,
        algorithm=read_field(body, "algorithm", str),
        seed=seed,
        made_by=read_field(body, "made_by", str),
        keep=keep,
        figures=None if figures is None else Figures.from_json(figures),
        passes=passes,
        results=_homes(body, "results") if "results" in body else {},
        memory=memory,
    )


def _strategies(body: Mapping[str, Any]) -> dict[str, Strategy]:
    strategies: dict[str, Strategy] = {}
    for number, entry in enumerate(read_field(body, "strategies", list)):
        where = f"strategies[{number}]"
        if not isinstance(entry, dict):
            raise PlanFormatError(f"{where} has to be a table")
        try:
            refuse_unknown(entry, ("choices", "devices", "shape", "nodes"))
            choices = tuple(parse_choice(_text(w)) for w in read_field(entry, "choices", list))
            mesh = _mesh(entry) if "devices" in entry else None
            strategy = Strategy(choices, mesh)
            for name in read_field(entry, "nodes", list):
                if strategies.setdefault(_text(name), strategy) is not strategy:
                    raise PlanFormatError(f"{name!r} has a strategy already")
        except (InvalidStrategy, PlanFormatError) as error:
            raise PlanFormatError(f"{where}: {error}") from error
    return strategies


def _homes(body: Mapping[str, Any], field: str) -> dict[str, Sharding]:
    homes: dict[str, Sharding] = {}
    for name, entry in read_field(body, field, dict).items():
        try:
            words = read_field(entry, "placements", list)
            refuse_unknown(entry, ("placements", "devices", "shape"))
            placements = tuple(parse_placement(_text(w)) for w in words)
            homes[name] = Sharding(_mesh(entry), placements)
        except (InvalidStrategy, PlanFormatError) as error:
            raise PlanFormatError(f"{field}.{name}: {error}") from error
    return homes


def _mesh(entry: Mapping[str, Any]) -> Mesh:
    devices, shape = read_field(entry, "devices", list), read_field(entry, "shape", list)
    if not all(type(n) is int for n in (*devices, *shape)):
        raise PlanFormatError("devices and shape hold whole numbers")
    return Mesh(tuple(devices), tuple(shape))


def read_field(table: Any, name: str, kind: type) -> Any:
    """A field of a document, of the type that it has to have."""
    value = table.get(name) if isinstance(table, dict) else None
    if type(value) is not kind:
        raise PlanFormatError(f"{name} has to be of type {kind.__name__}, not {value!r}")
    return value


def refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse fields that nobody would read."""
    for name in table:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            raise PlanFormatError(
                f"unknown field {name!r}" + (f"; meant is perhaps {near[0]!r}" if near else "")
            )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise PlanFormatError(f"{value!r} is not text")
    return value
