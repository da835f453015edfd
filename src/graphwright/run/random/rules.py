"""The rules of PyTorch's random operators: what each makes of the numbers of its box."""

from __future__ import annotations

from math import log1p

import torch
from torch import Tensor

from graphwright.aten import call_kernel, to_dtype
from graphwright.run.random import distributions as of
from graphwright.run.random.elementary import cos_sin, exp, log, sum_last
from graphwright.run.random.request import Request, draws

# -- any value will do --------------------------------------------------------------------------


@draws(
    "aten.empty.memory_format", "aten.empty_strided", "aten.empty_permuted",
    "aten.empty_like", "aten.new_empty", "aten.new_empty_strided",
)  # fmt: skip
def _empty(r: Request) -> Tensor:
    return torch.zeros(r.place.size, dtype=r.dtype, device=r.device)


# -- one number for each element ----------------------------------------------------------------


def _real(r: Request, *, parts: bool = False) -> torch.dtype:
    """The dtype, of which there have to be fractions; `parts` allows complex numbers."""
    dtype = r.dtype
    fits = dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    r.expect(fits or (parts and dtype.is_complex), f"there are no such numbers of dtype {dtype}")
    return dtype


@draws("aten.rand", "aten.rand_like")
def _rand(r: Request) -> Tensor:
    return of.uniform(r.place, "number", _real(r, parts=True), r.device)


@draws("aten.randn", "aten.randn_like")
def _randn(r: Request) -> Tensor:
    return of.normal(r.place, "number", _real(r, parts=True), r.device)


@draws("aten.randint", "aten.randint.low", "aten.randint_like", "aten.randint_like.low_dtype")
def _randint(r: Request) -> Tensor:
    low, high = (int(r.attrs.get(name, 0)) for name in ("low", "high"))  # type: ignore[arg-type]
    r.expect(low < high, f"low has to be less than high; they are {low} and {high}")
    return of.integers(r.place, "number", low, high, r.device).to(r.dtype)


@draws("aten.uniform")
def _uniform(r: Request) -> Tensor:
    low, high = r.number("from"), r.number("to")
    r.expect(low <= high, f"from has to be at most to; they are {low} and {high}")
    return _between(of.uniform(r.place, "number", _real(r, parts=True), r.device), low, high)


def _between(u: Tensor, low: float, high: float) -> Tensor:
    """From [0, 1) to [low, high); what is rounded to `high` becomes `low`."""
    if u.is_complex():
        return torch.view_as_complex(_between(torch.view_as_real(u), low, high))
    wide = of.wide(u.dtype)
    value = (u.to(wide) * (high - low)).add_(low).to(u.dtype)
    return value.masked_fill_(value.to(wide) >= high, low)


def _normals(r: Request, name: str, std: float | Tensor, mean: float | Tensor) -> Tensor:
    dtype = _real(r, parts=True)
    return of.normal(r.place, name, of.wide(dtype), r.device).mul_(std).add_(mean).to(dtype)


@draws("aten.normal_functional")
def _normal(r: Request) -> Tensor:
    mean, std = r.number("mean"), r.number("std")
    r.expect(std >= 0, f"std has to be 0 or more; it is {std}")
    return _normals(r, "number", std, mean)


@draws("aten.exponential")
def _exponential(r: Request) -> Tensor:
    rate = r.number("lambd")
    r.expect(rate > 0, f"lambd has to be more than 0; it is {rate}")
    value = of.exponential(r.place, "number", r.device).mul_(1 / rate)
    return of.rounded(value, _real(r))


@draws("aten.log_normal")
def _log_normal(r: Request) -> Tensor:
    mean, std = r.number("mean"), r.number("std")
    r.expect(std > 0, f"std has to be more than 0; it is {std}")
    z = of.normal(r.place, "number", torch.float64, r.device)
    return of.rounded(exp(z.mul_(std).add_(mean)), _real(r))


@draws("aten.cauchy")
def _cauchy(r: Request) -> Tensor:
    median, sigma = r.number("median"), r.number("sigma")
    r.expect(sigma > 0, f"sigma has to be more than 0; it is {sigma}")
    u = of.inner_uniform(r.place, "number", r.device)
    cosine, sine = cos_sin(u.sub_(0.5).mul_(0.5))
    return of.rounded((sine / cosine).mul_(sigma).add_(median), _real(r))


@draws("aten.geometric")
def _geometric(r: Request) -> Tensor:
    p = r.number("p")
    r.expect(0 < p < 1, f"p has to be between 0 and 1; it is {p}")
    u = of.inner_uniform(r.place, "number", r.device)
    return of.rounded(log(u).mul_(1 / log1p(-p)).ceil_(), r.dtype)


@draws("aten.poisson")
def _poisson(r: Request) -> Tensor:
    r.expect(r.x >= 0, "every rate has to be 0 or more")
    return of.rounded(of.poisson(r.place, "number", r.x.to(torch.float64)), _real(r))


@draws("aten._standard_gamma")
def _gamma(r: Request) -> Tensor:
    least = torch.finfo(_real(r)).tiny
    value = of.gamma(r.place, "number", r.x.to(torch.float64))
    return of.rounded(value, r.dtype).clamp_min_(least)


# -- numbers and tensors ------------------------------------------------------------------------


@draws("aten.normal.Tensor_float")
def _normal_around(r: Request) -> Tensor:
    std = r.number("std")
    r.expect(std >= 0, f"std has to be 0 or more; it is {std}")
    return _normals(r, "normal", std, r.x)


@draws("aten.normal.float_Tensor")
def _normal_as_wide(r: Request) -> Tensor:
    r.expect(r.x >= 0, "every std has to be 0 or more")
    return _normals(r, "normal", r.x, r.number("mean"))


@draws("aten.normal.Tensor_Tensor")
def _normal_of_tensors(r: Request) -> Tensor:
    std = r.beside(1)
    r.expect(std >= 0, "every std has to be 0 or more")
    return _normals(r, "normal", std, r.x)


@draws("aten.bernoulli")
def _bernoulli(r: Request) -> Tensor:
    p = r.x
    r.expect((p >= 0) & (p <= 1), "every probability has to be between 0 and 1")
    wide = torch.float64 if _real(r) == torch.float64 else torch.float32
    return (of.uniform(r.place, "uniform", wide, r.device) < p).to(p.dtype)


@draws("aten.bernoulli.p")
def _bernoulli_of(r: Request) -> Tensor:
    return of.below(r.place, "uniform", _probability(r), r.device).to(r.dtype)


def _probability(r: Request) -> float:
    p = r.number("p")
    r.expect(0 <= p <= 1, f"p has to be between 0 and 1; it is {p}")
    return p


@draws("aten.native_dropout")
def _dropout(r: Request) -> tuple[Tensor, ...]:
    if r.attrs["train"] is False:
        return r.x.clone(), torch.ones_like(r.x, dtype=torch.bool)
    p = _probability(r)
    kept = of.below(r.place, "uniform", p, r.device).logical_not_()
    return (r.x * kept).mul_(1 / (1 - p) if p < 1 else 0.0), kept


@draws("aten.rrelu_with_noise", "aten.rrelu_with_noise_functional")
def _rrelu(r: Request) -> tuple[Tensor, ...]:
    if not r.attrs["training"]:
        return call_kernel(r.op, r.inputs, r.attrs)
    low, high = r.number("lower"), r.number("upper")
    r.expect(low <= high, f"lower has to be at most upper; they are {low} and {high}")
    slope = _between(of.uniform(r.place, "slope", _real(r), r.device), low, high)
    slope.masked_fill_(r.x > 0, 1)
    result = r.x * slope
    return (result, slope) if r.op.endswith("_functional") else (result,)


# -- numbers that depend on each other ----------------------------------------------------------


@draws("aten.randperm")
def _permutation(r: Request) -> Tensor:
    keys = of.bits(r.place.with_last(r.place.shape[0]), "order", r.device)
    start, stop = r.place.box[0]
    dtype = to_dtype(r.attrs.get("dtype")) or torch.int64
    return keys.argsort(stable=True)[start:stop].to(dtype)


@draws("aten.multinomial")
def _samples(r: Request) -> Tensor:
    weights = r.given(0).to(torch.float64)
    if tuple(weights.shape[:-1]) != r.place.size[:-1]:
        raise r.misfit("tensor 0 has other rows")
    most = weights.amax(-1, keepdim=True)
    fits = (weights >= 0).all(-1, keepdim=True) & (most > 0) & most.isfinite()
    r.expect(fits, "every weight has to be finite and 0 or more, and one of each row more than 0")
    num_samples, (start, stop) = r.place.shape[-1], r.place.box[-1]
    if r.attrs["replacement"]:
        # Whole numbers, which add up to the same in any order.
        total = (weights / most).mul_(2.0**38).to(torch.int64).cumsum(-1)
        u = of.uniform(r.place, "number", torch.float64, r.device)
        aim = (u * total[..., -1:]).to(torch.int64).minimum(total[..., -1:] - 1)
        return torch.searchsorted(total, aim, right=True)
    count = weights.shape[-1]
    r.expect(num_samples <= count, f"there are {count} to choose from, fewer than {num_samples}")
    race = weights / of.exponential(r.place.with_last(count), "number", r.device)
    return race.argsort(stable=True, dim=-1, descending=True)[..., start:stop].contiguous()


@draws("aten._sample_dirichlet")
def _dirichlet(r: Request) -> Tensor:
    r.expect(r.place.last_is_whole, f"its last dim cannot be cut, and is in {list(r.place.box)}")
    least = torch.finfo(_real(r)).tiny
    shares = of.gamma(r.place, "number", r.x.to(torch.float64)).clamp_min(least)
    total = sum_last(shares) if shares.dim() else shares
    return of.rounded(shares / total, r.dtype)
