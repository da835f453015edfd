"""A plan: a strategy for every node of a graph, on a cluster.

    {"format": "graphwright.plan", "version": 1, "graph": "<hash>", "cluster": "name = ...",
     "strategies": [{"choices": ["b", "b", "b"], "nodes": ["convolution", ...]},
                    {"choices": [], "devices": [3], "shape": [], "nodes": ["mm"]}],
     "inputs": {"fc.weight": {"placements": ["S0", "R", "R"]}},
     "algorithm": "data", "seed": 0, "made_by": "0.1.0"}

The cluster is there as its TOML text. Nodes with equal strategies share an entry. Reading checks every field; nothing in a file is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from graphwright.errors import (
    InvalidCluster,
    InvalidStrategy,
    PlanFormatError,
    PlanMismatch,
    UnknownDevice,
)
from graphwright.ir import Graph, read_whole, write_atomically
from graphwright.machine import Cluster, from_toml, to_toml
from graphwright.plans.mesh import Mesh, whole_mesh
from graphwright.plans.sharding import Sharding, check_sharding, parse_placement
from graphwright.plans.strategy import Replicate, Strategy, parse_choice
from graphwright.version import __version__

FORMAT = "graphwright.plan"
PLAN_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A strategy for every node, by the node's name; a node without one is replicated everywhere.

    `inputs` says where graph inputs live between steps; one that is not named lives as its first reader needs it.
    """

    strategies: Mapping[str, Strategy]
    inputs: Mapping[str, Sharding] = field(default_factory=dict)
    cluster: Cluster
    graph_hash: str
    algorithm: str = "given"
    seed: int | None = None
    made_by: str = __version__

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", MappingProxyType(dict(self.strategies)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))

    def strategy(self, name: str) -> Strategy:
        """The strategy of a node."""
        found = self.strategies.get(name)
        return _replicate(self.cluster) if found is None else found

    def __repr__(self) -> str:
        return (
            f"Plan({self.algorithm}, {len(self.strategies):,} strategies, {len(set(self.strategies.values()))} distinct, "
            f"on {self.cluster.num_devices} devices of {self.cluster.name})"
        )

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON: all of it, or nothing."""
        write_atomically(path, (json.dumps(_to_json(self), indent=1) + "\n").encode())

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan; what is not one is refused with the field that is wrong."""
        try:
            document = json.loads(read_whole(path))
        except (ValueError, RecursionError) as error:
            raise PlanFormatError(f"{path} is not JSON: {error}") from error
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
        cluster=cluster,
        graph_hash=graph.hash,
        algorithm=algorithm,
        seed=seed,
    )
    check_plan(plan, graph)
    return plan


def check_plan(plan: Plan, graph: Graph) -> None:
    """Refuse a plan that does not fit the graph or its cluster; whether the splits exist is seen when it is expanded."""
    if plan.graph_hash != graph.hash:
        raise PlanMismatch(
            f"the plan was made for graph {plan.graph_hash[:12]}, this one is {graph.hash[:12]}; plan again"
        )
    cluster = plan.cluster
    names = {node.name for node in graph.nodes}
    axes = whole_mesh(cluster).shape
    for name, strategy in plan.strategies.items():
        if name not in names:
            raise PlanMismatch(
                f"the plan has a strategy for {name!r}, which the graph does not have{_near(name, names)}"
            )
        if not isinstance(strategy, Strategy):
            raise InvalidStrategy(f"{name}: {strategy!r} is no strategy")
        check_strategy(strategy, cluster, name)
        if strategy.mesh is None and len(strategy.choices) != len(axes):
            raise InvalidStrategy(
                f"{name}: {len(strategy.choices)} choices ({strategy}), but {cluster.name} has {len(axes)} axes: {axes}"
            )
    for name, sharding in plan.inputs.items():
        if not isinstance(sharding, Sharding):
            raise InvalidStrategy(f"{name}: {sharding!r} is no sharding")
        if name not in graph.inputs:
            raise PlanMismatch(f"the plan places {name!r}, which is not an input of the graph")
        _check_devices(sharding.mesh, cluster, name)
        check_sharding(sharding, graph.tensors[name].type, name)
        if sharding.is_partial:
            raise InvalidStrategy(f"{name} cannot live as terms between steps: {sharding}")
        if sharding.pieces:
            raise InvalidStrategy(f"{name} lives in even parts between steps; leave its pieces out")


def _near(name: str, names: set[str]) -> str:
    """Which nodes might have been meant; a node has the name of its first output."""
    found = get_close_matches(str(name), names, n=3, cutoff=0.3) or sorted(names)[:3]
    return f"; its nodes are called {', '.join(map(repr, found))}, ..."


def check_strategy(strategy: Strategy, cluster: Cluster, what: str) -> None:
    """Refuse devices that the cluster does not have."""
    if strategy.mesh is not None:
        _check_devices(strategy.mesh, cluster, what)


def _check_devices(mesh: Mesh, cluster: Cluster, what: str) -> None:
    for device in mesh.devices:
        if not 0 <= device < cluster.num_devices:
            raise UnknownDevice(
                f"{what} is placed on device {device}, but {cluster.name} has {cluster.num_devices}: "
                f"0 to {cluster.num_devices - 1}"
            )


def _replicate(cluster: Cluster) -> Strategy:
    return Strategy((Replicate(),) * len(cluster.axes))


# -- JSON ---------------------------------------------------------------------------------------------


def _to_json(plan: Plan) -> dict[str, Any]:
    by_strategy: dict[Strategy, list[str]] = {}
    for name, strategy in plan.strategies.items():
        by_strategy.setdefault(strategy, []).append(name)
    entries = []
    for strategy, nodes in by_strategy.items():
        entry: dict[str, Any] = {"choices": [str(c) for c in strategy.choices]}
        if strategy.mesh is not None:
            entry |= _mesh_json(strategy.mesh)
        entries.append(entry | {"nodes": nodes})
    inputs = {
        name: {"placements": [str(p) for p in sharding.placements]} | _mesh_json(sharding.mesh)
        for name, sharding in plan.inputs.items()
    }
    return {
        "format": FORMAT,
        "version": PLAN_VERSION,
        "graph": plan.graph_hash,
        "cluster": to_toml(plan.cluster),
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "made_by": plan.made_by,
        "strategies": entries,
        "inputs": inputs,
    }


def _mesh_json(mesh: Mesh) -> dict[str, Any]:
    return {"devices": list(mesh.devices), "shape": list(mesh.shape)}


def _from_json(document: Any) -> Plan:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanFormatError(f"not a plan: the field format has to be {FORMAT!r}")
    if document.get("version") != PLAN_VERSION:
        raise PlanFormatError(
            f"version {document.get('version')!r}; this Graphwright reads version {PLAN_VERSION}: plan again"
        )
    try:
        cluster = from_toml(_field(document, "cluster", str), "cluster")
    except InvalidCluster as error:
        raise PlanFormatError(f"cluster: {error}") from error
    strategies: dict[str, Strategy] = {}
    for number, entry in enumerate(_field(document, "strategies", list)):
        where = f"strategies[{number}]"
        if not isinstance(entry, dict):
            raise PlanFormatError(f"{where} has to be a table")
        try:
            choices = tuple(parse_choice(_text(w)) for w in _field(entry, "choices", list))
            mesh = _mesh(entry) if "devices" in entry else None
            strategy = Strategy(choices, mesh)
            for name in _field(entry, "nodes", list):
                if strategies.setdefault(_text(name), strategy) is not strategy:
                    raise PlanFormatError(f"{name!r} has a strategy already")
        except (InvalidStrategy, PlanFormatError) as error:
            raise PlanFormatError(f"{where}: {error}") from error
    inputs: dict[str, Sharding] = {}
    for name, entry in _field(document, "inputs", dict).items():
        try:
            words = _field(entry, "placements", list)
            placements = tuple(parse_placement(_text(w)) for w in words)
            inputs[name] = Sharding(_mesh(entry), placements)
        except (InvalidStrategy, PlanFormatError) as error:
            raise PlanFormatError(f"inputs.{name}: {error}") from error
    seed = document.get("seed")
    if seed is not None and type(seed) is not int:
        raise PlanFormatError(f"seed has to be a whole number, not {seed!r}")
    return Plan(
        strategies=strategies,
        inputs=inputs,
        cluster=cluster,
        graph_hash=_field(document, "graph", str),
        algorithm=_field(document, "algorithm", str),
        seed=seed,
        made_by=_field(document, "made_by", str),
    )


def _mesh(entry: Mapping[str, Any]) -> Mesh:
    devices, shape = _field(entry, "devices", list), _field(entry, "shape", list)
    if not all(type(n) is int for n in (*devices, *shape)):
        raise PlanFormatError("devices and shape hold whole numbers")
    return Mesh(tuple(devices), tuple(shape))


def _field(table: Any, name: str, kind: type) -> Any:
    value = table.get(name) if isinstance(table, dict) else None
    if type(value) is not kind:
        raise PlanFormatError(f"{name} has to be of type {kind.__name__}, not {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise PlanFormatError(f"{value!r} is not text")
    return value
