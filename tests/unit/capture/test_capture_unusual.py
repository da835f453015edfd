"""Less common code that ordinary models contain all the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import eager
from graphwright import capture
from graphwright.ir import Phase

pytestmark = pytest.mark.filterwarnings("ignore:no description")

TABLE = torch.linspace(0, 1, 6, dtype=torch.float64)
INDEX = torch.tensor([2, 0, 1])


class Apply(nn.Module):
    """A linear layer, then a function of its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.fc(x))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def scratch(x: Tensor) -> Tensor:
    mask = TABLE.clone()
    mask[0] = 5.0
    mask.mul_(2)
    return x * mask


def accumulate(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    out[:2] = x[:2] * 2
    out[2:] = x[2:].sin()
    out[:, 1] += out[:, 0]
    return out.t().contiguous().t()


def keep_products(_ctx: object, op: object, *_args: object, **_kwargs: object) -> CheckpointPolicy:
    wanted = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if op in wanted else CheckpointPolicy.PREFER_RECOMPUTE


def selective(x: Tensor) -> Tensor:
    contexts = partial(create_selective_checkpoint_contexts, keep_products)
    return checkpoint(
        lambda y: (y.sin() @ y.t()).cos() @ y, x, use_reentrant=False, context_fn=contexts
    )


def penalty(x: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
    return x + slope * slope


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "custom function": Cube.apply,
    "scratch space from constants": scratch,
    "pieces written in place": accumulate,
    "selective checkpointing": selective,
    "gradient of a gradient": penalty,
    "index by a constant": lambda x: x[:, INDEX],
    "index by two tensors": lambda x: x[INDEX, INDEX + 1].unsqueeze(0),
    "advanced write": lambda x: x.index_put((INDEX,), TABLE, accumulate=True),
    "where and masks": lambda x: torch.where(x > 0, x, x.exp() - 1).masked_fill(x > 2, 0.5),
    "cumulative": lambda x: x.cumsum(-1) + x.flip(0),
    "top": lambda x: x.topk(3, -1).values + x.sort(-1, descending=True)[0][:, :3],
    "maximum over a dim": lambda x: x.max(-2).values + x.amin(-1).sum() + x.argmax(-1).sum(),
    "einsum": lambda x: torch.einsum("ij,kj,k->ik", x, x, TABLE[:4]),
    "interpolation": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear")[0, 0],
    "unfold": lambda x: F.unfold(x[None, None], 2).flatten(1),
    "pad and roll": lambda x: F.pad(x, (1, 2), "reflect").roll(2, -1)[:, -6:],
    "one hot": lambda x: x * F.one_hot(INDEX[[0, 1, 2, 0]], 6),
    "scatter": lambda x: torch.zeros(4, 8, dtype=x.dtype).scatter_add(1, x.detach().long() % 8, x),
    "repeat": lambda x: x.repeat(1, 2) + x.repeat_interleave(2, 1) + x.tile(2),
    "activations": lambda x: F.silu(x) + F.gelu(x, approximate="tanh") + F.mish(x) + F.elu(x),
    "more activations": lambda x: (
        F.softplus(x) + F.leaky_relu(x, 0.1) + F.hardswish(x) + F.glu(x.repeat(1, 2), -1)
    ),
    "random numbers": lambda x: (
        x + torch.rand_like(x) + torch.randn(6, dtype=x.dtype) + torch.randint(3, (6,))
    ),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3),
    "number from a constant": lambda x: x * torch.tensor(3.0).item() + INDEX.shape[0],
    "detached and without gradients": lambda x: x + x.detach() * 2,
    "cdist": lambda x: torch.cdist(x, x * 2 + 1),
    "inverse": lambda x: torch.linalg.inv(x @ x.t() + torch.eye(4, dtype=x.dtype)),
    "embedding bag": lambda x: x + F.embedding_bag(INDEX[None], x, mode="sum"),
    "stack and unbind": lambda x: torch.stack([*x.unbind(0), x.sum(0)], -1).movedim(-1, 0),
    "type changes": lambda x: x.float().half().double() + (x > 0).to(x.dtype) + x.int(),
    "squeezes": lambda x: x[None, :, None].squeeze().unsqueeze(-1).squeeze((0, 2)),
    "broadcast": lambda x: x.expand(2, 4, 6).transpose(0, 2).reshape(4, -1)[:, :6],
    "diagonal": lambda x: x.diagonal(0, -2, -1).outer(TABLE) + x.tril().triu(-1),
    "distances of columns": lambda x: F.pdist(x.t()),
    "checks switched off": lambda x: torch.distributions.Normal(
        x.tanh(), x.sigmoid() + 1, validate_args=False
    ).log_prob(TABLE),
    "prod and any": lambda x: x.prod(-1, keepdim=True) + x.count_nonzero() + (x > 0).any(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_trains_alike(name: str) -> None:
    torch.manual_seed(0)
    model = Apply(FUNCTIONS[name]).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    with torch.enable_grad():
        shape = model(x).shape
    weights = torch.rand(shape, dtype=torch.float64)
    eager.assert_trains_alike(
        model, lambda y, w: (y * w).sum(), (x, weights), torch.optim.SGD, {"lr": 0.01}
    )


def test_parametrized_weights_and_hooks() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(6, 6)),
        parametrizations.spectral_norm(nn.Linear(6, 6)),
    ).double()
    seen: list[int] = []
    model[0].register_forward_hook(lambda _m, _a, y: (seen.append(1), y * 2)[1])
    batch = (torch.randn(4, 6, dtype=torch.float64), torch.randint(6, (4,)))
    graph = eager.assert_trains_alike(model, F.cross_entropy, batch, torch.optim.SGD, {"lr": 0.01})
    assert any("_u" in name for name in graph.updates)  # the power iteration's vectors
    assert len(model[0]._forward_hooks) == 1
    assert seen


def test_cached_tensors_do_not_stay_behind() -> None:
    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 6)
            self.cache: dict[int, Tensor] = {}
            self.positions: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.positions is None:
                self.positions = torch.arange(6, dtype=x.dtype)
                self.cache[6] = self.positions
            return self.fc(x) + self.cache[6]

    model = Caching()
    capture.capture(model, F.cross_entropy, (torch.randn(4, 6), torch.randint(6, (4,))))
    assert model.positions is None
    assert model.cache == {}


def test_meta_and_real_models_give_the_same_graph() -> None:
    def make(device: str) -> Any:
        with torch.device(device):
            model = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)
            )
            batch = (torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.int64))
        return capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)

    assert make("meta").hash == make("cpu").hash


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compiled_module_is_unwrapped() -> None:
    model = nn.Linear(4, 3)
    assert capture.capture(torch.compile(model), inputs=torch.zeros(2, 4)) == capture.capture(
        model, inputs=torch.zeros(2, 4)
    )


def test_package_is_callable() -> None:
    assert capture(nn.Linear(4, 3), inputs=torch.zeros(2, 4)).outputs == ("output.0",)


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.loss = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.loss


def batch_of(seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.randn(4, 6, dtype=torch.float64), torch.randint(6, (4,))


def test_a_parameter_called_loss_keeps_its_name() -> None:
    graph = capture.capture(
        Reading().double(), F.cross_entropy, batch_of(), optimizer=torch.optim.SGD
    )
    assert graph.outputs[0] == "loss.result"
    assert graph.updates["loss"] == "loss.new"
    assert not [node for node in graph.nodes if node.op == "aten.clone"]


def test_hooks_of_parameters_are_part_of_the_step() -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)).double()
        model[0].weight.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
        model[0].weight.register_hook(lambda grad: grad * 3)
        model[1].bias.register_hook(lambda grad: None)
        return model

    model, trained, batch = make(), make(), batch_of()
    graph = capture.capture(model, F.cross_entropy, batch)
    F.cross_entropy(trained(batch[0]), batch[1]).backward()
    outputs = capture.replay(graph, capture.bind(graph, model, batch))
    for name, parameter in trained.named_parameters():
        assert parameter.grad is not None
        assert eager.difference(outputs[f"{name}.grad"], parameter.grad) < 1e-12, name
    (clamp,) = [node for node in graph.nodes if node.op == "aten.clamp"]
    assert (clamp.phase, clamp.module) == (Phase.BACKWARD, "0")
    eager.assert_provenance(graph)
    assert len(model[0].weight._backward_hooks or {}) == 2


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
def test_weights_that_a_hook_computes_anew(norm: Callable[[nn.Module], nn.Module]) -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(norm(nn.Linear(6, 6).double()), norm(nn.Linear(6, 6).double()))

    model, trained, batch = make(), make(), batch_of()
    weight = model[0].weight
    options: Any = {"optimizer": torch.optim.SGD, "optimizer_options": {"lr": 0.1}}
    graph = capture.capture(model, F.cross_entropy, batch, **options)
    assert model[0].weight is weight
    values = capture.bind(graph, model, batch, **options)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for _ in range(3):
        values = capture.advance(graph, values, capture.replay(graph, values))
        optimizer.zero_grad()
        F.cross_entropy(trained(batch[0]), batch[1]).backward()
        optimizer.step()
        for name, tensor in (*trained.named_parameters(), *trained.named_buffers()):
            assert eager.difference(values[name], tensor) < 1e-9, name
