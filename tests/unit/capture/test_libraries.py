"""What the models of transformers, diffusers, timm and torchtitan do, in small modules of our own."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import graphwright as gw
from eager import assert_trains_alike
from graphwright import capture, errors
from graphwright.capture import AssumedValues
from graphwright.partition import data_parallel, replicate

X = torch.linspace(-1, 1, 32, dtype=torch.float64).reshape(4, 8)
EXACT = 1e-12


def squares(out: Any, _: Any) -> Tensor:
    return out.square().mean()


class Function(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(8, 8, dtype=torch.float64), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


# -- asking whether it is compiled ---------------------------------------------------------------------


class Masked(nn.Module):
    """Looks at its mask only if nobody compiles it, as transformers' models do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and not torch._dynamo.is_compiling() and mask.all():
            return self.linear(x)
        assert not torch.jit.is_tracing() and not torch.compiler.is_exporting()
        return self.linear(x) * mask


@pytest.mark.parametrize("visible", [torch.ones(4, 1), torch.tensor([[1], [0], [1], [1]])])
def test_a_model_that_asks_hears_that_it_is_compiled(visible: Tensor) -> None:
    assert_trains_alike(Masked(), squares, ((X, visible.double()), ()), None, tolerance=EXACT)
    assert not torch.compiler.is_compiling()


def test_frames_after_an_exception_that_a_model_catches() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError

    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.fails = nn.Linear(8, 8), Fails()

        def forward(self, x: Tensor) -> Tensor:
            try:
                x = self.fails(x)
            except ValueError:
                x = self.inner(x)
            return x

    model = nn.Sequential(Tries(), nn.Linear(8, 8))
    graph = capture.capture(model, squares, (X.float(), ()))
    modules = [node.module for node in graph.nodes if node.op == "aten.mm" and node.partner is None]
    assert modules == ["0.inner", "1"]


# -- questions with one answer -------------------------------------------------------------------------


class LayerDrop(nn.Module):
    def __init__(self, probability: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8, dtype=torch.float64) for _ in range(2))
        self.layerdrop = probability

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            dropout_probability = torch.rand([])
            skip = self.training and dropout_probability < self.layerdrop
            if not skip:
                x = layer(x)
        return x


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_layer_drop_that_is_off_or_sure(probability: float) -> None:
    model = nn.Sequential(nn.Linear(8, 8, dtype=torch.float64), LayerDrop(probability))
    graph = assert_trains_alike(model, squares, (X, ()), None, tolerance=EXACT)
    used = {name for node in graph.nodes for name in node.inputs if name}
    assert ("1.layers.0.weight" in used) == (probability == 0)


def test_layer_drop_names_the_attribute_to_set() -> None:
    model = nn.Sequential(nn.Linear(8, 8, dtype=torch.float64), LayerDrop(0.1))
    with pytest.raises(errors.DataDependentControlFlow, match=r"set model\.1\.layerdrop = 0\.0"):
        capture.capture(model, squares, (X, ()))


def asserted(y: Tensor) -> Tensor:
    assert not torch.any(y > 1e6).item(), "too large"
    assert torch.all(y < 1e6), "too large"
    if (y > 1e6).any():
        raise ValueError("too large")
    return y


def finite(y: Tensor) -> Tensor:
    if not torch.isfinite(y).all():
        y = y.clamp(-1e3, 1e3)
    if torch.isnan(y).any() or torch.isinf(y).any():
        y = y * 0
    return y * 2


def numbered(y: Tensor) -> Tensor:
    limit = 1000
    assert y.max().item() <= limit
    assert int(y.detach().argmax()) < y.shape[0] * limit
    if float(y.detach().min()) <= -1e3:
        raise ValueError("too small")
    if y.sum().item() == limit:
        raise ValueError("a sum that is not allowed")
    if (y < 1e6).all():
        y = y * 2
    else:
        raise ValueError("too large")
    return y


def distributed(y: Tensor) -> Tensor:
    return torch.distributions.Normal(y, y.exp(), validate_args=True).log_prob(y + 1)


@pytest.mark.parametrize("function", [asserted, finite, numbered, distributed])
def test_checks_of_values_are_taken_to_pass(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.warns(AssumedValues, match=r"test_libraries\.py:\d+"):
        assert_trains_alike(Function(function), squares, (X, ()), None, tolerance=EXACT)


def scaled(y: Tensor) -> Tensor:
    assert y.max().item() * 2 <= 1e6
    return y


def between(y: Tensor) -> Tensor:
    assert -1e6 < y.max().item() <= 1e6
    return y


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y * 2 if (y > 0).all() else y,
        lambda y: y * 2 if torch.rand(()) < 0.5 else y,
        lambda y: y * y.max().item(),
        scaled,
        between,
    ],
)
def test_other_questions_are_errors(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(errors.DataDependentControlFlow):
        capture.capture(Function(function), squares, (X, ()))


# -- batches and losses as libraries have them ---------------------------------------------------------


@dataclass
class Output(OrderedDict[str, Any]):
    """As transformers' outputs: a dataclass that is a mapping too."""

    loss: Tensor | None = None
    logits: Tensor | None = None

    def __post_init__(self) -> None:
        self["loss"], self["logits"] = self.loss, self.logits


class Labelled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3, dtype=torch.float64)

    def forward(self, x: Tensor, labels: Tensor | None = None, extra: Any = None) -> Output:
        logits = self.linear(x)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return Output(loss=loss, logits=logits)


LABELS = torch.tensor([0, 1, 2, 1])


@pytest.mark.parametrize(
    "batch",
    [
        {"x": X, "labels": LABELS, "extra": {"note": "kept"}},
        UserDict({"x": X, "labels": LABELS}),
        OrderedDict({"labels": LABELS, "x": X}),
        (X, LABELS),
    ],
    ids=["dict", "BatchEncoding", "OrderedDict", "tuple"],
)
def test_a_model_with_its_own_loss_needs_no_wrapper(batch: Any) -> None:
    graph = assert_trains_alike(Labelled(), None, batch, torch.optim.Adam, tolerance=EXACT)
    assert graph.outputs[0] == "loss"


def test_a_compiled_step_takes_the_same_batches() -> None:
    batch, model = UserDict({"x": X, "labels": LABELS}), Labelled()
    eager, options = copy.deepcopy(model), {"lr": 0.1}
    sgd = torch.optim.SGD
    graph = capture.capture(model, None, batch, optimizer=sgd, optimizer_options=options)
    plan = replicate(graph, "local:1")
    step = gw.compile(plan, model, None, sgd, batch=batch, optimizer_options=options, device="cpu")
    optimizer = sgd(eager.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        loss = eager(**batch).loss
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), loss.detach())
    torch.testing.assert_close(step.gather().state_dict(), eager.state_dict())


def test_a_compiled_step_with_a_complex_buffer() -> None:
    model, x = Rotary("buffer"), torch.rand(2, 6, 8, dtype=torch.float64)
    expected, before = squares(model(x), ()).detach(), model.freqs_cis.clone()
    graph = capture.capture(model, squares, (x, ()), optimizer=torch.optim.SGD)
    plan = replicate(graph, "local:1")
    step = gw.compile(plan, model, squares, torch.optim.SGD, graph=graph, device="cpu")
    torch.testing.assert_close(step((x, ())), expected)
    torch.testing.assert_close(step.gather().freqs_cis, before, rtol=0, atol=0)


class Pair(NamedTuple):
    x: Tensor
    scale: Tensor


@dataclass(frozen=True, slots=True)
class Sample:
    x: Tensor
    inner: Pair
    name: str = "sample"


class OfSample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, sample: Sample) -> Tensor:
        assert type(sample) is Sample and type(sample.inner) is Pair and sample.name == "mine"
        return self.linear(sample.x) * sample.inner.scale + sample.inner.x


def test_a_batch_of_dataclasses_and_named_tuples() -> None:
    sample = Sample(X, Pair(X * 2, X + 1), "mine")
    graph = assert_trains_alike(OfSample(), squares, (sample, ()), None, tolerance=EXACT)
    assert {"inputs.x", "inputs.inner.x", "inputs.inner.scale"} <= set(graph.inputs)


class Table(nn.Module):
    """Makes a table for the shape of its input, as timm's ConViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.float64)
        self.register_buffer("table", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.table.shape != x.shape:
            self.table = torch.arange(x.numel()).reshape(x.shape) * 0.5
        return self.linear(x) * self.table


def test_a_buffer_that_the_first_step_makes() -> None:
    model = Table()
    graph = capture.capture(model, squares, (X, ()))
    made = capture.replay(graph, capture.bind(graph, model, (X, ())))
    assert "table" not in graph.updates and model.table.shape == (1,)
    torch.testing.assert_close(made["loss"], squares(model(X), ()).detach())


# -- operators -----------------------------------------------------------------------------------------


def experts(y: Tensor) -> Tensor:
    """A mixture of experts as transformers computes it: sorted tokens, one product for each group."""
    scores, chosen = y.softmax(-1).topk(2)
    _, order = chosen.reshape(-1).sort(stable=True)
    counts = torch.histc(chosen.reshape(-1).float(), bins=8, min=0, max=7)
    ends = counts.cumsum(0, dtype=torch.int32)
    rows = y[order // 2]
    weights = y.reshape(1, 4, 8).expand(8, 4, 8)[:, :, :4].contiguous()
    made = torch.ops.aten._grouped_mm(rows[:, :4].contiguous(), weights, ends)
    return made * scores.reshape(-1)[order].unsqueeze(-1)


def experts_one_by_one(y: Tensor) -> Tensor:
    scores, chosen = y.softmax(-1).topk(2)
    _, order = chosen.reshape(-1).sort(stable=True)
    groups = chosen.reshape(-1)[order]
    rows = y[order // 2]
    weights = y.reshape(1, 4, 8).expand(8, 4, 8)[:, :, :4]
    made = torch.stack([row[:4] @ weights[int(g)] for row, g in zip(rows, groups, strict=True)])
    return made * scores.reshape(-1)[order].unsqueeze(-1)


@pytest.mark.filterwarnings("ignore:no description")
def test_a_mixture_of_experts_in_float64() -> None:
    """PyTorch's own grouped product takes no float64, so one product for each row is the reference."""
    grouped, plain = Function(experts), Function(experts_one_by_one)
    plain.load_state_dict(grouped.state_dict())
    graph = capture.capture(grouped, squares, (X, ()))
    made = capture.replay(graph, capture.bind(graph, grouped, (X, ())))
    loss = squares(plain(X), ())
    loss.backward()
    torch.testing.assert_close(made["loss"], loss.detach(), rtol=EXACT, atol=0)
    assert plain.linear.weight.grad is not None
    torch.testing.assert_close(made["linear.weight.grad"], plain.linear.weight.grad)
    assert sum(node.op.startswith("graphwright.grouped_mm") for node in graph.nodes) == 3


def test_division_of_a_tensor_by_a_number_and_of_a_number_plus_a_tensor() -> None:
    indices = torch.arange(8)
    model = Function(lambda y: torch.add(0.25, y[:, indices // 2], alpha=3) * (y.detach() // 0.1))
    assert_trains_alike(model, squares, (X, ()), None, tolerance=EXACT)


@pytest.mark.parametrize("options", [
    {"padding": "valid"}, {"padding": "same"}, {"padding": "valid", "stride": (2,)},
    {"stride": (2,), "padding": (1,), "dilation": (2,)},
])  # fmt: skip
@pytest.mark.parametrize("rank", [2, 3])
def test_one_number_for_all_dims_of_a_convolution(rank: int, options: dict[str, Any]) -> None:
    convolution = {2: nn.Conv2d, 3: nn.Conv3d}[rank](2, 3, 3, **options).double()
    x = torch.rand(2, 2, *[7] * rank, dtype=torch.float64)
    graph = assert_trains_alike(convolution, squares, (x, ()), None, tolerance=EXACT)
    node = next(node for node in graph.nodes if node.op == "aten.convolution")
    assert all(len(node.attrs[n]) == rank for n in ("stride", "padding", "dilation"))  # type: ignore[arg-type]
    data_parallel(graph, "local:2")


def test_one_number_for_all_dims_of_a_pool() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1, dtype=torch.float64), nn.AvgPool2d((2,), (2,), (1,)))
    x = torch.rand(2, 1, 6, 6, dtype=torch.float64)
    graph = assert_trains_alike(model, squares, (x, ()), None, tolerance=EXACT)
    pool = next(node for node in graph.nodes if node.op == "aten.avg_pool2d")
    assert pool.attrs["kernel_size"] == (2, 2) and pool.attrs["padding"] == (1, 1)


# -- complex numbers -----------------------------------------------------------------------------------


def rotations(length: int, width: int) -> Tensor:
    powers = 1 / 1e4 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(length), powers)
    return torch.polar(torch.ones_like(angles), angles)


class Rotary(nn.Module):
    """Rotary embeddings as Meta's and torchtitan's Llama have them."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.float64)
        if where == "buffer":
            self.register_buffer("freqs_cis", rotations(6, 8), persistent=False)
        elif where in ("attribute", "long attribute"):
            self.freqs_cis = rotations(6 if where == "attribute" else 1100, 8)

    def forward(self, x: Tensor) -> Tensor:
        turns = self.freqs_cis if hasattr(self, "freqs_cis") else rotations(x.shape[1], 8)
        query = torch.view_as_complex(self.linear(x).reshape(*x.shape[:-1], -1, 2))
        if turns.shape[0] == 1100:
            turns = turns[: x.shape[1]]
        return torch.view_as_real(query * turns.view(1, *turns.shape)).flatten(2)


@pytest.mark.parametrize("where", ["buffer", "attribute", "long attribute", "inside"])
def test_rotary_embeddings_stay_real(where: str) -> None:
    x = torch.rand(2, 6, 8, dtype=torch.float64)
    graph = assert_trains_alike(Rotary(where), squares, (x, ()), None, tolerance=EXACT)
    assert not any("complex" in tensor.type.dtype for tensor in graph.tensors.values())


def products(y: Tensor) -> Tensor:
    c = torch.complex(y, y.flip(1)) + 1
    d = torch.cat([c, c.conj()], 1)[:, ::2].transpose(0, 1)
    return (d * (2 - 1j) / d.abs() @ (d / (c.T + 3)).T).real + (d.sum(1, keepdim=True)).imag


def functions(y: Tensor) -> Tensor:
    c = torch.complex(y, y.flip(1)) + 1
    powers = c**1 + c**2 + c**1.5 + c**0 + c.sqrt() + 1 / c
    return (powers * c.log() + c.cos() + c.sin()).real + c.angle() + c.sgn().imag


def choices(y: Tensor) -> Tensor:
    c = torch.complex(y, y.flip(1)) + torch.full((), 1j, dtype=torch.complex128)
    c = torch.where(c == 1j, 1, c).masked_fill(c.real > 0.9, 2 + 1j)
    c = torch.where(c.isnan() | (c != c), 0, F.pad(c, (1, 1), value=3.0)[:, 1:-1])
    rows = torch.nn.utils.rnn.pad_sequence([c[0], c[1, :3]], padding_value=1.0)
    return c.cumsum(1).imag + (rows * 1j).real.sum()


@pytest.mark.parametrize(
    "function",
    [
        functions,
        choices,
        lambda y: torch.fft.fftn(y, dim=(0, 1)).real,
        lambda y: torch.fft.irfft(torch.fft.rfft(y) * (1 + 2j), n=8),
        lambda y: torch.exp(1j * y).imag,
        products,
    ],
    ids=["functions", "choices", "fft", "rfft", "exp", "products"],
)
@pytest.mark.filterwarnings("ignore:no description")
def test_complex_arithmetic(function: Callable[[Tensor], Tensor]) -> None:
    graph = assert_trains_alike(Function(function), squares, (X, ()), None, tolerance=1e-10)
    assert not any("complex" in tensor.type.dtype for tensor in graph.tensors.values())
