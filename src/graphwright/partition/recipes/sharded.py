"""The plans in which people train large models: parameters in parts, layers split within a node.

    zero2      samples for all; parameters and their state live in parts, gathered weights are held
               from the forward pass to the backward pass (ZeRO-2; FSDP's SHARD_GRAD_OP)
    fsdp       the same, but weights are gathered again for the backward pass (ZeRO-3, FULL_SHARD)
    hsdp       fsdp within a node; the nodes have copies
    megatron   samples between nodes; within a node parameters and heads, and what lies between
               along the sequence where that is cheaper (sequence parallelism); activations are
               kept in parts
    fsdp-tp    megatron within a node, with parameters in parts over all devices, gathered again

In one machine the last level is all there is: hsdp is fsdp, fsdp-tp is megatron with parameters in
parts. A rule fixes the heavy operators and where parameters live; the rest follows at the least
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import sample_dims
from graphwright.ir import Graph, Phase, Role
from graphwright.machine import Cluster
from graphwright.partition.estimate import Estimate
from graphwright.partition.search import least
from graphwright.partition.space import Coarse, Configurations, Group, Options, Weight, typical
from graphwright.plans import Kept, Plan
from graphwright.tasks import Expansion, GraphFacts

Bools = NDArray[np.bool_]
Samples = Mapping[str, frozenset[int]]


def zero2(estimate: Estimate) -> Plan:
    """Samples, and everything that is updated lives in as many parts as it can."""
    return _plan(estimate, "zero2", tensor_parallel=False, stored=_all_levels(estimate.cluster))


def fsdp(zero2: Plan, graph: Graph) -> Plan:
    """The same, and weights are gathered once more for the backward pass."""
    return _gathering_again(replace(zero2, algorithm="fsdp"), graph)


def hsdp(estimate: Estimate) -> Plan:
    """FSDP within a node, copies between nodes."""
    inner = _innermost(estimate.cluster)
    plan = _plan(estimate, "hsdp", tensor_parallel=False, stored=inner)
    return _gathering_again(plan, estimate.coarse.facts.graph)


def megatron(estimate: Estimate) -> Plan:
    """Samples between nodes, parameters and heads within a node."""
    plan = _plan(estimate, "megatron", tensor_parallel=True, stored=None)
    return _keeping_parts(plan, estimate)


def fsdp_tp(estimate: Estimate) -> Plan:
    """Megatron's splits within a node, FSDP between nodes."""
    levels = _all_levels(estimate.cluster)
    plan = _plan(estimate, "fsdp-tp", tensor_parallel=True, stored=levels)
    return _gathering_again(_keeping_parts(plan, estimate), estimate.coarse.facts.graph)


def _all_levels(cluster: Cluster) -> Bools:
    return np.ones(len(cluster.axes), dtype=np.bool_)


def _innermost(cluster: Cluster) -> Bools:
    """Which axes are those of the innermost level that has several members."""
    last = max((axis.level for axis in cluster.axes), default=0)
    return np.array([axis.level == last for axis in cluster.axes], dtype=np.bool_)


def _plan(estimate: Estimate, name: str, *, tensor_parallel: bool, stored: Bools | None) -> Plan:
    """Heavy groups over samples, with `tensor_parallel` over parameters and heads along the
    innermost level; what is updated in parts along the axes `stored`."""
    cluster, coarse = estimate.cluster, estimate.coarse
    samples = sample_dims(coarse.facts.graph, estimate.space.batch_dim)
    within = _innermost(cluster) & tensor_parallel
    wanted: dict[int, NDArray[np.int64]] = {}
    for g, (group, every) in enumerate(zip(coarse.groups, estimate.all, strict=True)):
        if group.weight is Weight.HEAVY:
            wanted[g] = _most_split(every, coarse, group, samples, cluster, within)
        elif group.weight is Weight.UPDATE and stored is not None:
            wanted[g] = _most_stored_in_parts(every, cluster, stored)
        else:
            wanted[g] = every.uniform()
    chosen = estimate.select(wanted)
    return chosen.plan(least(chosen.problem()), name)


def _most_split(
    every: Configurations,
    coarse: Coarse,
    group: Group,
    samples: Samples,
    cluster: Cluster,
    within: Bools,
) -> NDArray[np.int64]:
    """The configurations of the most parts whose lead is split over samples along some axes, and
    over parameters and heads along the others."""
    facts, options = coarse.facts, every.options[group.lead]
    node = typical(group.slots[group.lead])
    over_samples = _options_where(
        options, lambda o: _cuts_samples(facts, node, options, o, samples)
    )
    over_parameters = _options_where(
        options, lambda o: _cuts_parameters(facts, node, options, o, samples)
    )
    chosen = every.choice[:, group.lead]
    good = np.where(within, over_parameters[chosen], over_samples[chosen]).all(axis=1)
    good &= (every.mix >= 0).all(axis=1)
    sizes = np.array([axis.size for axis in cluster.axes])
    units = np.array(options.units)
    parts = np.where(good, np.where(units[chosen] > 0, sizes, 1).prod(axis=1), 0)
    return np.flatnonzero(parts == parts.max())


def _options_where(options: Options, allowed: Callable[[int], bool]) -> Bools:
    """Which options a rule allows; those that split nothing always."""
    count = range(len(options.choices))
    return np.array([not options.units[o] or allowed(o) for o in count], dtype=np.bool_)


def _cuts_samples(
    facts: GraphFacts, i: int, options: Options, option: int, samples: Samples
) -> bool:
    """Whether an option cuts a dim of samples of what a node reads."""
    node = facts.graph.nodes[i]
    return any(
        name is not None and int(options.need[option, arg]) in samples[name]
        for arg, name in enumerate(node.inputs)
    )


def _cuts_parameters(
    facts: GraphFacts, i: int, options: Options, option: int, samples: Samples
) -> bool:
    """Whether an option cuts a parameter, its gradient, or heads.

    What depends on no sample is made of parameters. Where there is no such thing, as in attention,
    an index of heads is one that everything has: queries and keys have others.
    """
    node, types = facts.graph.nodes[i], facts.types[i]
    if _cuts_samples(facts, i, options, option, samples):
        return False
    tensors = [
        (arg, name)
        for arg, (name, type) in enumerate(zip(node.inputs, types.inputs, strict=True))
        if name is not None and type is not None and type.rank > 1
    ]
    parameters = [arg for arg, name in tensors if not samples[name]]
    if parameters:
        return any(options.need[option, arg] >= 0 for arg in parameters)
    if not samples[node.outputs[0]]:  # the gradient of one
        return bool(options.made[option, 0] >= 0)
    return all(options.need[option, arg] >= 0 for arg, _ in tensors)


def _most_stored_in_parts(
    every: Configurations, cluster: Cluster, axes: Bools
) -> NDArray[np.int64]:
    """The configurations whose residents are in the most parts along some axes, whole along the
    others."""
    sizes = np.array([axis.size for axis in cluster.axes])
    if every.rest.shape[1] == 0:
        return np.arange(len(every))
    split = every.rest >= 0
    parts = np.where(split & axes, sizes, 1).prod(axis=2).min(axis=1)
    parts = np.where((split & ~axes).any(axis=(1, 2)), 0, parts)
    return np.flatnonzero(parts == parts.max())


def _keeping_parts(plan: Plan, estimate: Estimate) -> Plan:
    """The plan that keeps activations in parts, and gathers them again for the backward pass."""
    facts = estimate.coarse.facts
    expansion = Expansion(facts, plan, estimate.costs)
    keep: dict[str, Kept] = {
        name: "before"
        for name, (maker, _) in facts.producer.items()
        if not facts.late[maker] and not expansion.source(name).is_partial
    }
    return replace(plan, keep=keep)


def _gathering_again(plan: Plan, graph: Graph) -> Plan:
    """The plan that keeps of parameters, and of what is made of them alone, no moved copy."""
    stored = {n for n in graph.inputs if graph.tensors[n].role is Role.PARAMETER}
    for node in graph.nodes:
        given = [name for name in node.inputs if name is not None]
        if node.phase is Phase.FORWARD and given and stored.issuperset(given):
            stored.update(node.outputs)
    keep: dict[str, Kept] = {name: "before" for name in graph.tensors if name in stored}
    return replace(plan, keep={**plan.keep, **keep})
