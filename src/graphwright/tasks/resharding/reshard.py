"""From any sharding to any other by the cheapest sequence of hops (TensorOpt section 4.2): search,
then exact prices.

    search     `paths` finds the cheapest path over codes; collectives at the prices of a `Tariff`,
               fetches at their exact prices
    hops       its states become shardings again, and each pair of neighbours a hop
    prices     `Pricer` says what each hop takes, with all transfers

Hops are chosen by formulas alone, so that what is simulated on one machine is what runs on all, and
priced by the costs that were asked for. To another mesh a path is one on the mesh of the source, a
fetch, and one on the mesh of the target: from an entry, which is the target or is cut further along
what is replicated there.

The search knows of uneven parts only the largest and the least, and prices a collective as if the
largest went everywhere. So the path may not be the cheapest by exact prices:
`tests/property/test_resharding.py` holds by how much. Gathering everything and slicing is compared
by exact prices, so nothing is worse than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from graphwright.ir import DTYPE_BYTES, TensorType
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
)
from graphwright.tasks.costs import Costs, Pooled, formulas_of
from graphwright.tasks.resharding.hops import Hop, PricedHop
from graphwright.tasks.resharding.paths import ENDED, FETCH, HOPS, advance, arrive, begin
from graphwright.tasks.resharding.pricing import Pricer
from graphwright.tasks.resharding.staging import Order
from graphwright.tasks.resharding.states import (
    ALL,
    BITS,
    ELSEWHERE,
    LEAST,
    MOST_BUNDLES,
    PARTIAL,
    REPLICATED,
    Codes,
    Record,
    new_search,
)
from graphwright.tasks.resharding.tariff import tariff_of

Axes = tuple[int, ...]
Path = tuple[Hop, ...]
_MOST_CODES = ALL + 1 + LEAST
_NO_BOUND = np.zeros((0, 3))
_LATER = 1 + 1e-9
"""A fetch that takes as long as collectives comes after them, unless it saves a hop."""


@dataclass(frozen=True, slots=True, eq=False)
class Resharding:
    """The hops from one sharding to another; none where they are equal."""

    hops: tuple[PricedHop, ...]

    @property
    def seconds(self) -> float:
        return sum(priced.seconds for priced in self.hops)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for priced in self.hops for t in priced.transfers())

    def __str__(self) -> str:
        hops = (priced.hop for priced in self.hops)
        return ", ".join(f"{hop.kind} to {hop.target}" for hop in hops) or "nothing to do"


def reshard(
    cluster: Cluster,
    costs: Costs,
    type: TensorType,
    source: Sharding,
    target: Sharding,
    order: Order = None,
) -> Resharding:
    """The cheapest hops from `source` to `target` for a tensor of `type`, chosen by formulas alone,
    priced by `costs`.

    `order` is that of its dims in memory.
    """
    if source == target:
        return Resharding(())
    formulas = formulas_of(costs)
    prices = _Prices(Pricer(cluster, formulas, type, order))
    path = _find_path(prices, source, target)
    pricer = prices if costs is formulas else prices.pricer.at(costs)
    return Resharding(tuple(pricer.price(hop) for hop in path))


class _Prices:
    """What hops take, each asked once."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer = pricer
        self.known: dict[Hop, PricedHop] = {}

    def price(self, hop: Hop) -> PricedHop:
        priced = self.known.get(hop)
        if priced is None:
            priced = self.known[hop] = self.pricer.price(hop)
        return priced

    def total(self, path: Path) -> float:
        return sum(self.price(hop).seconds for hop in path)


# -- paths -----------------------------------------------------------------------------------------


def _find_path(prices: _Prices, source: Sharding, target: Sharding) -> Path:
    """The cheapest hops between two shardings."""
    if source.mesh != target.mesh:
        return _path_between_meshes(prices, source, target)
    type = prices.pricer.type
    _, path, _ = _Problem(prices, source, target, (target,)).solve()
    if _is_uneven(source, type) or _is_uneven(target, type):
        plain = plain_path(type, source, target)
        if prices.total(plain) < prices.total(path):
            return plain
    return path


def _path_between_meshes(prices: _Prices, source: Sharding, target: Sharding) -> Path:
    """Hops on the mesh of the source, a fetch to an entry, and hops on the mesh of the target."""
    if not source.placements and not target.placements:  # from one device to another
        return (Hop(transfers.Exchange(), source, target),)
    entries = _entries(prices.pricer, target)
    ends = [_Problem(prices, entry, target, ()).solve() for entry in entries]
    after = np.array([seconds for seconds, _, _ in ends])
    _, path, exit = _Problem(prices, source, None, entries, after).solve()
    return (*path, *ends[exit][1])


def plain_path(type: TensorType, source: Sharding, target: Sharding) -> Path:
    """Add up all terms, gather all parts, take the part that is needed."""
    hops: list[Hop] = []
    state = source
    partial = tuple(
        a
        for a, (p, q) in enumerate(zip(source.placements, target.placements, strict=True))
        if isinstance(p, Partial) and p != q
    )
    if partial:
        hops.append(Hop(transfers.AllReduce(), state, _replace(state, partial, Replicated())))
        state = hops[-1].target
    for dim in range(type.rank):
        axes = state.axes_of(dim)
        if axes:
            hops.append(Hop(transfers.AllGather(), state, _replace(state, axes, Replicated())))
            state = hops[-1].target
    if state != target:
        hops.append(Hop(transfers.Slice(), state, target))
    return tuple(hops)


def _entries(pricer: Pricer, target: Sharding) -> tuple[Sharding, ...]:
    """Where to arrive on another mesh: the target, or cut further, to be gathered there."""
    bare = _without_terms(Sharding(target.mesh, target.placements))
    entries = [_sharding(target.mesh, bare.placements, target.pieces)]
    levels = tariff_of(pricer.cluster, target.mesh, pricer.costs).axes.levels
    for bundle in _copied(bare, target, levels.tolist()):
        ways = prod(bare.mesh.shape[a] for a in bundle)
        for dim, size in enumerate(pricer.type.shape):
            inside = max(bare.axes_of(dim), default=-1) >= bundle[0]
            if size >= ways * bare.ways(dim) and not inside:
                entries.append(_replace(bare, bundle, Split(dim)))
    return tuple(entries)


def _copied(bare: Sharding, target: Sharding, levels: list[int]) -> Iterator[Axes]:
    """Neighbouring axes of one level along which there are copies, or will be terms."""
    bundle: list[int] = []
    for axis, placement in enumerate(bare.placements):
        kind = (levels[axis], target.placements[axis])
        if bundle and kind != (levels[bundle[-1]], target.placements[bundle[-1]]):
            yield tuple(bundle)
            bundle = []
        if isinstance(placement, Replicated):
            bundle.append(axis)
        elif bundle:
            yield tuple(bundle)
            bundle = []
    if bundle:
        yield tuple(bundle)


# -- between shardings and codes -------------------------------------------------------------------


class _Problem:
    """A search from a sharding to another on its mesh, or (None) to wherever a fetch leads: to
    `exits`, with seconds `after` them.
    """

    def __init__(
        self,
        prices: _Prices,
        source: Sharding,
        target: Sharding | None,
        exits: tuple[Sharding, ...],
        after: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None,
    ) -> None:
        self.prices, self.source, self.target, self.exits = prices, source, target, exits
        self.after = np.zeros(len(exits)) if after is None else after
        self.type = prices.pricer.type
        self.reducers: list[Placement] = []
        self.pieced: list[tuple[int, Pieces]] = []
        self.fetched = (np.inf, -1)  # seconds of the cheapest path with a fetch, and its last state
        self.codes = self._encode(source)
        self.goal = np.full(len(self.codes), ELSEWHERE, np.int8)
        if target is not None:
            self.goal = self._encode(target)

    def solve(self) -> tuple[float, Path, int]:
        """Seconds of the cheapest path, its hops, and the exit that it takes, -1 for none."""
        if self.source == self.target:
            return 0.0, (), -1
        fits = (
            len(self.codes) <= MOST_BUNDLES
            and len(self.reducers) <= PARTIAL - LEAST + 1
            and self.type.rank + len(self.pieced) <= _MOST_CODES
        )
        if not fits:
            return self._without_search()
        search = self._search()
        seconds, last = float(search["best"]), int(search["last"])
        if last >= 0:
            path, exit = self._path(search, last), int(search["states"][last]["exit"])
        else:
            assert self.target is not None
            path, exit = plain_path(self.type, self.source, self.target), -1
        fetched, at = self.fetched
        if exit < 0 and fetched <= seconds * _LATER:
            shorter = self._path(search, at)
            if len(shorter) < len(path):
                return fetched, shorter, int(search["states"][at]["exit"])
        return seconds, path, exit

    def _without_search(self) -> tuple[float, Path, int]:
        """The plain way, where the cuts or reducers are too many for a state's number."""
        if self.target is not None:
            path, exit = plain_path(self.type, self.source, self.target), -1
        else:
            summed, exit = _without_terms(self.source), 0
            fetch = Hop(transfers.Exchange(), summed, self.exits[0])
            sums = Hop(transfers.AllReduce(), self.source, summed)
            path = (fetch,) if summed == self.source else (sums, fetch)
        return self.prices.total(path), path, exit

    def _search(self) -> Record:
        """The ended search; begun anew for each missing price, as if all had been known."""
        pricer = self.prices.pricer
        tariff = tariff_of(pricer.cluster, self.source.mesh, pricer.costs)
        axes = tariff.axes
        if self.pieced or self.target is None or isinstance(pricer.costs, Pooled):
            axes = axes._replace(ports=_NO_BOUND)  # the bound holds for even parts and formulas
        search = new_search(self.type.shape, self.pieced, self.after)
        record = search[0]
        width = float(DTYPE_BYTES[self.type.dtype])
        while True:
            begin(search, tariff.rates, axes, self.codes, self.goal, width)
            self.fetched = (np.inf, -1)
            while (outcome := advance(search, tariff.rates)) == FETCH:
                arrive(search, self._fetch_seconds(record) * _LATER, 0.0)
            if outcome == ENDED:
                return record
            tariff.ask(pricer.costs, int(record["kind"]), int(record["span"]))

    def _fetch_seconds(self, search: Record) -> float:
        """The exact price of the fetch that a search asks for."""
        state = search["states"][search["at"]]
        source = self._decode(search, int(state["key"]))
        exit = int(state["exit"])
        seconds = self.prices.price(Hop(transfers.Exchange(), source, self.exits[exit])).seconds
        total = float(state["spent"]) + seconds + float(self.after[exit])
        self.fetched = min(self.fetched, (total, int(search["at"])))
        return seconds

    def _path(self, search: Record, last: int) -> Path:
        """The hops through the states that lead to the last one."""
        states = []
        while last >= 0:
            states.append(search["states"][last])
            last = int(search["states"][last]["came"])
        path = _Path(self.source)
        for state in reversed(states):
            kind = HOPS[int(state["kind"])]
            assert isinstance(kind, transfers.HopKind)
            if state["exit"] >= 0:
                path.hop(kind, self.exits[int(state["exit"])])
                return tuple(path.hops)
            path.hop(kind, self._decode(search, int(state["raw"])))
            path.hop(transfers.Slice(), self._decode(search, int(state["key"])))
        assert self.target is not None
        path.hop(transfers.Slice(), self.target)
        return tuple(path.hops)

    def _encode(self, sharding: Sharding) -> Codes:
        """A code for every axis."""
        given, rank = dict(sharding.pieces), self.type.rank
        codes = []
        for placement in sharding.placements:
            match placement:
                case Replicated():
                    codes.append(REPLICATED)
                case Partial():
                    codes.append(PARTIAL - _number(self.reducers, placement))
                case Split(dim) if dim in given:
                    codes.append(rank + _number(self.pieced, (dim, given[dim])))
                case Split(dim):
                    codes.append(dim)
        return np.array(codes, np.int8)

    def _decode(self, search: Record, key: int) -> Sharding:
        """The sharding that a state is."""
        rank = self.type.rank
        placements: list[Placement] = [Replicated()] * len(self.codes)
        codes = set()
        for i in range(int(search["num_bundles"])):
            code = (key >> BITS * i & ALL) + LEAST
            codes.add(code)
            placement: Placement = Replicated()
            if code >= rank:
                placement = Split(self.pieced[code - rank][0])
            elif code >= 0:
                placement = Split(code)
            elif code <= PARTIAL:
                placement = self.reducers[PARTIAL - code]
            span = int(search["bundles"][i]["span"])
            for axis in range(len(placements)):
                if span >> axis & 1:
                    placements[axis] = placement
        pieces = (p for p in self.source.pieces if p in self.pieced)
        kept = tuple(p for p in pieces if rank + self.pieced.index(p) in codes)
        return _sharding(self.source.mesh, tuple(placements), kept)


class _Path:
    """Hops one after another; slices that follow each other are one."""

    def __init__(self, source: Sharding) -> None:
        self.now, self.hops = source, list[Hop]()

    def hop(self, kind: transfers.HopKind, target: Sharding) -> None:
        """Go on to a sharding; nowhere if it is there by a slice."""
        if kind == transfers.Slice():
            if target == self.now:
                return
            if self.hops and self.hops[-1].kind == kind:
                self.now = self.hops.pop().source
        self.hops.append(Hop(kind, self.now, target))
        self.now = target


def _number(known: list[Any], word: object) -> int:
    """The place of a word in a list; it is put there if it is not yet."""
    if word not in known:
        known.append(word)
    return known.index(word)


# -- shardings -------------------------------------------------------------------------------------


def _is_uneven(sharding: Sharding, type: TensorType) -> bool:
    return bool(sharding.pieces) or any(
        size % sharding.ways(dim) for dim, size in enumerate(type.shape)
    )


def _without_terms(sharding: Sharding) -> Sharding:
    """The same with what terms add up to in their place."""
    placements = (Replicated() if isinstance(p, Partial) else p for p in sharding.placements)
    return _sharding(sharding.mesh, tuple(placements), sharding.pieces)


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
def _sharding(
    mesh: Mesh, placements: tuple[Placement, ...], pieces: tuple[tuple[int, Pieces], ...]
) -> Sharding:
    """One object for equal shardings: searches come by the same ones again and again."""
    return Sharding(mesh, placements, pieces)
