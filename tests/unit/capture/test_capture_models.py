"""Ordinary models of every kind train alike when captured and replayed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import eager
from graphwright import capture
from graphwright.ir import Phase, Role

pytestmark = pytest.mark.filterwarnings("ignore:no description")

SGD = {"lr": 0.1, "momentum": 0.9}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def images(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(*shape, dtype=torch.float64), torch.randint(3, (shape[0],))


class ConvNet(nn.Module):
    """Convolutions with and without bias, groups, stride; norm; in-place activation; pooling."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = norm
        self.second = nn.Conv2d(4, 8, 3, stride=2, groups=2, bias=False)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = F.max_pool2d(x, 2)
        x = F.adaptive_avg_pool2d(self.second(x), 1)
        return self.last(x.flatten(1))


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(4),
        nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.GroupNorm(2, 4),
        nn.InstanceNorm2d(4, affine=True),
        nn.LayerNorm([4, 9, 9]),
    ],
    ids=lambda norm: f"{type(norm).__name__}",
)
def test_convolutional_network_with_each_norm(norm: nn.Module) -> None:
    model = ConvNet(norm).double()
    eager.assert_trains_alike(model, F.cross_entropy, images(5, 3, 9, 9), torch.optim.SGD, SGD)


def test_running_statistics_become_outputs() -> None:
    model = ConvNet(nn.BatchNorm2d(4)).double()
    graph = capture.capture(model, F.cross_entropy, images(5, 3, 9, 9))
    kept = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")
    for name in kept:
        assert graph.updates[name] == f"{name}.new"
        assert graph.tensors[name].role is Role.BUFFER
        assert graph.tensors[f"{name}.new"].of == name


def test_batch_norm_in_evaluation_mode_stays_trainable_around_it() -> None:
    model = ConvNet(nn.BatchNorm2d(4)).double().eval()
    graph = eager.assert_trains_alike(
        model, F.cross_entropy, images(5, 3, 9, 9), torch.optim.SGD, SGD
    )
    assert "norm.running_mean" not in graph.updates


def test_transposed_dilated_and_one_dimensional_convolutions() -> None:
    model = nn.Sequential(
        nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1),
        nn.Conv2d(3, 3, 3, dilation=2, padding="same"),
        nn.Flatten(2),
        nn.Conv1d(3, 3, 5, stride=3),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    batch = (torch.randn(2, 2, 4, 4), torch.randint(3, (2,)))
    model(batch[0])
    batch = (batch[0].double(), batch[1])
    eager.assert_trains_alike(model.double(), F.cross_entropy, batch, torch.optim.SGD, SGD)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.out = nn.Linear(6, 11)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.tanh(self.embed(tokens))).flatten(0, 1)


def test_tied_weights_are_one_input_and_their_gradients_add_up() -> None:
    batch = (torch.randint(11, (3, 4)), torch.randint(11, (12,)))
    graph = eager.assert_trains_alike(
        Tied().double(), F.cross_entropy, batch, torch.optim.Adam, {"lr": 0.01}
    )
    names = [name for name in graph.inputs if graph.tensors[name].role is Role.PARAMETER]
    assert sorted(names) == ["embed.weight", "out.bias"]
    assert graph.node("embed.weight.grad").op == "aten.add.Tensor"


class Attention(nn.Module):
    def __init__(self, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.dropout, self.causal = dropout, causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout, is_causal=self.causal
        )
        return out.transpose(1, 2).flatten(2).mean(1)


ATTENTION = [("MATH", form) for form in ("plain", "causal", "mask", "dropout")] + [
    ("FLASH_ATTENTION", form) for form in ("plain", "causal", "mask")
]


@pytest.mark.parametrize(("backend", "form"), ATTENTION)
def test_every_attention_path(backend: str, form: str) -> None:
    model = Attention(dropout=0.3 * (form == "dropout"), causal=form == "causal").double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.randn(3, 1, 5, 5, dtype=torch.float64)
    batch = ((x, mask) if form == "mask" else x, torch.randint(8, (3,)))
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
        graph = eager.assert_trains_alike(
            model, F.cross_entropy, batch, torch.optim.AdamW, {"lr": 0.01}
        )
    ops = {node.op for node in graph.nodes}
    kernels = {"aten._scaled_dot_product_flash_attention_for_cpu", "graphwright.causal_attention"}
    assert len(ops & kernels) == (backend != "MATH")


def test_multihead_attention_and_encoder_layers() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten())
    batch = (torch.randn(3, 4, 8, dtype=torch.float64), torch.randint(32, (3,)))
    eager.assert_trains_alike(
        model.double(), F.cross_entropy, batch, torch.optim.AdamW, {"lr": 0.01}
    )


def test_dropout_draws_as_eager_does() -> None:
    model = nn.Sequential(
        nn.Linear(6, 40), nn.Dropout(0.4), nn.Linear(40, 40), nn.Dropout1d(0.3), nn.Linear(40, 3)
    )
    batch = (torch.randn(5, 6, dtype=torch.float64), torch.randint(3, (5,)))
    graph = eager.assert_trains_alike(model.double(), F.cross_entropy, batch, torch.optim.SGD, SGD)
    assert sum(node.op.startswith("aten.bernoulli") for node in graph.nodes) == 2


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.4)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.blocks[0](x)
        for block in self.blocks[1:]:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_recomputes_with_the_same_draws(reentrant: bool) -> None:
    batch = (torch.randn(5, 6, dtype=torch.float64), torch.randint(6, (5,)))
    model = Checkpointed(reentrant=reentrant).double()
    graph = eager.assert_trains_alike(model, F.cross_entropy, batch, torch.optim.SGD, SGD)
    assert sum(node.op == "aten.bernoulli.p" for node in graph.nodes) == 3
    again = [n for n in graph.nodes if n.phase is Phase.BACKWARD and n.op == "aten.tanh"]
    assert [node.module for node in again] == ["blocks.2.1", "blocks.1.1"]
    for node in again:
        assert node.partner is not None
        assert graph.node(node.partner).op == "aten.tanh"


class AttentionBlock(nn.Module):
    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.map, self.causal = nn.Linear(8, 8), causal

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x).unflatten(-1, (2, 4)).transpose(1, 2)
        y = F.scaled_dot_product_attention(y, y, y, is_causal=self.causal)
        return x + y.transpose(1, 2).flatten(2)


class CheckpointedAttention(nn.Module):
    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(AttentionBlock(causal=causal) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


@pytest.mark.parametrize("causal", [False, True])
def test_checkpointing_recomputes_attention_without_dropout(causal: bool) -> None:
    """It has the tag of a random operator, but draws nothing."""
    batch = (torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(3, 5, 8, dtype=torch.float64))
    model = CheckpointedAttention(causal=causal).double()
    graph = eager.assert_trains_alike(model, F.mse_loss, batch, torch.optim.SGD, SGD)
    forward = [n for n in graph.nodes if "attention" in n.op and not n.op.endswith("backward")]
    assert [node.phase for node in forward] == [Phase.FORWARD] * 2 + [Phase.BACKWARD] * 2


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = torch.relu(self.norm(self.conv(x)))
            return self.fc(x.mean((2, 3))).float()


def test_autocast_keeps_float32_parameters_and_computes_in_bfloat16() -> None:
    batch = (torch.randn(4, 2, 6, 6), torch.randint(3, (4,)))
    graph = eager.assert_trains_alike(
        Mixed(), F.cross_entropy, batch, torch.optim.SGD, {"lr": 0.01}, tolerance=0.05
    )
    convolution = next(node for node in graph.nodes if node.op == "aten.convolution")
    assert graph.tensors[convolution.name].type.dtype == "bfloat16"
    assert graph.tensors["conv.weight.grad"].type.dtype == "float32"


class Stateful(nn.Module):
    """Views written in place, constants of several sizes, a buffer assigned anew, an unused weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 5)
        self.unused = nn.Parameter(torch.zeros(3))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(5))
        self.table = torch.arange(5.0).double()
        self.large = torch.linspace(0, 1, 5000).double()

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        y = self.fc(x) * self.frozen
        y[:, 0] += 1
        y[:, 1:3].mul_(2.0)
        z = torch.zeros_like(y)
        z[:, ::2] = y[:, ::2]
        self.last.copy_(z.detach().sum(0))
        return (
            z
            + y * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) * self.table
            + self.large[:5] / self.count
        )


def test_in_place_views_constants_and_buffers() -> None:
    batch = (torch.randn(4, 5, dtype=torch.float64), torch.randint(5, (4,)))
    graph = eager.assert_trains_alike(
        Stateful().double(), F.cross_entropy, batch, torch.optim.Adam, {"lr": 0.01}
    )
    assert set(graph.updates) >= {"count", "last", "fc.weight"}
    assert not {"unused", "frozen"} & set(graph.updates)
    assert not any(node.op.endswith("_") for node in graph.nodes)


def test_loss_module_with_weights_and_ignored_targets() -> None:
    weight = torch.rand(3, dtype=torch.float64)
    loss = nn.CrossEntropyLoss(weight=weight, ignore_index=1, label_smoothing=0.1)
    batch = (torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0, 2]))
    graph = eager.assert_trains_alike(
        nn.Linear(4, 3).double(), loss, batch, torch.optim.SGD, {"lr": 0.1}
    )
    assert "loss_fn.weight" in graph.inputs


def test_inputs_by_position_by_name_and_nested() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, a: Tensor, *, b: dict[str, Tensor], scale: float = 1.0) -> Tensor:
            return (self.fc(a) * b["x"] * scale).square().mean()

    batch = {"a": torch.randn(3, 4), "b": {"x": torch.randn(3, 2)}, "scale": 2.0}
    graph = eager.assert_trains_alike(Two(), None, batch, torch.optim.SGD, {"lr": 0.1})
    assert [n for n in graph.inputs if n.startswith("inputs")] == ["inputs.a", "inputs.b.x"]
    assert graph.outputs[0] == "loss"


def test_inference_has_outputs_and_no_gradients() -> None:
    model = ConvNet(nn.BatchNorm2d(4)).eval()
    x = torch.randn(5, 3, 9, 9)
    graph = capture.capture(model, inputs=x)
    assert graph.outputs == ("output.0",)
    assert {node.phase for node in graph.nodes} == {Phase.FORWARD}
    values = capture.bind(graph, model, inputs=x)
    assert eager.difference(capture.replay(graph, values)["output.0"], model(x)) < 1e-5


def test_capture_without_optimizer_returns_the_gradients() -> None:
    model = nn.Linear(4, 3).double()
    batch = (torch.randn(6, 4, dtype=torch.float64), torch.randint(3, (6,)))
    graph = eager.assert_trains_alike(model, F.cross_entropy, batch, None)
    assert graph.outputs == ("loss", "weight.grad", "bias.grad")
