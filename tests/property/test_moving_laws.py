"""Tables of what moving takes agree with exact prices, and paths with the reference search by exact
prices.
"""

from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.partition.estimate.moving.tables import Prices
from graphwright.plans import Partial, Replicated, Sharding, Split, whole_mesh
from graphwright.simulate.costs import CostModel
from graphwright.tasks import reshard
from reference_resharding import cheapest_resharding
from reshardings import gather_then_slice

COSTS = CostModel(measured=False)
MACHINES = (
    "p2.8xlarge", "v100-2x8", "dgx-h100:2", "dgx-1v", "flexflow-k80", "local:4", "summit:2"
)  # fmt: skip
EVEN = (64, 128, 256, 512, 1024, 4096)
UNEVEN = (56, 64, 100, 192, 250, 1000, 2048)


@cache
def prices(name: str) -> Prices:
    return Prices(cluster(name), COSTS)


class Case:
    """A tensor on a machine, as it is and as it is needed."""

    def __init__(self, seed: int, sizes: tuple[int, ...]) -> None:
        rng = Random(seed)
        self.name = rng.choice(MACHINES)
        self.cluster = cluster(self.name)
        self.type = TensorType(
            tuple(rng.choice(sizes) for _ in range(rng.randint(1, 4))), "float32"
        )
        terms = rng.random()
        self.source = self._codes(rng, terms < 0.4)
        self.target = self._codes(rng, terms < 0.1)

    def _codes(self, rng: Random, terms: bool) -> list[int]:
        """Neighbouring axes are often placed alike; no part is empty."""
        shape, found = self.type.shape, []
        ways = [1] * len(shape)
        for axis in self.cluster.axes:
            dims = [d for d, n in enumerate(shape) if n >= ways[d] * axis.size]
            choices = [*dims, *dims, -1, -1, *([-2] if terms else [])]
            again = found and found[-1] in choices and rng.random() < 0.5
            found.append(found[-1] if again else rng.choice(choices))
            if found[-1] >= 0:
                ways[found[-1]] *= axis.size
        return found

    def sharding(self, codes: list[int]) -> Sharding:
        words = {-1: Replicated(), -2: Partial("sum")}
        mesh = whole_mesh(self.cluster)
        return Sharding(mesh, tuple(words.get(code) or Split(code) for code in codes))

    def true(self, how=reshard):
        source, target = self.sharding(self.source), self.sharding(self.target)
        return how(self.cluster, COSTS, self.type, source, target)

    def table(self) -> tuple[float, float]:
        codes = (np.array([row], dtype=np.int8) for row in (self.source, self.target))
        seconds, moved = prices(self.name).table(self.type, *codes)
        return float(seconds[0, 0]), float(moved[0, 0])

    def __repr__(self) -> str:
        return f"{self.type} {self.source} -> {self.target} on {self.name}"


def cases(sizes: tuple[int, ...]) -> st.SearchStrategy[Case]:
    return st.integers(0, 2**32).map(lambda seed: Case(seed, sizes))


def is_even(case: Case) -> bool:
    """Whether all parts are equal, however the axes cut the dims."""
    return all(size % case.cluster.num_devices == 0 for size in case.type.shape)


@settings(max_examples=5 * settings().max_examples)
@given(cases(EVEN).filter(is_even))
def test_of_even_parts_a_table_has_the_exact_price_of_the_cheapest_path(case):
    best = case.true(cheapest_resharding).seconds
    assert case.true().seconds == pytest.approx(best, rel=1e-9)
    assert case.table()[0] == pytest.approx(best, rel=1e-9)


@settings(max_examples=3 * settings().max_examples)
@given(cases(UNEVEN))
def test_of_uneven_parts_a_table_has_about_that(case):
    entry, true = case.table()[0], case.true().seconds
    assert 0.85 * true <= entry <= 1.15 * true
    assert true <= 1.02 * case.true(cheapest_resharding).seconds


@given(cases(UNEVEN))
def test_nothing_takes_longer_than_gathering_all_and_slicing(case):
    assert case.table()[0] <= case.true(gather_then_slice).seconds * 1.01


def test_nearly_all_entries_are_as_the_search_has_them():
    ratios, moved = [], []
    for seed in range(150):
        case = Case(seed, UNEVEN)
        true = case.true()
        if true.seconds:
            seconds, nbytes = case.table()
            ratios.append(seconds / true.seconds)
            moved.append(nbytes / true.nbytes)
    assert np.median(ratios) == 1 or abs(np.median(ratios) - 1) < 1e-3
    assert np.mean(np.abs(np.array(ratios) - 1) < 0.1) > 0.95
    assert np.mean(np.abs(np.array(moved) - 1) < 0.1) > 0.9
