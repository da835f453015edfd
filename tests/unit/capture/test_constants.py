"""Tensors that a step reads beside parameters and batch, and values that are the same in every step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import graphwright as gw
from eager import assert_trains_alike
from graphwright import errors
from graphwright.ir import Role
from graphwright.partition import replicate

X = torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(8, 8)
TARGETS = torch.linspace(0, 1, 8 * 80, dtype=torch.float64).reshape(8, 80)
TABLE = torch.linspace(-1, 1, 80 * 80, dtype=torch.float64).reshape(
    80, 80
)  # too large to be written
EXACT = 1e-12


def squares(out: Tensor, _: object) -> Tensor:
    return out.square().mean()


def constants(graph: gw.Graph) -> set[str]:
    return {name for name in graph.inputs if graph.tensors[name].role is Role.CONSTANT}


class Function(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(8, 8, dtype=torch.float64), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


# -- large constants -----------------------------------------------------------------------------------


def project(out: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(out @ TABLE, targets)


class Projecting:
    def __init__(self) -> None:
        self.table = TABLE

    def __call__(self, out: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(out @ self.table, targets)

    def method(self, out: Tensor, targets: Tensor) -> Tensor:
        return self(out, targets)


class ProjectingModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = TABLE

    def forward(self, out: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(out @ self.table, targets)


def closing_over(table: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda out, targets: F.mse_loss(out @ table, targets)


def projected_by(table: Tensor, out: Tensor, targets: Tensor, *, bias: Tensor) -> Tensor:
    return F.mse_loss(out @ table + bias, targets)


@pytest.mark.parametrize(
    ("loss_fn", "names"),
    [
        (project, {"loss_fn.TABLE"}),
        (closing_over(TABLE), {"loss_fn.table"}),
        (Projecting(), {"loss_fn.table"}),
        (Projecting().method, {"loss_fn.table"}),
        (ProjectingModule(), {"loss_fn.table"}),
        (partial(projected_by, TABLE, bias=TABLE[:1]), {"loss_fn.0"}),
    ],
)
def test_what_a_loss_reads_is_found_again(
    loss_fn: Callable[[Tensor, Tensor], Tensor], names: set[str]
) -> None:
    model = nn.Linear(8, 80, dtype=torch.float64)
    graph = assert_trains_alike(model, loss_fn, (X, TARGETS), torch.optim.SGD, tolerance=EXACT)
    assert constants(graph) == names


def test_a_step_has_what_its_loss_reads() -> None:
    model, batch, sgd = nn.Linear(8, 80, dtype=torch.float64), (X, TARGETS), torch.optim.SGD
    graph = gw.capture(model, project, batch, optimizer=sgd)
    step = gw.compile(replicate(graph, "local:1"), model, project, sgd, batch=batch, device="cpu")
    assert step(batch).item() == pytest.approx(project(model(X), TARGETS).item())


class Tabled(nn.Module):
    """Reads a part of a table that is neither parameter nor buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.table = nn.Linear(8, 80, dtype=torch.float64), TABLE

    def forward(self, x: Tensor) -> Tensor:
        whole = self.table.t() * 2
        return self.linear(x) + whole[: len(x)] + (x.sum() * whole).mean(0)


def test_what_is_computed_from_a_table_is_computed_in_the_graph() -> None:
    graph = assert_trains_alike(Tabled(), squares, (X, ()), torch.optim.SGD, tolerance=EXACT)
    assert constants(graph) == {"table"}


@pytest.mark.parametrize("trained", [False, True])
def test_distillation_from_a_teacher_that_the_loss_reads(trained: bool) -> None:
    teacher = nn.Sequential(nn.Linear(8, 80), nn.ReLU(), nn.Linear(80, 80)).double()
    teacher.requires_grad_(trained)

    def distil(out: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = teacher(x)
        return F.mse_loss(out, wanted)

    model = nn.Linear(8, 80, dtype=torch.float64)
    graph = assert_trains_alike(model, distil, (X, X), torch.optim.SGD, tolerance=EXACT)
    assert constants(graph) == {"loss_fn.teacher.2.weight"}


def test_a_constant_without_a_name_says_what_to_do() -> None:
    tables = [TABLE]
    model, batch = nn.Linear(8, 80, dtype=torch.float64), (X, TARGETS)

    def loss_fn(out: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(out @ tables[0], targets)

    plan = replicate(gw.capture(model, loss_fn, batch), "local:1")
    with pytest.raises(
        errors.NoInitialValue, match=r"constants\.0 .*float64\[80, 80\].*register_buffer"
    ):
        gw.compile(plan, model, loss_fn, batch=batch, device="cpu")


# -- values that nothing decides -----------------------------------------------------------------------


def others(y: Tensor) -> Tensor:
    """As contrastive losses leave out what is compared with itself."""
    n = len(y)
    scores = y @ y.t()
    return scores[~torch.eye(n, dtype=torch.bool)].reshape(n, n - 1)


def pairs(y: Tensor) -> Tensor:
    above = torch.ones(len(y), len(y)).triu(1).nonzero()
    return (y[above[:, 0]] * y[above[:, 1]]).sum(-1)


def selected(y: Tensor) -> Tensor:
    return (y @ y.t()).masked_select(torch.ones(len(y), len(y), dtype=torch.bool).tril())


def assigned(y: Tensor) -> Tensor:
    y = y.clone()
    y[torch.arange(y.shape[1]).expand_as(y) % 3 == 0] = y[:, :3].reshape(-1)
    return y


def repeated(y: Tensor) -> Tensor:
    return y.repeat_interleave(torch.arange(len(y)), dim=0)


def asked(y: Tensor) -> Tensor:
    if torch.ones(3).sum() > 2 and torch.arange(4).max().item() == 3:
        y = y * torch.linspace(0, 1, 5)[2].item()
    return y * torch.ones(3).cumsum(0).tolist()[2]


@pytest.mark.parametrize("function", [others, pairs, selected, assigned, repeated, asked])
def test_values_that_nothing_decides_are_known(function: Callable[[Tensor], Tensor]) -> None:
    assert_trains_alike(Function(function), squares, (X, ()), torch.optim.SGD, tolerance=EXACT)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y[y > 0],
        lambda y: y[torch.rand(8, 8) > 0.5],
        lambda y: y * (torch.rand(()) + torch.ones(())).item(),
    ],
)
def test_values_that_a_step_decides_are_not(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises((errors.DataDependentControlFlow, errors.DynamicShapeOperator)):
        gw.capture(Function(function), squares, (X, ()))


class Encoder(nn.Module):
    """PyTorch's encoder looks whether its mask is causal, which this one makes from shapes."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1).double()

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.encoder(x, mask=mask)


def test_a_layer_that_looks_at_a_mask_made_from_shapes() -> None:
    x = X.reshape(2, 4, 8)
    assert_trains_alike(Encoder(), F.mse_loss, (x, x), torch.optim.SGD, tolerance=1e-9)


# -- a compiled model ----------------------------------------------------------------------------------


def test_a_model_that_is_to_be_compiled_has_the_names_of_the_eager_one() -> None:
    model = torch.compile(nn.Linear(8, 80, dtype=torch.float64), backend="eager")
    batch = X, TARGETS
    graph = gw.capture(model, F.mse_loss, batch, optimizer=torch.optim.Adam)
    plan = replicate(graph, "local:1")
    step = gw.compile(plan, model, F.mse_loss, torch.optim.Adam, batch=batch, device="cpu")
    assert step(batch).item() == pytest.approx(F.mse_loss(model._orig_mod(X), TARGETS).item())
    before = model._orig_mod.weight.detach().clone()
    assert not torch.equal(step.gather().weight, before)
    assert model._orig_mod.weight is step.gather().weight
