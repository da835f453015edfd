"""Training steps as people write them and few tests do.

Modules that are used twice, weights that are shared or frozen, statistics that are read, options of
optimizers that are seldom given. A `Case` names a model and an optimizer:

    case.make()            both, always the same
    case.eager(steps)      what PyTorch makes of them

No layer with a bias stands right before a batch norm: its gradient would be nothing but rounding,
which Adam takes for as good as any other.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.checkpoint import checkpoint

from graphwright.describe import Concat, node_splits
from graphwright.ir import Graph
from graphwright.machine import Cluster
from graphwright.plans import Along, Plan, Replicate, Strategy, make_plan

BATCH, CHANNELS = 4, 6


class Twice(nn.Module):
    """A layer and a norm that are both called twice, so that statistics move twice in a step."""

    def __init__(self, norm):
        super().__init__()
        self.layer, self.norm = nn.Linear(CHANNELS, CHANNELS), norm

    def forward(self, x):
        return self.norm(self.layer(self.norm(self.layer(x).tanh()).relu()).tanh())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = (nn.Linear(CHANNELS, CHANNELS, bias=b) for b in (False, True))
        self.out.weight = self.into.weight

    def forward(self, x):
        return self.out(torch.tanh(self.into(x)))


class Sums(nn.Module):
    """Two weights with one gradient, and products that look like linear layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.randn(CHANNELS, CHANNELS)) for _ in range(2))
        self.bias, self.row = (
            nn.Parameter(torch.randn(CHANNELS)),
            nn.Parameter(torch.randn(CHANNELS)),
        )
        self.square = nn.Parameter(torch.randn(1, CHANNELS))

    def forward(self, x):
        y = x @ (self.a + self.b) + self.bias + self.row
        y = y + torch.addmm(self.row, x, self.a.T, beta=0.5, alpha=2) + (self.bias + x @ self.a.T)
        return y + torch.add(x @ self.b.T, self.bias, alpha=3) + (x @ self.b.T + self.square)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = (
            nn.Linear(CHANNELS, CHANNELS),
            nn.BatchNorm1d(CHANNELS),
            nn.Linear(CHANNELS, 3),
        )
        for frozen in (self.a.weight, self.norm.bias, self.b.bias):
            frozen.requires_grad_(False)

    def forward(self, x):
        return self.b(self.norm(self.a(x).tanh()).relu())


class ReadsStatistics(nn.Module):
    """Reads running statistics before and after the norm moves them, and keeps averages of its own."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(CHANNELS, CHANNELS), nn.BatchNorm1d(CHANNELS)
        self.register_buffer("mean", torch.zeros(CHANNELS))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        before = self.norm.running_mean.clone()
        y = self.norm(self.layer(x).tanh())
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.square().mean(0), alpha=0.1)
            self.count += 1
        return y + before + self.norm.running_var - self.mean * self.count


class Normed(nn.Module):
    """Images, a convolution and a norm, in its own mode."""

    def __init__(self, norm, training=True):
        super().__init__()
        self.conv, self.norm, self.training_norm = (
            nn.Conv2d(3, CHANNELS, 3, bias=False),
            norm,
            training,
        )
        self.head = nn.Conv2d(CHANNELS, 4, 1)

    def train(self, mode=True):
        super().train(mode)
        self.norm.train(mode and self.training_norm)
        return self

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu()).mean((2, 3))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (
            nn.Conv2d(3, 6, 1, bias=False),
            nn.Conv2d(3, 6, 1, bias=False),
            nn.Conv2d(3, 6, 3, padding=1),
        )
        self.first, self.second = nn.BatchNorm2d(6), nn.BatchNorm2d(6, affine=False)

    def forward(self, x):
        parts = [self.first(self.a(x)), self.second(self.b(x)), self.c(x)]
        return torch.cat(parts, 1).relu().mean((2, 3))


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole, self.plain = (
            nn.LayerNorm([5, CHANNELS]),
            nn.LayerNorm(CHANNELS, elementwise_affine=False),
        )
        self.bare, self.tokens = nn.LayerNorm(CHANNELS, bias=False), nn.BatchNorm1d(5)
        self.layer = nn.Linear(CHANNELS, CHANNELS, bias=False)

    def forward(self, x):
        return self.plain(self.bare(self.whole(self.layer(x)))) + self.tokens(x)


class Attends(nn.Module):
    """Attention under a mask that is causal, or nearly."""

    def __init__(self, hidden, beyond):
        super().__init__()
        self.hidden, self.beyond = hidden, beyond
        self.q, self.k, self.v = (
            nn.Linear(CHANNELS, CHANNELS, bias=b) for b in (True, False, True)
        )

    def forward(self, x):
        mask = torch.full((5, 5), self.hidden, dtype=x.dtype).triu(self.beyond)
        heads = [f(x).view(len(x), 5, 2, 3).transpose(1, 2) for f in (self.q, self.k, self.v)]
        return F.scaled_dot_product_attention(*heads, mask).transpose(1, 2).flatten(2)


class Recomputes(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(CHANNELS, 8), nn.LayerNorm(8), nn.Linear(8, CHANNELS)

    def forward(self, x):
        part = lambda y: self.norm(self.a(y)).relu()
        return self.b(checkpoint(part, x, use_reentrant=False))


def images():
    return torch.randn(BATCH, 3, 5, 5)


def rows():
    return torch.randn(BATCH, CHANNELS)


def sequences():
    return torch.randn(BATCH, 5, CHANNELS)


MODELS = {
    "batch norm twice": (lambda: Twice(nn.BatchNorm1d(CHANNELS)), rows),
    "layer norm twice": (lambda: Twice(nn.LayerNorm(CHANNELS)), rows),
    "tied": (Tied, rows),
    "sums": (Sums, rows),
    "frozen": (Frozen, rows),
    "statistics": (ReadsStatistics, rows),
    "batch norm": (lambda: Normed(nn.BatchNorm2d(CHANNELS, eps=0.3, momentum=0.9)), images),
    "batch norm at rest": (lambda: Normed(nn.BatchNorm2d(CHANNELS), training=False), images),
    "batch norm without statistics": (
        lambda: Normed(nn.BatchNorm2d(CHANNELS, track_running_stats=False), training=False), images
    ),
    "group norm": (lambda: Normed(nn.GroupNorm(2, CHANNELS)), images),
    "group norm of channels": (lambda: Normed(nn.GroupNorm(CHANNELS, CHANNELS, affine=False)), images),
    "instance norm": (lambda: Normed(nn.InstanceNorm2d(CHANNELS, affine=True, track_running_stats=True)), images),
    "branches": (Branches, images),
    "sequences": (Sequences, sequences),
    "causal": (lambda: Attends(-torch.inf, 1), sequences),
    "nearly causal": (lambda: Attends(-torch.inf, 2), sequences),
    "softly causal": (lambda: Attends(-2.0, 1), sequences),
    "recomputes": (Recomputes, rows),
}  # fmt: skip


def _halves(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    half = max(1, len(parameters) // 2)
    return parameters[:half], parameters[half:]


def _grouped(kind, first, second, **options):
    def make(model):
        a, b = _halves(model)
        return kind([{"params": a, **first}, {"params": b, **second}], **options)

    return make


def _hooked(kind, register, change, **options):
    """An optimizer with a hook that changes parameters or gradients."""

    def make(model):
        made = kind(model.parameters(), **options)

        def hook(optimizer, args, kwargs):
            with torch.no_grad():
                for group in optimizer.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            change(p)

        getattr(made, f"register_step_{register}_hook")(hook)
        return made

    return make


def _plain(kind, **options):
    return lambda model: kind(model.parameters(), **options)


OPTIMIZERS = {
    "sgd": _plain(optim.SGD, lr=0.1, weight_decay=0.1),
    "momentum": _plain(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.03, foreach=True),
    "nesterov": _plain(optim.SGD, lr=torch.tensor(0.1), momentum=0.9, nesterov=True, weight_decay=0.1),
    "uphill": _plain(optim.SGD, lr=0.1, momentum=0.7, maximize=True, fused=True),
    "adam": _plain(optim.Adam, lr=0.01, weight_decay=0.1, betas=(0.5, 0.7), eps=1e-3),
    "adam, uphill": _plain(optim.Adam, lr=torch.tensor(0.01).double(), maximize=True),
    "amsgrad": _plain(optim.Adam, lr=0.01, amsgrad=True, foreach=True),
    "adamw": _plain(optim.AdamW, lr=0.01, weight_decay=0.3, fused=True),
    "decoupled": _plain(optim.Adam, lr=0.01, weight_decay=0.3, decoupled_weight_decay=True),
    "rmsprop": _plain(optim.RMSprop, lr=0.01, momentum=0.5, centered=True),
    "groups": _grouped(
        optim.AdamW, {"weight_decay": 0.0, "betas": (0.5, 0.9)}, {"lr": 0.05, "amsgrad": True, "maximize": True},
        lr=0.01,
    ),
    "groups of sgd": _grouped(
        optim.SGD, {"momentum": 0.9}, {"lr": 0.05, "maximize": True, "weight_decay": 0.3}, lr=0.1
    ),
    "groups of momentum": _grouped(
        optim.SGD, {"momentum": 0.9, "nesterov": True}, {"maximize": True, "momentum": 0.5}, lr=0.1
    ),
    "clamps behind": _hooked(optim.Adam, "post", lambda p: p.clamp_(-0.2, 0.2), lr=0.1),
    "decays before": _hooked(optim.SGD, "pre", lambda p: p.mul_(0.9), lr=0.1, momentum=0.9),
    "scales gradients": _hooked(optim.AdamW, "pre", lambda p: p.grad.mul_(0.5), lr=0.1),
}  # fmt: skip


def loss_fn(out: Tensor, target: Tensor) -> Tensor:
    return ((out - target) ** 2).mean()


@dataclass(frozen=True)
class Case:
    """A model by name, an optimizer by name, and options of the step."""

    model: str
    optimizer: str
    clip_norm: float | None = None
    accumulate: int = 1

    def make(self) -> tuple[nn.Module, optim.Optimizer]:
        torch.manual_seed(0)
        model = MODELS[self.model][0]().double().train()
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                if tensor.is_floating_point() and tensor.dim() == 1:
                    tensor.add_(torch.rand_like(tensor))
        return model, OPTIMIZERS[self.optimizer](model)

    @cached_property
    def batch(self) -> tuple[Tensor, Tensor]:
        model, _ = self.make()
        torch.manual_seed(1)
        x = MODELS[self.model][1]().double()
        return x, torch.randn(copy.deepcopy(model)(x).shape, dtype=torch.float64)

    @property
    def options(self) -> dict:
        return {"clip_norm": self.clip_norm, "accumulate": self.accumulate}

    def eager(self, steps: int) -> dict[str, Tensor]:
        """The losses, and every parameter, buffer and state behind some steps."""
        model, optimizer = self.make()
        found: dict[str, Tensor] = {}
        pieces = zip(*(t.chunk(self.accumulate) for t in self.batch), strict=True)
        pieces = list(pieces)
        for step in range(steps):
            optimizer.zero_grad()
            total = torch.zeros((), dtype=torch.float64)
            for x, y in pieces:
                loss = loss_fn(model(x), y) / self.accumulate
                loss.backward()
                total += loss.detach()
            if self.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), self.clip_norm)
            optimizer.step()
            found[f"loss {step}"] = total
        names = {id(p): name for name, p in model.named_parameters()}
        found |= {n: t.detach() for n, t in (*model.named_parameters(), *model.named_buffers())}
        for group in optimizer.param_groups:
            for p in group["params"]:
                state = {k: v for k, v in optimizer.state.get(p, {}).items() if k != "step"}
                found |= {f"{names[id(p)]}.{k}": v for k, v in state.items() if v is not None}
        return found


def alike(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """All that eager training has is there, and equal but for rounding."""
    for name, value in wanted.items():
        if name not in found and not value.any():
            continue  # of a parameter without a gradient
        scale = max(float(value.double().abs().max()), 1e-3)
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-9 * scale, msg=name)


def split_dims_of(size: int, graph: Graph, cluster: Cluster) -> Plan:
    """A plan that splits every operator along a dim of such a size, where its result has one."""
    strategies: dict[str, Strategy] = {}
    rest = (Replicate(),) * (len(cluster.axes) - 1)
    for node in graph.nodes if cluster.axes else ():
        shape = graph.tensors[node.outputs[0]].type.shape
        for split in node_splits(graph, node):
            join, fits = split.joins[0], split.max_parts >= cluster.num_devices
            if fits and isinstance(join, Concat) and shape[join.dim] == size:
                strategies[node.name] = Strategy((Along(split.index), *rest))
                break
    return make_plan(graph, cluster, strategies)
