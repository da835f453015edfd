"""The reference for `reshard`: Dijkstra's algorithm over shardings, every hop at its exact price,
asked one by one.

It knows nothing of codes, bundles' bits or tariffs; the moves are the same, so no path of the
compiled search is cheaper than what is found here, and none may be much dearer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import lru_cache
from itertools import count

from graphwright.machine import Cluster
from graphwright.plans import (
    Mesh,
    Partial,
    Pieces,
    Placement,
    Replicated,
    Sharding,
    Split,
    transfers,
    whole_mesh,
)
from graphwright.tasks import Costs, Hop, PricedHop, Pricer, Resharding

Axes = tuple[int, ...]
_SMALL = 256
"""On more devices, what messages would take is asked from fewer states."""
_FEW = 3
"""With so few bundles of axes, detours over other dims are looked at too."""


def cheapest_resharding(
    cluster: Cluster, costs: Costs, type, source: Sharding, target: Sharding
) -> Resharding:
    """The cheapest hops by exact prices."""
    if source == target:
        return Resharding(())
    return Resharding(ReferenceSearch(Pricer(cluster, costs, type), source, target).run())


def _replace(state: Sharding, axes: Axes, placement: Placement) -> Sharding:
    """`state` with another placement along `axes`; pieces stay with the dims whose cuts stay."""
    placements = list(state.placements)
    for axis in axes:
        placements[axis] = placement
    kept = tuple(
        (dim, pieces)
        for dim, pieces in state.pieces
        if all(placements[a] == Split(dim) for a in state.axes_of(dim))
    )
    return _sharding(state.mesh, tuple(placements), kept)


@lru_cache(maxsize=65536)
def _cuts(state: Sharding, rank: int) -> tuple[tuple[int, int], ...]:
    """For every dim the number of its parts, and the innermost axis that cuts it; -1 for none."""
    return tuple((state.ways(dim), max(state.axes_of(dim), default=-1)) for dim in range(rank))


@lru_cache(maxsize=65536)
def _sharding(
    mesh: Mesh, placements: tuple[Placement, ...], pieces: tuple[tuple[int, Pieces], ...]
) -> Sharding:
    """One object for equal shardings: searches come by the same ones again and again."""
    return Sharding(mesh, placements, pieces)


class ReferenceSearch:
    """Dijkstra's algorithm from `source` to `target`."""

    def __init__(self, pricer: Pricer, source: Sharding, target: Sharding) -> None:
        self.pricer, self.source, self.target = pricer, source, target
        self.shape = pricer.type.shape
        self.same_mesh = source.mesh == target.mesh
        self.bundles = {
            source.mesh: _bundles(pricer.cluster, source, target if self.same_mesh else None)
        }
        if not self.same_mesh:
            self.bundles[target.mesh] = _bundles(pricer.cluster, target, None)
        self.wide = len(self.bundles[source.mesh]) <= _FEW
        self.entries = () if self.same_mesh else self._entries()
        self.best: dict[Sharding, float] = {}
        self.spent = 0.0

    def run(self) -> tuple[PricedHop, ...]:
        """The steps of the shortest path."""
        order = count()
        self.best = best = {self.source: 0.0}
        came: dict[Sharding, PricedHop] = {}
        queue = [(0.0, next(order), self.source)]
        done: set[Sharding] = set()
        while queue:
            seconds, _, state = heapq.heappop(queue)
            if state in done:
                continue
            if state == self.target:
                break
            done.add(state)
            self.spent = seconds
            for priced in self._moves(state):
                reached, after = seconds + priced.seconds, priced.hop.target
                if reached < best.get(after, float("inf")):
                    best[after] = reached
                    came[after] = priced
                    heapq.heappush(queue, (reached, next(order), after))
        hops = [came[self.target]]
        while hops[-1].hop.source != self.source:
            hops.append(came[hops[-1].hop.source])
        return tuple(reversed(hops))

    def _price(self, kind: transfers.HopKind, source: Sharding, target: Sharding) -> PricedHop:
        return self.pricer.price(Hop(kind, source, target))

    def _is_open(self, state: Sharding) -> bool:
        """Whether a step from the present state might be the better way to `state`: otherwise
        nobody has to ask what it takes.
        """
        return self.best.get(state, float("inf")) > self.spent

    # -- edges ------------------------------------------------------------------------------------

    def _moves(self, state: Sharding) -> Iterator[PricedHop]:
        here = self.same_mesh or state.mesh == self.target.mesh
        if here and self._slices_to_target(state):
            yield self._price(transfers.Slice(), state, self.target)
            return
        yield from self._sums(state)
        yield from self._gathers(state)
        if here:
            yield from self._slices(state)
            yield from self._swaps(state)
        yield from self._exchanges(state)

    def _slices_to_target(self, state: Sharding) -> bool:
        """Whether every device has what it needs: along each axis all of it, or already its part."""
        given, wanted = dict(state.pieces), dict(self.target.pieces)
        for dim in range(len(self.shape)):
            own, goal = state.axes_of(dim), self.target.axes_of(dim)
            if own and dim not in given and dim not in wanted:
                goal = goal[: len(own)]  # even cuts nest
            if own and (own != goal or given.get(dim) != wanted.get(dim)):
                return False
        return all(
            p == q or isinstance(p, Replicated)
            for p, q in zip(state.placements, self.target.placements, strict=True)
        )

    def _sums(self, state: Sharding) -> Iterator[PricedHop]:
        if not state.is_partial:
            return
        partial = [b for b in self.bundles[state.mesh] if self._to_sum(state, b)]
        joint = tuple(a for b in partial for a in b)
        reducers = {state.placements[a] for a in joint}
        choices = [*partial, joint] if len(partial) > 1 and len(reducers) == 1 else partial
        for axes in choices:
            whole = _replace(state, axes, Replicated())
            if self._is_open(whole):
                yield self._price(transfers.AllReduce(), state, whole)
            for dim in self._scatter_dims(state, axes):
                part = _replace(state, axes, Split(dim))
                if self._is_open(part):
                    yield self._price(transfers.ReduceScatter(), state, part)

    def _scatter_dims(self, state: Sharding, axes: Axes) -> set[int]:
        """The dims worth scattering to: where the target wants it, and the longest ones, to be
        moved or gathered again.
        """
        open_dims = self._open_dims(state, axes)
        longest = sorted(open_dims, key=lambda dim: -self.shape[dim])[: 2 if self.wide else 1]
        if not self.same_mesh:
            return set(longest)
        wanted = self.target.placements[axes[0]]
        return {*longest, *(d for d in open_dims if wanted == Split(d))}

    def _to_sum(self, state: Sharding, bundle: Axes) -> bool:
        placement = state.placements[bundle[0]]
        stays = self.same_mesh and self.target.placements[bundle[0]] == placement
        return isinstance(placement, Partial) and not stays

    def _gathers(self, state: Sharding) -> Iterator[PricedHop]:
        pieced = dict(state.pieces)
        cutting: dict[int, list[Axes]] = {}
        for bundle in self.bundles[state.mesh]:
            placement = state.placements[bundle[0]]
            if isinstance(placement, Split):
                cutting.setdefault(placement.dim, []).append(bundle)
        for dim, bundles in sorted(cutting.items()):
            for first, bundle in enumerate(bundles):
                if self._stays(state, bundle, dim) or (first and dim in pieced):
                    continue
                axes = tuple(a for b in bundles[first:] for a in b)
                whole = _replace(state, axes, Replicated())
                if self._is_open(whole):
                    yield self._price(transfers.AllGather(), state, whole)

    def _stays(self, state: Sharding, bundle: Axes, dim: int) -> bool:
        """Whether the target has the dim cut alike down to the bundle, in the same pieces: no
        reason to begin a gathering there.
        """
        if state.mesh != self.target.mesh or dim in dict(state.pieces) | dict(self.target.pieces):
            return False
        own = state.axes_of(dim)
        depth = own.index(bundle[-1]) + 1
        return self.target.axes_of(dim)[:depth] == own[:depth]

    def _slices(self, state: Sharding) -> Iterator[PricedHop]:
        for bundle in self.bundles[state.mesh]:
            if not isinstance(state.placements[bundle[0]], Replicated):
                continue
            match self.target.placements[bundle[0]]:
                case Split(dim) if dim in self._open_dims(state, bundle):
                    yield self._price(transfers.Slice(), state, _replace(state, bundle, Split(dim)))
                case Partial() as terms:
                    yield self._price(transfers.Slice(), state, _replace(state, bundle, terms))
                case _:
                    pass

    def _swaps(self, state: Sharding) -> Iterator[PricedHop]:
        for bundle in self.bundles[state.mesh]:
            now = state.placements[bundle[0]]
            if not isinstance(now, Split) or now.dim in dict(state.pieces):
                continue
            if state.axes_of(now.dim)[-1] != bundle[-1]:
                continue  # not the innermost cut
            for dim in self._swap_dims(state, bundle, now):
                after = _replace(state, bundle, Split(dim))
                if self._is_open(after):
                    yield self._price(transfers.AllToAll(), state, after)

    def _swap_dims(self, state: Sharding, bundle: Axes, now: Split) -> set[int]:
        """The dims worth swapping to: the target's; or, where an outer cut of the dim is in the
        way, the longest other one.
        """
        then = self.target.placements[bundle[0]]
        open_dims = [d for d in self._open_dims(state, bundle) if d != now.dim]
        found = {d for d in open_dims if then == Split(d)}
        outer = [a for a in state.axes_of(now.dim) if a not in bundle]
        if not self.wide:
            return found
        if any(self.target.placements[a] != Split(now.dim) for a in outer) or (
            outer and then == Split(now.dim)
        ):
            found.update(sorted(open_dims, key=lambda d: -self.shape[d])[:1])
        return found

    def _open_dims(self, state: Sharding, axes: Axes) -> list[int]:
        """The dims that `axes` could split further: as the innermost cut, evenly, with something in
        every part.
        """
        pieced = dict(state.pieces)
        ways = 1
        for axis in axes:
            ways *= state.mesh.shape[axis]
        return [
            dim
            for dim, (size, (cuts, last)) in enumerate(
                zip(self.shape, _cuts(state, len(self.shape)), strict=True)
            )
            if size >= ways * cuts and last < axes[0] and dim not in pieced
        ]

    def _exchanges(self, state: Sharding) -> Iterator[PricedHop]:
        """Fetching the regions themselves, where nothing is left to add up, and not from
        everywhere: it is the costly question.
        """
        if state.is_partial:
            return
        if not self.same_mesh:
            if state.mesh == self.source.mesh:
                for entry in self.entries:
                    yield self._price(transfers.Exchange(), state, entry)
            return
        wide = self.wide and len(state.mesh) <= _SMALL
        passed = (Replicated, Split) if wide else Replicated
        summed = all(
            p == q or (isinstance(p, Partial) and isinstance(q, passed))
            for p, q in zip(self.source.placements, state.placements, strict=True)
        )
        arrives = summed or state.placements == self.target.placements
        if arrives and not self.target.is_partial:
            yield self._price(transfers.Exchange(), state, self.target)

    def _entries(self) -> tuple[Sharding, ...]:
        """Where to arrive on another mesh: at the target, or cut further along what is replicated
        there, to be gathered.
        """
        placements = tuple(
            Replicated() if isinstance(p, Partial) else p for p in self.target.placements
        )
        bare = Sharding(self.target.mesh, placements)
        found = [Sharding(self.target.mesh, placements, self.target.pieces)]
        copied = [
            b
            for b in self.bundles[self.target.mesh]
            if isinstance(bare.placements[b[0]], Replicated)
        ]
        for bundle in copied:
            found += [_replace(bare, bundle, Split(dim)) for dim in self._open_dims(bare, bundle)]
        return tuple(found)


def _bundles(cluster: Cluster, source: Sharding, target: Sharding | None) -> tuple[Axes, ...]:
    """Neighbouring axes of one level that are placed alike at both ends."""
    levels = _levels(cluster, source.mesh)
    found: list[list[int]] = []
    before: object = None
    for axis, placement in enumerate(source.placements):
        kind = (levels[axis], placement, target.placements[axis] if target else None)
        if found and kind == before:
            found[-1].append(axis)
        else:
            found.append([axis])
        before = kind
    return tuple(map(tuple, found))


def _levels(cluster: Cluster, mesh: Mesh) -> tuple[int, ...]:
    if mesh == whole_mesh(cluster):
        return tuple(axis.level for axis in cluster.axes)
    return (0,) * len(mesh.shape)
