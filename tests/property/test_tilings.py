"""Several splits at once are true as well: parts of parts, joined, give what the kernel gives, on any mesh.

`test_descriptions` has every single split; here indices go together, so what each leaves to the next has to be right: regions
within regions, fill values, attributes, masks.
"""

from collections import defaultdict
from collections.abc import Callable
from random import Random

import pytest
import torch
from cases import complete, load_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.describe import splits
from graphwright.plans import Along
from tilings import (
    MESHES,
    Call,
    Tally,
    adding_sets,
    check_choices,
    check_placement,
    check_ways,
    random_ways,
)

PER_CASE = 4
"""Element-wise operators share their cases by the dozen; of each case, so many operators are taken."""


def operators() -> dict[str, list[str]]:
    """The operators to try, by the file of their cases."""
    by_case = defaultdict(list)
    for op, case in sorted(load_cases().items()):
        by_case[case].append(op)
    found = defaultdict(list)
    for case, ops in by_case.items():
        found[case.__module__.removeprefix("cases.")] += ops[:PER_CASE]
    return dict(found)


OPERATORS = operators()
CASES = load_cases()


SHARE = 5
"""Each operator gets one in so many of a property's usual examples."""


def try_group(group: str, check: Callable[[Random, Call, Tally], None]) -> None:
    """Check random calls of the group's operators; most combinations have to be allowed."""
    tally = Tally()
    for op in OPERATORS[group]:
        try_operator(op, check, tally)
    assert tally.held * 2 >= tally.tried, f"{tally} of {group}"


def try_operator(op: str, check: Callable[[Random, Call, Tally], None], tally: Tally) -> None:
    @settings(max_examples=settings().max_examples // SHARE)
    @given(data=st.data())
    def run(data):
        attrs, inputs = CASES[op](data.draw)
        call = Call.make(op, complete(op, attrs), inputs)
        check(Random(data.draw(st.integers(0, 2**20))), call, tally)

    run()


@pytest.mark.parametrize("group", OPERATORS)
def test_several_ways_at_once(group):
    def check(rng, call, tally):
        ways = random_ways(rng, call, rng.randint(2, 3))
        if len(ways) > 1:
            check_ways(call, ways, tally)

    try_group(group, check)


@pytest.mark.parametrize("group", OPERATORS)
def test_placements(group):
    def check(rng, call, tally):
        check_placement(rng, call, rng.choice(MESHES), adding_sets(call), tally)

    try_group(group, check)


def some_convolution(rng: Random) -> Call:
    """A convolution of one dim or one of its gradients, with room for several parts of the kernel and of the rows."""
    attrs = {
        "stride": (rng.randint(1, 3),),
        "padding": (rng.randint(0, 3),),
        "dilation": (rng.randint(1, 2),),
        "transposed": rng.random() < 0.3,
        "output_padding": (0,),
        "groups": 1,
    }
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    kernel, size = rng.randint(3, 5), rng.randint(10, 14)
    x = torch.rand(2, 2, size, generator=generator, dtype=torch.float64)
    w = torch.rand(2, 2, kernel, generator=generator, dtype=torch.float64)
    call = Call.make("aten.convolution", attrs, [x, w, None])
    match rng.randrange(3):
        case 0:
            return call
        case 1:
            op, given, attrs = "grad_input", w, {**attrs, "input_size": tuple(x.shape)}
        case _:
            op, given, attrs = "grad_weight", x, {**attrs, "weight_size": tuple(w.shape)}
    return Call.make(f"graphwright.convolution_{op}", attrs, [call.outputs[0], given])


def test_two_indices_that_cut_one_dim():
    tally = Tally()
    for seed in range(2 * settings().max_examples):
        rng = Random(seed)
        call = some_convolution(rng)
        found = [s for s in splits(call.op, call.attrs, call.types) if s.max_parts > 2]
        for pair in ((a, b) for a in found for b in found if a is not b):
            if pair[0].cut_dims & pair[1].cut_dims:
                shape = (rng.randint(2, 3), rng.randint(2, 3))
                ways = tuple((s.index, n) for s, n in zip(pair, shape, strict=True))
                check_ways(call, ways, tally)
                check_choices(rng, call, tuple(Along(s.index) for s in pair), shape, tally)
    assert tally.held == tally.tried > 2 * settings().max_examples
