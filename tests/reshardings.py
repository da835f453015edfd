"""Shardings at random, and what the hops between them mean: an interpreter that knows boxes and arrays alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from random import Random

import numpy as np

from graphwright.ir import TensorType
from graphwright.machine import Cluster, Device, Level, Link
from graphwright.plans import (
    Mesh,
    Partial,
    Placement,
    Replicated,
    Sharding,
    Split,
    boxes,
    transfers,
    whole_mesh,
)
from graphwright.simulate.communication import analytic
from graphwright.tasks import PricedHop, Pricer, Resharding, Traffic, plain_path

Box = tuple[slice, ...]
State = dict[int, np.ndarray]
KINDS = {kind.name: kind for kind in (*transfers.TRANSFERS, transfers.Slice())}
REDUCE = {"sum": np.add, "max": np.maximum, "prod": np.multiply}
IDENTITY = {"sum": 0, "max": -(2**40), "prod": 1}


class Formulas:
    """Transfers by the formula; computing takes a time of its own that depends on the sizes."""

    def compute(self, op, attrs, types, device) -> float:
        return (1 + sum(prod(t.shape) for t in types.outputs)) / device.rates["float32"]

    def communicate(self, traffic: Traffic) -> float:
        return analytic(traffic)


# -- at random -----------------------------------------------------------------------------------


def random_cluster(rng: Random, most: int = 12) -> Cluster:
    """One to three levels, some of them a bus, some pairs of devices with a link of their own."""
    counts: list[int] = []
    while not counts or prod(counts) > most:
        counts = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    levels = tuple(
        Level(
            name=f"level{n}",
            count=count,
            bandwidth=rng.choice([1e8, 1e9, 3e9]),
            latency=rng.choice([0.0, 1e-7, 1e-5]),
            shared=rng.random() < 0.25,
        )
        for n, count in enumerate(counts)
    )
    number = prod(counts)
    pairs = [(a, b) for a in range(number) for b in range(a)]
    chosen = rng.sample(pairs, min(len(pairs), rng.choice([0, 0, 1, 3])))
    least = min(level.latency for level in levels)
    links = tuple(Link(devices=pair, bandwidth=5e9, latency=least) for pair in chosen)
    kinds = [
        Device(name=f"kind{n}", memory=10**9, rates={"float32": 1e9 * n}, bandwidth=1e9, launch=0.0)
        for n in (1, 2)
    ]
    devices = tuple(rng.choice(kinds) for _ in range(number))
    return Cluster(name="random", levels=levels, devices=devices, links=links)


def random_mesh(rng: Random, cluster: Cluster) -> Mesh:
    """All devices along the axes, or some in any order."""
    if rng.random() < 0.6:
        return whole_mesh(cluster)
    number = cluster.num_devices
    shapes = [(), (1,), (2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (2, 2, 2)]
    shape = rng.choice([s for s in shapes if prod(s) <= number])
    return Mesh(tuple(rng.sample(range(number), prod(shape))), shape)


def random_sharding(
    rng: Random,
    mesh: Mesh,
    shape: tuple[int, ...],
    *,
    reducer: str | None,
    halos: bool,
    sparse: bool = False,
) -> Sharding:
    """Axes split dims in any order; some dims are cut unevenly, or with halos. With `sparse` parts may be empty."""
    placements: list[Placement] = []
    ways = [1] * len(shape)
    for size in mesh.shape:
        dims = [d for d, n in enumerate(shape) if sparse or ways[d] * size <= n]
        kinds = [*(Split(d) for d in dims for _ in range(2)), Replicated()]
        if reducer is not None:
            kinds.append(Partial(reducer))
        chosen = rng.choice(kinds)
        if isinstance(chosen, Split):
            ways[chosen.dim] *= size
        placements.append(chosen)
    pieces = []
    for dim, (size, count) in enumerate(zip(shape, ways, strict=True)):
        if count > 1 and size >= count and rng.random() < 0.4:
            cuts = [0, *sorted(rng.sample(range(1, size), count - 1)), size]
            reach = [rng.randint(0, 2) if halos else 0 for _ in range(2)]
            pieces.append(
                (
                    dim,
                    tuple(
                        (max(0, a - reach[0]), min(size, b + reach[1])) for a, b in pairwise(cuts)
                    ),
                )
            )
    return Sharding(mesh, tuple(placements), tuple(pieces))


# -- what a sharding says ------------------------------------------------------------------------


def box_of(sharding: Sharding, shape: tuple[int, ...]) -> dict[int, Box]:
    """What every device holds, by its number."""
    held = boxes(sharding, shape)
    return {
        device: tuple(slice(a, b) for a, b in held[at].tolist())
        for at, device in enumerate(sharding.mesh.devices)
    }


def coordinates_of(mesh: Mesh) -> dict[int, tuple[int, ...]]:
    return dict(zip(mesh.devices, np.ndindex(*mesh.shape), strict=True))


def groups_along(mesh: Mesh, axes: Sequence[int]) -> list[list[int]]:
    """Devices that differ along `axes` alone."""
    found: dict[tuple[int, ...], list[int]] = {}
    for device, at in coordinates_of(mesh).items():
        found.setdefault(tuple(n for a, n in enumerate(at) if a not in axes), []).append(device)
    return list(found.values())


def distribute(rng: Random, whole: np.ndarray, sharding: Sharding) -> State:
    """The tensor as the devices hold it; terms are random, but give it together."""
    boxes_ = box_of(sharding, whole.shape)
    coordinates = coordinates_of(sharding.mesh)
    partial = [a for a, p in enumerate(sharding.placements) if isinstance(p, Partial)]
    if not partial:
        return {device: whole[box].copy() for device, box in boxes_.items()}
    reducer = sharding.placements[partial[0]].reducer
    sizes = [sharding.mesh.shape[a] for a in partial]
    keys = list(np.ndindex(*sizes))
    numbers = np.random.default_rng(rng.randrange(2**31))
    terms = {key: numbers.integers(-50, 50, whole.shape) for key in keys}
    if reducer == "sum":
        terms[keys[-1]] = whole - sum(terms[key] for key in keys[:-1])
    elif reducer == "max":
        terms = {key: np.minimum(term, whole) for key, term in terms.items()}
        terms[keys[0]] = whole
    else:
        terms = {key: np.ones_like(whole) for key in keys}
        terms[keys[0]] = whole
    return {
        device: terms[tuple(coordinates[device][a] for a in partial)][box]
        for device, box in boxes_.items()
    }


def check_state(state: State, sharding: Sharding, whole: np.ndarray) -> None:
    """Every device holds its box, replicas are equal, and terms give the tensor."""
    boxes_ = box_of(sharding, whole.shape)
    partial = [a for a, p in enumerate(sharding.placements) if isinstance(p, Partial)]
    for device, box in boxes_.items():
        assert state[device].shape == whole[box].shape
    for group in groups_along(sharding.mesh, partial):
        value = _reduce([state[d] for d in group], sharding.placements, partial)
        assert (value == whole[boxes_[group[0]]]).all(), f"{sharding} is not what devices hold"
    copies = [a for a, p in enumerate(sharding.placements) if isinstance(p, Replicated)]
    for group in groups_along(sharding.mesh, copies):
        assert all((state[d] == state[group[0]]).all() for d in group)


def _reduce(terms: list[np.ndarray], placements, axes: Sequence[int]) -> np.ndarray:
    reducers = {placements[a].reducer for a in axes}
    assert len(reducers) <= 1
    value = terms[0]
    for term in terms[1:]:
        value = REDUCE[min(reducers)](value, term)
    return value


# -- what hops mean -----------------------------------------------------------------------------


def run_hops(
    hops: Sequence[PricedHop], state: State, source: Sharding, shape: tuple[int, ...]
) -> State:
    """Carry the hops out, with what their transfers connect and no more."""
    now = source
    for priced in hops:
        assert priced.hop.source == now
        state = _run_hop(priced, state, shape)
        now = priced.hop.target
    return state


def _run_hop(priced: PricedHop, state: State, shape: tuple[int, ...]) -> State:
    before, after = box_of(priced.hop.source, shape), box_of(priced.hop.target, shape)
    if priced.hop.kind.name == "slice":
        return _slice(priced, state, before, after)
    if priced.hop.kind.name == "exchange":
        heard = {device: {device} for device in after}
        for transfer in priced.transfers():
            for receiver in transfer.gives.tolist():
                heard[receiver] |= set(transfer.reads.tolist())
        return {
            device: _fill(
                box, [(before[s], state[s]) for s in sorted(heard[device]) if s in before]
            )
            for device, box in after.items()
        }
    assert priced.hop.source.mesh == priced.hop.target.mesh
    axes = changed_axes(priced)
    groups = groups_along(priced.hop.source.mesh, axes)
    _check_parties(priced, groups)
    result: State = {}
    for group in groups:
        if priced.hop.kind.name in ("all_gather", "all_to_all"):
            parts = [(before[d], state[d]) for d in group]
        else:
            assert len({_key(before[d]) for d in group}) == 1
            total = _reduce([state[d] for d in group], priced.hop.source.placements, axes)
            parts = [(before[group[0]], total)]
        for device in group:
            result[device] = _fill(after[device], parts)
    return result


def changed_axes(priced: PricedHop) -> list[int]:
    pairs = zip(priced.hop.source.placements, priced.hop.target.placements, strict=True)
    return [a for a, (p, q) in enumerate(pairs) if p != q]


def _check_parties(priced: PricedHop, groups: list[list[int]]) -> None:
    """Every group is in one transfer, and no device in two."""
    readers = [set(t.reads.tolist()) for t in priced.transfers()]
    assert sum(map(len, readers)) == len(priced.hop.source.mesh)
    for group in groups:
        assert sum(set(group) <= r for r in readers) == 1
    for transfer in priced.transfers():
        assert set(transfer.reads.tolist()) == set(transfer.gives.tolist())
        assert transfer.kind == priced.hop.kind


def _slice(priced: PricedHop, state: State, before: dict[int, Box], after: dict[int, Box]) -> State:
    """In place: each device takes a piece of its own, or becomes a term that adds nothing."""
    assert priced.hop.source.mesh == priced.hop.target.mesh
    coordinates = coordinates_of(priced.hop.source.mesh)
    for axis in changed_axes(priced):
        assert priced.hop.source.placements[axis] == Replicated()
    assert not priced.transfers()
    result: State = {}
    for device, box in after.items():
        value = _fill(box, [(before[device], state[device])])
        for axis in changed_axes(priced):
            placement = priced.hop.target.placements[axis]
            if isinstance(placement, Partial) and coordinates[device][axis]:
                value = np.full_like(value, IDENTITY[placement.reducer])
        result[device] = value
    return result


def _fill(box: Box, parts: list[tuple[Box, np.ndarray]]) -> np.ndarray:
    """The box, from parts that have to hold all of it."""
    shape = tuple(max(0, s.stop - s.start) for s in box)
    made, covered = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    for held, value in parts:
        common = [
            (max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, held, strict=True)
        ]
        if all(low < high for low, high in common):
            to = tuple(
                slice(low - a.start, high - a.start)
                for (low, high), a in zip(common, box, strict=True)
            )
            of = tuple(
                slice(low - b.start, high - b.start)
                for (low, high), b in zip(common, held, strict=True)
            )
            made[to] = value[of]
            covered[to] = True
    assert covered.all(), "something that a device needs was not brought to it"
    return made


def _key(box: Box) -> tuple[tuple[int, int], ...]:
    return tuple((s.start, s.stop) for s in box)


# -- what hops cost -----------------------------------------------------------------------------


def size_of(box: Box) -> int:
    return prod(max(0, s.stop - s.start) for s in box)


def gather_then_slice(cluster: Cluster, costs, type: TensorType, source, target) -> Resharding:
    """The plain way on one mesh: add up all terms, gather all parts, take what is needed."""
    pricer = Pricer(cluster, costs, type)
    return Resharding(tuple(pricer.price(hop) for hop in plain_path(type, source, target)))


def implied_bytes(priced: PricedHop, type: TensorType) -> int:
    """The bytes that have to move between devices, from the shardings alone."""
    width = type.nbytes // max(1, prod(type.shape))
    before, after = box_of(priced.hop.source, type.shape), box_of(priced.hop.target, type.shape)
    return width * sum(_implied(priced, before, after))


def _implied(priced: PricedHop, before: dict[int, Box], after: dict[int, Box]) -> Iterator[int]:
    kind = priced.hop.kind
    if not kind.reduces and kind.name != "slice":
        for device, box in after.items():
            own = before.get(device)
            yield size_of(box) - (0 if own is None else size_of(overlap(box, own)))
    elif kind.reduces:
        for group in groups_along(priced.hop.source.mesh, changed_axes(priced)):
            if kind.name == "all_reduce":
                yield 2 * (len(group) - 1) * size_of(before[group[0]])
            else:
                yield (len(group) - 1) * sum(size_of(after[d]) for d in group)


def overlap(a: Box, b: Box) -> Box:
    return tuple(
        slice(max(p.start, q.start), min(p.stop, q.stop)) for p, q in zip(a, b, strict=True)
    )


def leaving(cluster: Cluster, links: np.ndarray, loads: np.ndarray) -> int:
    """The bytes on the ports out of devices, on buses and on links: each byte passes one of these."""
    names = cluster.resources
    counted = [names[link].endswith((" out", " bus")) or "link" in names[link] for link in links]
    return int(loads[np.array(counted, dtype=bool)].sum())
