"""Random numbers by place: known answers, distributions, what each operator makes of them, what is refused."""

from __future__ import annotations

from math import sqrt
from types import CodeType, FunctionType

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode

from graphwright.aten.calls import complete_call
from graphwright.aten.invoke import call_kernel, overload_of
from graphwright.describe import Types, descriptions, find, make_description, properties
from graphwright.describe.language.registry import _DESCRIPTIONS
from graphwright.describe.language.syntax import random
from graphwright.errors import InvalidCall, UnknownOperator
from graphwright.ir import TensorType
from graphwright.run.random import distributions, elementary
from graphwright.run.random.draw import RandomBox, Request, draw, draws
from graphwright.run.random.philox import CHUNK, WORD, lane_dim, philox
from graphwright.run.random.request import RULES

CPU = torch.device("cpu")
MANY = 200_000


def whole(*shape: int, seed: int = 0, operator: int = 0) -> RandomBox:
    return RandomBox(seed=seed, operator=operator, shape=shape, box=tuple((0, n) for n in shape))


def make(op: str, inputs=(), drawn: RandomBox | None = None, **attrs) -> tuple[torch.Tensor, ...]:
    drawn = drawn or whole(*inputs[0].shape)
    attrs, inputs = complete_call(op, attrs, inputs)
    return draw(op, attrs, inputs, drawn, CPU)


INT64 = {"dtype": "int64"}  # the schema writes this default as a number


def assert_distributed(sample: torch.Tensor, name: str, *parameters: float) -> None:
    """Kolmogorov and Smirnov would be this surprised in one of a thousand cases; the seed is fixed."""
    result = stats.kstest(sample.double().flatten().numpy(), name, args=parameters)
    assert result.pvalue > 1e-3, result


# -- the generator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_has_the_answers_of_its_authors(counter, key, words) -> None:
    """The vectors that come with Random123."""
    found = philox(tuple(torch.tensor([n]) for n in counter), key)
    assert tuple(found.flatten().tolist()) == words


def test_numbers_are_the_same_for_ever() -> None:
    """A checkpoint that goes on elsewhere, or with a newer version, has to draw the same."""
    drawn = RandomBox(seed=1, operator=2, shape=(3, 70), box=((1, 2), (5, 8)))
    (bits,) = make("aten.randint", drawn=drawn, high=2**31, size=(1, 3), **INT64)
    (normals,) = make("aten.randn", drawn=drawn, size=(1, 3), dtype="float64")
    assert bits.tolist() == [[545466746, 1677652317, 906102747]]
    wanted = ["0x1.d7986da9abd66p-1", "0x1.633ff387e0fbbp-2", "0x1.d93de758537f6p-1"]
    assert [x.hex() for x in normals[0].tolist()] == wanted


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((64, 12, 128, 100), 3), ((100, 64, 5), 1), ((5, 7, 3), 1), ((9, 9), 1), ((10_000, 1), 0)],
)
def test_blocks_lie_along_a_long_dim(shape, dim) -> None:
    assert lane_dim(shape) == dim


class Sizes(TorchDispatchMode):
    """The bytes of the largest tensor that any operator made."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.largest = max(self.largest, made.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize("shape", [(3_000_000,), (3000, 1000), (2, 1_500_000), (600_000, 5)])
def test_temporaries_are_no_larger_than_a_chunk_or_the_result(shape) -> None:
    x = torch.zeros(shape, dtype=torch.bool)
    with Sizes() as sizes:
        (mask,) = draw("aten.bernoulli.p", {"p": 0.5}, [x], whole(*shape))
    assert mask.numel() == 3_000_000
    assert sizes.largest <= max(8 * CHUNK["cpu"] * 1.01, mask.numel())


def test_pytorch_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    for op in ("aten.native_dropout", "aten._standard_gamma"):
        make(op, [torch.ones(10)], **({"p": 0.5, "train": True} if "dropout" in op else {}))
    assert torch.equal(torch.get_rng_state(), before)


# -- functions --------------------------------------------------------------------------------------


def test_elementary_functions_are_accurate() -> None:
    u = distributions.inner_uniform(whole(50_000), "u", CPU)
    tiny = torch.cat([u, u * 1e-300, u * 1e300, torch.ones(1, dtype=torch.float64)])
    torch.testing.assert_close(elementary.log(tiny), torch.log(tiny), rtol=1e-15, atol=1e-300)
    torch.testing.assert_close(elementary.sqrt(tiny), torch.sqrt(tiny), rtol=3e-16, atol=0)
    x = (u - 0.5) * 1400
    torch.testing.assert_close(elementary.exp(x), torch.exp(x), rtol=1e-15, atol=0)
    edges = torch.tensor([-800.0, 0.0, 709.7, 710.0], dtype=torch.float64)
    torch.testing.assert_close(elementary.exp(edges), torch.exp(edges), rtol=1e-15, atol=0)
    cosine, sine = elementary.cos_sin(u * 3 - 1)
    angle = 2 * torch.pi * (u * 3 - 1)
    torch.testing.assert_close(cosine, torch.cos(angle), rtol=0, atol=1e-14)
    torch.testing.assert_close(sine, torch.sin(angle), rtol=0, atol=1e-14)
    k = torch.arange(2000, dtype=torch.float64)
    torch.testing.assert_close(
        elementary.log_factorial(k), torch.lgamma(k + 1), rtol=1e-14, atol=1e-12
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100])
def test_a_sum_does_not_depend_on_the_rows_beside(size) -> None:
    x = distributions.inner_uniform(whole(9, size), "u", CPU)
    total = elementary.sum_last(x)
    torch.testing.assert_close(total, x.sum(-1, keepdim=True))
    assert torch.equal(elementary.sum_last(x[4:5]), total[4:5])


# -- distributions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(MANY,), (400, 500), (MANY // 4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(shape, dtype) -> None:
    (u,) = make("aten.rand", drawn=whole(*shape), size=shape, dtype=dtype)
    assert u.dtype == getattr(torch, dtype)
    assert u.min() >= 0 and u.max() < 1
    assert_distributed(u, "uniform")
    flat = u.double().flatten().numpy()
    for gap in (1, 2, 3, 4, 500):  # neighbours know nothing of each other
        assert abs(np.corrcoef(flat[:-gap], flat[gap:])[0, 1]) < 4 / sqrt(MANY)


@pytest.mark.parametrize(
    ("dtype", "digits"), [("bfloat16", 8), ("float16", 11), ("float32", 24), ("float64", 53)]
)
def test_uniform_uses_the_bits_of_its_dtype(dtype, digits) -> None:
    (u,) = make("aten.rand", drawn=whole(MANY), size=(MANY,), dtype=dtype)
    scaled = u.double() * 2**digits
    assert torch.equal(scaled, scaled.round())
    assert u.max() < 1
    assert (scaled.remainder(2) == 1).double().mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_normal(dtype) -> None:
    (z,) = make("aten.randn", drawn=whole(MANY), size=(MANY,), dtype=dtype)
    if dtype in ("float32", "float64"):  # others are too coarse for the test
        assert_distributed(z, "norm")
    z = z.double()
    assert z.mean().item() == pytest.approx(0, abs=4 / sqrt(MANY))
    assert z.var().item() == pytest.approx(1, abs=0.02)
    assert (z**4).mean().item() == pytest.approx(3, abs=0.15)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype) -> None:
    (z,) = make("aten.randn", drawn=whole(MANY), size=(MANY,), dtype=dtype)
    assert_distributed(z.real, "norm", 0, sqrt(0.5))
    assert_distributed(z.imag, "norm", 0, sqrt(0.5))
    (u,) = make("aten.rand", drawn=whole(MANY), size=(MANY,), dtype=dtype)
    assert_distributed(u.real, "uniform")
    assert_distributed(u.imag, "uniform")
    assert u.dtype == z.dtype == getattr(torch, dtype)
    for x in (z, u):
        assert abs(np.corrcoef(x.real.numpy(), x.imag.numpy())[0, 1]) < 4 / sqrt(MANY)


@pytest.mark.parametrize(
    ("op", "attrs", "name", "parameters"),
    [
        ("aten.uniform", {"from": -2.0, "to": 3.0}, "uniform", (-2, 5)),
        ("aten.normal_functional", {"mean": 1.0, "std": 3.0}, "norm", (1, 3)),
        ("aten.exponential", {"lambd": 2.0}, "expon", (0, 0.5)),
        ("aten.log_normal", {"mean": 0.5, "std": 0.25}, "lognorm", (0.25, 0, np.exp(0.5))),
        ("aten.cauchy", {"median": 1.0, "sigma": 2.0}, "cauchy", (1, 2)),
        ("aten.rand_like", {}, "uniform", ()),
        ("aten.randn_like", {}, "norm", ()),
    ],
)
def test_distributions_of_attributes(op, attrs, name, parameters) -> None:
    for dtype in (torch.float32, torch.float64):
        (sample,) = make(op, [torch.zeros(MANY, dtype=dtype)], **attrs)
        assert sample.dtype == dtype
        assert_distributed(sample, name, *parameters)


def test_uniform_stays_below_its_end() -> None:
    """Where a result would be rounded up to it."""
    (u,) = make("aten.uniform", [torch.zeros(MANY)], **{"from": 1e6, "to": 1e6 + 1})
    assert u.max() < 1e6 + 1 and u.min() >= 1e6


@pytest.mark.parametrize("alpha", [0.05, 0.7, 1.0, 4.5, 300.0])
def test_gamma(alpha) -> None:
    (sample,) = make("aten._standard_gamma", [torch.full((50_000,), alpha).double()])
    assert_distributed(sample, "gamma", alpha)


@pytest.mark.parametrize("rate", [0.1, 3.0, 9.99, 10.0, 80.0, 1e5])
def test_poisson(rate) -> None:
    (sample,) = make("aten.poisson", [torch.full((50_000,), rate)])
    counts = sample.double().numpy()
    assert np.array_equal(counts, counts.round())
    assert_fair(counts, stats.poisson(float(np.float32(rate))))


@pytest.mark.parametrize("p", [0.001, 0.3, 0.97])
def test_geometric(p) -> None:
    (sample,) = make("aten.geometric", [torch.zeros(50_000, dtype=torch.int64)], p=p)
    assert sample.dtype == torch.int64 and sample.min() >= 1
    assert_fair(sample.double().numpy(), stats.geom(p))


def assert_fair(sample: np.ndarray, law) -> None:
    """Pearson's test on about twenty equally likely groups of whole numbers."""
    edges = np.unique(law.ppf(np.linspace(0.05, 0.95, 19)))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * len(sample)
    found = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    kept = expected > 5
    statistic = (((found - expected) ** 2)[kept] / expected[kept]).sum()
    assert stats.chi2(max(1, kept.sum() - 1)).sf(statistic) > 1e-3
    assert sample.mean() == pytest.approx(law.mean(), abs=5 * law.std() / sqrt(len(sample)))


def test_parameters_of_any_kind_end() -> None:
    """No attempt is ever accepted for what is no number."""
    odd = torch.tensor([0.0, float("nan"), float("inf"), 1e-30, 1e30])
    assert make("aten._standard_gamma", [odd])[0][2:].isfinite().tolist() == [False, True, True]
    rates = make("aten.poisson", [torch.tensor([0.0, float("inf"), 1e20])])[0]
    assert rates[0] == 0 and rates[1].isinf() and rates[2] == pytest.approx(1e20, rel=1e-6)


# -- whole numbers ----------------------------------------------------------------------------------

INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "bfloat16", "float32", "float64"])
def test_integers_are_alike_in_every_dtype(dtype) -> None:
    (sample,) = make("aten.randint.low", drawn=whole(60_000), low=3, high=9, size=(1,), dtype=dtype)
    assert sample.dtype == getattr(torch, dtype)
    counts = torch.bincount(sample.to(torch.int64), minlength=9)
    assert counts[:3].sum() == 0 and len(counts) == 9
    assert stats.chisquare(counts[3:].numpy()).pvalue > 1e-3


def test_truth_values_are_integers_too() -> None:
    (sample,) = make("aten.randint", drawn=whole(10_000), high=2, size=(1,), dtype="bool")
    assert sample.dtype == torch.bool
    assert sample.double().mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-(2**63), 2**63 - 1), (0, 2**63 - 1), (-5, 2**40), (0, 3 * 2**61), (-(2**62) * 2, 1), (7, 8)],
)
def test_integers_of_any_range(low, high) -> None:
    (sample,) = make("aten.randint.low", drawn=whole(MANY), low=low, high=high, size=(1,), **INT64)
    values = sample.tolist()
    assert low <= min(values) and max(values) < high
    if high - low > 2**32:
        place = torch.tensor([(v - low) / (high - low) for v in values], dtype=torch.float64)
        assert_distributed(place, "uniform")
        low_bits = torch.bincount(sample & 15, minlength=16)
        assert stats.chisquare(low_bits.numpy()).pvalue > 1e-3


# -- numbers and tensors ----------------------------------------------------------------------------


def test_normal_of_tensors() -> None:
    mean, std = torch.tensor([[1.0], [5.0]]), torch.tensor([2.0, 0.0]).repeat(MANY // 2)
    drawn = whole(2, MANY)
    (both,) = make("aten.normal.Tensor_Tensor", [mean, std], drawn)
    assert torch.equal(both[:, 1::2], mean.expand(2, MANY // 2))
    assert_distributed(both[0, ::2], "norm", 1, 2)
    assert_distributed(both[1, ::2], "norm", 5, 2)
    (around,) = make("aten.normal.Tensor_float", [mean.expand(2, MANY)], drawn, std=2.0)
    assert_distributed(around[1], "norm", 5, 2)
    (wide,) = make("aten.normal.float_Tensor", [std], mean=-1.0)
    assert_distributed(wide[::2], "norm", -1, 2)


def test_bernoulli_of_probabilities() -> None:
    p = torch.tensor([0.0, 0.25, 0.9, 1.0])[:, None].expand(4, MANY)
    (sample,) = make("aten.bernoulli", [p])
    assert sample.unique().tolist() == [0, 1]
    assert sample.mean(1).tolist() == pytest.approx([0, 0.25, 0.9, 1], abs=0.005)
    assert sample[0].sum() == 0 and sample[3].min() == 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16, torch.float64])
def test_bernoulli_of_one_probability(dtype) -> None:
    for p in (0.0, 0.3, 1.0):
        (sample,) = make("aten.bernoulli.p", [torch.zeros(MANY, dtype=dtype)], p=p)
        assert sample.dtype == dtype
        assert sample.double().mean() == pytest.approx(p, abs=0.005 if 0 < p < 1 else 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("train", [True, None])
def test_dropout_keeps_and_scales(dtype, train) -> None:
    x = torch.linspace(1, 2, MANY).to(dtype)
    result, kept = make("aten.native_dropout", [x], p=0.2, train=train)
    assert (result.dtype, kept.dtype) == (dtype, torch.bool)
    assert torch.equal(result, (x * kept).mul_(1 / 0.8))
    assert kept.double().mean() == pytest.approx(0.8, abs=0.005)


def test_dropout_of_nothing_and_of_everything() -> None:
    x = torch.linspace(1, 2, 100)
    result, kept = make("aten.native_dropout", [x], p=0.0, train=True)
    assert torch.equal(result, x) and kept.all()
    result, kept = make("aten.native_dropout", [x], p=1.0, train=True)
    assert not result.any() and not kept.any()
    result, kept = make("aten.native_dropout", [x], p=0.5, train=False)
    assert torch.equal(result, x) and kept.all()
    for train in (True, False):  # a part may hold nothing at all
        result, kept = make("aten.native_dropout", [x[:0]], p=0.5, train=train)
        assert (result.shape, result.dtype) == ((0,), torch.float32)
        assert (kept.shape, kept.dtype) == ((0,), torch.bool)


def test_random_slopes() -> None:
    x = torch.linspace(-1, 1, MANY)
    drawn, slope = make(
        "aten.rrelu_with_noise_functional", [x, x], lower=0.1, upper=0.3, training=True
    )
    assert torch.equal(drawn, torch.where(x > 0, x, x * slope))
    assert torch.equal(slope[x > 0], torch.ones(MANY // 2))
    assert_distributed(slope[x < 0], "uniform", 0.1, 0.2)
    (alone,) = make("aten.rrelu_with_noise", [x, x], lower=0.1, upper=0.3, training=True)
    assert torch.equal(alone, drawn)


def test_mean_slope_outside_of_training() -> None:
    x, noise = torch.linspace(-1, 1, 9), torch.linspace(3, 4, 9)
    mean, same = make("aten.rrelu_with_noise_functional", [x, noise], lower=0.1, upper=0.3)
    torch.testing.assert_close(mean, torch.where(x > 0, x, x * 0.2))
    assert torch.equal(same, noise)


# -- numbers that depend on each other --------------------------------------------------------------


def test_permutation() -> None:
    for dtype in ("int64", "int32", "float32"):
        (order,) = make("aten.randperm", drawn=whole(1000), n=1000, dtype=dtype)
        assert order.dtype == getattr(torch, dtype)
        assert order.sort().values.tolist() == list(range(1000))
    firsts = [
        make("aten.randperm", drawn=whole(4, seed=s), n=4, **INT64)[0].tolist()
        for s in range(24 * 50)
    ]
    counts = np.unique(firsts, axis=0, return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_with_replacement(dtype) -> None:
    weights = torch.tensor([[1.0, 0.0, 3.0, 4.0], [0.0, 0.0, 5.0, 0.0]], dtype=dtype)
    attrs = {"num_samples": MANY, "replacement": True}
    (sample,) = make("aten.multinomial", [weights], whole(2, MANY), **attrs)
    assert sample.dtype == torch.int64
    counts = torch.bincount(sample[0], minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]].numpy(), MANY * np.array([1, 3, 4]) / 8).pvalue > 1e-3
    assert sample[1].unique().tolist() == [2]


def test_samples_without_replacement() -> None:
    weights = torch.tensor([1.0, 0.0, 2.0, 5.0]).expand(MANY, 4)
    (sample,) = make("aten.multinomial", [weights], whole(MANY, 3), num_samples=3)
    assert (sample.sort(1).values == torch.tensor([0, 2, 3])).all()
    counts = torch.bincount(sample[:, 0], minlength=4)[[0, 2, 3]]
    assert stats.chisquare(counts.numpy(), MANY * np.array([1, 2, 5]) / 8).pvalue > 1e-3
    after_3 = sample[sample[:, 0] == 3, 1]
    assert (after_3 == 2).double().mean() == pytest.approx(2 / 3, abs=0.01)


def test_a_part_of_samples_and_of_a_permutation() -> None:
    """Nothing splits them there, but a rank may need no more."""
    part = RandomBox(seed=0, operator=0, shape=(50,), box=((20, 30),))
    assert torch.equal(
        make("aten.randperm", drawn=part, n=50, **INT64)[0],
        make("aten.randperm", drawn=whole(50), n=50, **INT64)[0][20:30],
    )
    for replacement in (True, False):
        attrs = {"num_samples": 50, "replacement": replacement}
        (some,) = make("aten.multinomial", [torch.ones(60)], part, **attrs)
        (all_of_it,) = make("aten.multinomial", [torch.ones(60)], whole(50), **attrs)
        assert torch.equal(some, all_of_it[20:30])


def test_dirichlet() -> None:
    alpha = torch.tensor([0.5, 2.0, 4.0]).double().expand(50_000, 3)
    (sample,) = make("aten._sample_dirichlet", [alpha])
    torch.testing.assert_close(sample.sum(1), torch.ones(50_000).double())
    assert_distributed(sample[:, 0], "beta", 0.5, 6)
    assert_distributed(sample[:, 2], "beta", 4, 2.5)


# -- types, and which operators ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("aten.rand", [], {"size": (3, 4), "dtype": None}),
        ("aten.randint", [], {"size": (3, 4), "high": 5, "dtype": None}),
        ("aten.randperm", [], {"n": 5, "dtype": None}),
        ("aten.empty.memory_format", [], {"size": (), "dtype": None}),
        ("aten.empty_like", [("float64", (2, 3))], {"dtype": "int8"}),
        ("aten.new_empty", [("float16", (7,))], {"size": (2, 3)}),
        ("aten.new_empty_strided", [("bool", (7,))], {"size": (2, 3), "stride": (1, 2)}),
        ("aten.rand_like", [("int64", (2, 3))], {"dtype": "float32"}),
        ("aten.randint_like", [("float32", (2, 3))], {"high": 5}),
        ("aten.randint_like.low_dtype", [("uint8", (2, 3))], {"low": 1, "high": 5}),
        ("aten.normal.Tensor_Tensor", [("float32", (3, 1)), ("float64", (4,))], {}),
        ("aten.normal.Tensor_Tensor", [("float64", (3, 1)), ("float16", (4,))], {}),
        ("aten.normal.Tensor_float", [("bfloat16", ())], {}),
        ("aten.poisson", [("bfloat16", (2, 3))], {}),
        ("aten.bernoulli", [("float16", (2, 3))], {}),
        ("aten.geometric", [("uint8", (2, 3))], {"p": 0.5}),
        ("aten.uniform", [("complex64", (2, 3))], {}),
        ("aten.normal_functional", [("complex128", (2, 3))], {}),
        ("aten.multinomial", [("float16", (5,))], {"num_samples": 3}),
        ("aten._sample_dirichlet", [("float32", ())], {}),
        ("aten.native_dropout", [("bfloat16", (2, 3))], {"p": 0.5, "train": True}),
        ("aten.native_dropout", [("int64", (2, 3))], {"p": 0.5, "train": False}),
    ],
)
def test_types_are_those_of_the_kernel(op, shapes, attrs) -> None:
    inputs = [torch.ones(shape).to(getattr(torch, dtype)) for dtype, shape in shapes]
    attrs, inputs = complete_call(op, attrs, inputs)
    real = call_kernel(op, inputs, attrs)
    made = draw(op, attrs, inputs, whole(*real[0].shape), CPU)
    assert [(x.shape, x.dtype) for x in made] == [(x.shape, x.dtype) for x in real]


def mentions_random(value: object, seen: set[int] | None = None) -> bool:
    """Whether a function, one it encloses, or one that it calls by a global name, names `random`."""
    seen = set() if seen is None else seen
    if value is random:
        return True
    if not isinstance(value, FunctionType) or id(value) in seen:
        return False
    seen.add(id(value))
    used = [cell.cell_contents for cell in value.__closure__ or ()]
    codes = [value.__code__]
    while codes:
        code = codes.pop()
        used += [value.__globals__.get(name) for name in code.co_names]
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return any(mentions_random(item, seen) for item in used)


def test_random_are_those_that_pytorch_says_draw_and_those_left_empty() -> None:
    ops = {d.op for d in descriptions() if d.op.startswith("aten.")}
    tagged = {op for op in ops if torch.Tag.nondeterministic_seeded in overload_of(op).tags}
    empty = {op for op in ops if op.startswith(("aten.empty", "aten.new_empty"))}
    without_dropout = {"aten._scaled_dot_product_flash_attention_for_cpu"}
    drawn = {op for op in ops if mentions_random(find(op).function)}
    assert drawn == tagged - without_dropout | empty


def test_what_is_random_can_be_drawn() -> None:
    drawing = {d.op for d in descriptions() if mentions_random(d.function)}
    assert drawing - {"array.random"} == RULES.keys()


def test_random_for_some_attributes_only() -> None:
    t = TensorType((2, 3), "float32")
    types = Types((t,), (t, TensorType((2, 3), "bool")))
    for train in (True, False):
        found = properties("aten.native_dropout", {"p": 0.5, "train": train}, types)
        assert found.random is train


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("aten.bernoulli.p", [torch.ones(3)], {"p": 1.5}, "p has to be between 0 and 1; it is 1.5"),
        ("aten.native_dropout", [torch.ones(3)], {"p": -1.0, "train": True}, "it is -1.0"),
        ("aten.bernoulli", [torch.tensor([0.5, 2.0])], {}, "every probability"),
        ("aten.poisson", [torch.tensor([0.5, -2.0])], {}, "every rate"),
        ("aten.normal.float_Tensor", [torch.tensor([-1.0])], {"mean": 0.0}, "every std"),
        ("aten.normal.Tensor_Tensor", [torch.ones(1), -torch.ones(1)], {}, "every std"),
        ("aten.normal.Tensor_float", [torch.ones(1)], {"std": -1.0}, "std has to be 0 or more"),
        ("aten.normal_functional", [torch.ones(1)], {"std": -1.0}, "std has to be 0 or more"),
        ("aten.log_normal", [torch.ones(1)], {"std": 0.0}, "std has to be more than 0"),
        ("aten.cauchy", [torch.ones(1)], {"sigma": 0.0}, "sigma has to be more than 0"),
        ("aten.exponential", [torch.ones(1)], {"lambd": 0.0}, "lambd has to be more than 0"),
        ("aten.geometric", [torch.ones(1)], {"p": 1.0}, "p has to be between 0 and 1"),
        ("aten.uniform", [torch.ones(1)], {"from": 2.0, "to": 1.0}, "2.0 and 1.0"),
        ("aten.randint_like", [torch.ones(1)], {"high": 0}, "low has to be less than high"),
        ("aten.rand_like", [torch.ones(1).long()], {}, "dtype torch.int64"),
        ("aten.exponential", [torch.ones(1).cfloat()], {}, "dtype torch.complex64"),
    ],
)
def test_what_the_kernel_refuses_is_refused(op, inputs, attrs, message) -> None:
    full, given = complete_call(op, attrs, inputs)
    with pytest.raises((RuntimeError, NotImplementedError)):
        call_kernel(op, given, full)
    with pytest.raises(InvalidCall, match=message):
        make(op, inputs, **attrs)


def test_weights_that_cannot_be() -> None:
    for weights in ([0.0, 0.0], [1.0, -1.0], [float("nan"), 1.0], [float("inf"), 1.0]):
        with pytest.raises(InvalidCall, match="every weight"):
            make("aten.multinomial", [torch.tensor(weights)], whole(1), num_samples=1)
    with pytest.raises(InvalidCall, match="there are 2 to choose from, fewer than 3"):
        make("aten.multinomial", [torch.ones(2)], whole(3), num_samples=3)


def test_a_box_outside_of_its_shape() -> None:
    for box in [((0, 4),), ((2, 1),), ((-1, 2),), ()]:
        with pytest.raises(InvalidCall, match=r"operator 7 draws the box .* shape \[3\]"):
            RandomBox(seed=0, operator=7, shape=(3,), box=box)


def test_inputs_of_another_region() -> None:
    drawn = RandomBox(seed=0, operator=7, shape=(4, 6), box=((1, 3), (0, 6)))
    with pytest.raises(InvalidCall, match=r"box of size \[2, 6\] .* shapes \[4, 6\]"):
        make("aten.native_dropout", [torch.ones(4, 6)], drawn, p=0.5, train=True)
    with pytest.raises(InvalidCall, match="other rows"):
        make("aten.multinomial", [torch.ones(4, 9)], drawn, num_samples=6)
    cut_last = RandomBox(seed=0, operator=7, shape=(4, 6), box=((0, 4), (0, 3)))
    with pytest.raises(InvalidCall, match="last dim cannot be cut"):
        make("aten._sample_dirichlet", [torch.ones(4, 3)], cut_last)


def test_a_described_operator_without_a_rule(monkeypatch) -> None:
    def noise(x):
        return lambda *i: random("number")

    monkeypatch.setitem(_DESCRIPTIONS, "mine.noise", make_description("mine.noise", noise))
    t = TensorType((1,), "float32")
    assert properties("mine.noise", {}, Types((t,), (t,))).random
    with pytest.raises(UnknownOperator, match=r'mine.noise has no rule .*draws\("mine.noise"\)'):
        draw("mine.noise", {}, [torch.ones(1)], whole(1))


def test_a_rule_of_ones_own(monkeypatch) -> None:
    monkeypatch.setitem(RULES, "mine.noise", None)  # so that it is gone again afterwards

    @draws("mine.noise")
    def noise(r: Request) -> torch.Tensor:
        return r.given(0) + distributions.normal(r.place, "number", r.dtype, r.device)

    assert_distributed(draw("mine.noise", {}, [torch.ones(MANY)], whole(MANY))[0], "norm", 1)
    with pytest.raises(InvalidCall, match=r"box of size \[1, 3\] .* it made \[2, 3\]"):
        draw("mine.noise", {}, [torch.ones(2, 3)], whole(1, 3))
