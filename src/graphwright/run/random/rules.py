"""What each random operator makes of the numbers of its box: a rule for each, see `draw`.

    @draws("mine.noise")
    def noise(r):                                        # a Request
        return r.x + distributions.normal(r.drawn, "number", r.dtype, r.device)

A name ("number", "uniform", "slope") is the one that the operator's description gives to `random`. A rule refuses the
attributes and values that the kernel refuses, and makes the dtypes that the kernel makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log1p

import torch
from torch import Tensor

from graphwright.aten import call_kernel, to_dtype
from graphwright.errors import InvalidCall
from graphwright.ir import Attr
from graphwright.run.random import distributions as of
from graphwright.run.random.elementary import cos_sin, exp, log, sum_last
from graphwright.run.random.philox import Drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a random operator, as a rule sees it."""

    op: str
    attrs: Mapping[str, Attr]
    inputs: tuple[Tensor | None, ...]
    drawn: Drawn
    device: torch.device

    @property
    def x(self) -> Tensor:
        """The first input, which lies beside the box."""
        return self.beside(0)

    def beside(self, number: int) -> Tensor:
        """An input that is a region of the same place as the box, or broadcasts to it."""
        found = self.given(number)
        pairs = zip(reversed(found.shape), reversed(self.drawn.size), strict=False)
        if found.dim() > len(self.drawn.size) or any(n not in (1, size) for n, size in pairs):
            raise self.misfit(f"tensor {number} does not broadcast to it")
        return found

    def given(self, number: int) -> Tensor:
        """An input of any shape."""
        found = self.inputs[number] if number < len(self.inputs) else None
        if found is None:
            raise InvalidCall(f"{self.op} needs tensor {number}, which is absent")
        return found

    def misfit(self, reason: str) -> InvalidCall:
        """The error for inputs that are not of the box."""
        shapes = ["absent" if t is None else str(list(t.shape)) for t in self.inputs]
        return InvalidCall(
            f"{self.op} (operator {self.drawn.operator}) cannot draw a box of size {list(self.drawn.size)} from inputs of "
            f"the shapes {', '.join(shapes) or 'none'}: {reason}. Give it the box's own region of each input"
        )

    def number(self, name: str) -> float:
        """An attribute that is a number."""
        return float(self.attrs[name])  # type: ignore[arg-type]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype asked for; otherwise that of the first input, otherwise PyTorch's default."""
        asked = to_dtype(self.attrs.get("dtype"))
        if asked is not None:
            return asked
        return self.given(0).dtype if self.inputs else torch.get_default_dtype()

    def expect(self, holds: bool | Tensor, what: str) -> None:
        """Refuse what the kernel would refuse; values on a GPU are checked there, without waiting for them."""
        if isinstance(holds, Tensor):
            if holds.device.type != "cpu":
                torch._assert_async(holds.all(), f"{self.op}: {what}")
                return
            holds = bool(holds.all())
        if not holds:
            raise InvalidCall(f"{self.op} (operator {self.drawn.operator}): {what}")


Rule = Callable[[Request], tuple[Tensor, ...]]

RULES: dict[str, Rule] = {}
"""By operator."""


def draws(*ops: str) -> Callable[[Callable[[Request], Tensor | tuple[Tensor, ...]]], Rule]:
    """Register the decorated function as the one that draws parts of `ops`."""

    def register(function: Callable[[Request], Tensor | tuple[Tensor, ...]]) -> Rule:
        def rule(request: Request) -> tuple[Tensor, ...]:
            made = function(request)
            return made if isinstance(made, tuple) else (made,)

        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


# -- any value will do ------------------------------------------------------------------------------


@draws(
    "aten.empty.memory_format", "aten.empty_strided", "aten.empty_permuted", "aten.empty_like", "aten.new_empty",
    "aten.new_empty_strided",
)  # fmt: skip
def _empty(r: Request) -> Tensor:
    return torch.zeros(r.drawn.size, dtype=r.dtype, device=r.device)


# -- one number for each element --------------------------------------------------------------------


def _real(r: Request, *, parts: bool = False) -> torch.dtype:
    """The dtype, of which there have to be fractions; `parts` allows complex numbers."""
    dtype = r.dtype
    fits = dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    r.expect(fits or (parts and dtype.is_complex), f"there are no such numbers of dtype {dtype}")
    return dtype


@draws("aten.rand", "aten.rand_like")
def _rand(r: Request) -> Tensor:
    return of.uniform(r.drawn, "number", _real(r, parts=True), r.device)


@draws("aten.randn", "aten.randn_like")
def _randn(r: Request) -> Tensor:
    return of.normal(r.drawn, "number", _real(r, parts=True), r.device)


@draws("aten.randint", "aten.randint.low", "aten.randint_like", "aten.randint_like.low_dtype")
def _randint(r: Request) -> Tensor:
    low, high = (int(r.attrs.get(name, 0)) for name in ("low", "high"))  # type: ignore[arg-type]
    r.expect(low < high, f"low has to be less than high; they are {low} and {high}")
    return of.integers(r.drawn, "number", low, high, r.device).to(r.dtype)


@draws("aten.uniform")
def _uniform(r: Request) -> Tensor:
    low, high = r.number("from"), r.number("to")
    r.expect(low <= high, f"from has to be at most to; they are {low} and {high}")
    return _between(of.uniform(r.drawn, "number", _real(r, parts=True), r.device), low, high)


def _between(u: Tensor, low: float, high: float) -> Tensor:
    """From [0, 1) to [low, high); what is rounded to `high` becomes `low`."""
    if u.is_complex():
        return torch.view_as_complex(_between(torch.view_as_real(u), low, high))
    wide = of.wide(u.dtype)
    value = (u.to(wide) * (high - low)).add_(low).to(u.dtype)
    return value.masked_fill_(value.to(wide) >= high, low)


def _normals(r: Request, name: str, std: float | Tensor, mean: float | Tensor) -> Tensor:
    dtype = _real(r, parts=True)
    return of.normal(r.drawn, name, of.wide(dtype), r.device).mul_(std).add_(mean).to(dtype)


@draws("aten.normal_functional")
def _normal(r: Request) -> Tensor:
    mean, std = r.number("mean"), r.number("std")
    r.expect(std >= 0, f"std has to be 0 or more; it is {std}")
    return _normals(r, "number", std, mean)


@draws("aten.exponential")
def _exponential(r: Request) -> Tensor:
    rate = r.number("lambd")
    r.expect(rate > 0, f"lambd has to be more than 0; it is {rate}")
    value = of.exponential(r.drawn, "number", r.device).mul_(1 / rate)
    return of.rounded(value, _real(r))


@draws("aten.log_normal")
def _log_normal(r: Request) -> Tensor:
    mean, std = r.number("mean"), r.number("std")
    r.expect(std > 0, f"std has to be more than 0; it is {std}")
    z = of.normal(r.drawn, "number", torch.float64, r.device)
    return of.rounded(exp(z.mul_(std).add_(mean)), _real(r))


@draws("aten.cauchy")
def _cauchy(r: Request) -> Tensor:
    median, sigma = r.number("median"), r.number("sigma")
    r.expect(sigma > 0, f"sigma has to be more than 0; it is {sigma}")
    u = of.inner_uniform(r.drawn, "number", r.device)
    cosine, sine = cos_sin(u.sub_(0.5).mul_(0.5))
    return of.rounded((sine / cosine).mul_(sigma).add_(median), _real(r))


@draws("aten.geometric")
def _geometric(r: Request) -> Tensor:
    p = r.number("p")
    r.expect(0 < p < 1, f"p has to be between 0 and 1; it is {p}")
    u = of.inner_uniform(r.drawn, "number", r.device)
    return of.rounded(log(u).mul_(1 / log1p(-p)).ceil_(), r.dtype)


@draws("aten.poisson")
def _poisson(r: Request) -> Tensor:
    r.expect(r.x >= 0, "every rate has to be 0 or more")
    return of.rounded(of.poisson(r.drawn, "number", r.x.to(torch.float64)), _real(r))


@draws("aten._standard_gamma")
def _gamma(r: Request) -> Tensor:
    least = torch.finfo(_real(r)).tiny
    value = of.gamma(r.drawn, "number", r.x.to(torch.float64))
    return of.rounded(value, r.dtype).clamp_min_(least)


# -- numbers and tensors ----------------------------------------------------------------------------


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
    return (of.uniform(r.drawn, "uniform", wide, r.device) < p).to(p.dtype)


@draws("aten.bernoulli.p")
def _bernoulli_of(r: Request) -> Tensor:
    return of.below(r.drawn, "uniform", _probability(r), r.device).to(r.dtype)


def _probability(r: Request) -> float:
    p = r.number("p")
    r.expect(0 <= p <= 1, f"p has to be between 0 and 1; it is {p}")
    return p


@draws("aten.native_dropout")
def _dropout(r: Request) -> tuple[Tensor, ...]:
    if r.attrs["train"] is False:
        return r.x.clone(), torch.ones_like(r.x, dtype=torch.bool)
    p = _probability(r)
    kept = of.below(r.drawn, "uniform", p, r.device).logical_not_()
    return (r.x * kept).mul_(1 / (1 - p) if p < 1 else 0.0), kept


@draws("aten.rrelu_with_noise", "aten.rrelu_with_noise_functional")
def _rrelu(r: Request) -> tuple[Tensor, ...]:
    if not r.attrs["training"]:
        return call_kernel(r.op, r.inputs, r.attrs)
    low, high = r.number("lower"), r.number("upper")
    r.expect(low <= high, f"lower has to be at most upper; they are {low} and {high}")
    slope = _between(of.uniform(r.drawn, "slope", _real(r), r.device), low, high)
    slope.masked_fill_(r.x > 0, 1)
    result = r.x * slope
    return (result, slope) if r.op.endswith("_functional") else (result,)


# -- numbers that depend on each other --------------------------------------------------------------


@draws("aten.randperm")
def _permutation(r: Request) -> Tensor:
    keys = of.bits(r.drawn.with_last(r.drawn.shape[0]), "order", r.device)
    start, stop = r.drawn.box[0]
    dtype = to_dtype(r.attrs.get("dtype")) or torch.int64
    return keys.argsort(stable=True)[start:stop].to(dtype)


@draws("aten.multinomial")
def _samples(r: Request) -> Tensor:
    weights = r.given(0).to(torch.float64)
    if tuple(weights.shape[:-1]) != r.drawn.size[:-1]:
        raise r.misfit("tensor 0 has other rows")
    most = weights.amax(-1, keepdim=True)
    fits = (weights >= 0).all(-1, keepdim=True) & (most > 0) & most.isfinite()
    r.expect(fits, "every weight has to be finite and 0 or more, and one of each row more than 0")
    num_samples, (start, stop) = r.drawn.shape[-1], r.drawn.box[-1]
    if r.attrs["replacement"]:
        # Whole numbers, which add up to the same in any order.
        total = (weights / most).mul_(2.0**38).to(torch.int64).cumsum(-1)
        u = of.uniform(r.drawn, "number", torch.float64, r.device)
        aim = (u * total[..., -1:]).to(torch.int64).minimum(total[..., -1:] - 1)
        return torch.searchsorted(total, aim, right=True)
    count = weights.shape[-1]
    r.expect(num_samples <= count, f"there are {count} to choose from, fewer than {num_samples}")
    race = weights / of.exponential(r.drawn.with_last(count), "number", r.device)
    return race.argsort(stable=True, dim=-1, descending=True)[..., start:stop].contiguous()


@draws("aten._sample_dirichlet")
def _dirichlet(r: Request) -> Tensor:
    r.expect(r.drawn.last_is_whole, f"its last dim cannot be cut, and is in {list(r.drawn.box)}")
    least = torch.finfo(_real(r)).tiny
    shares = of.gamma(r.drawn, "number", r.x.to(torch.float64)).clamp_min(least)
    total = sum_last(shares) if shares.dim() else shares
    return of.rounded(shares / total, r.dtype)
