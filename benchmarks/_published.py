"""The models and recipes of published training runs, by the words of their rows.

    model         MPT-7B, Llama-2-13B, Llama-3-8B, GPT-2 124M, GPT d4096 8 layers, ResNet-50
    device        H100-80 SXM, A100-40 SXM, A100 (DGX), V100-16, H200
    parallelism   FSDP, DDP, ZeRO-1, one device, ...
    precision     bf16 autocast over float32, bf16 FSDP mixed precision, TF32, AMP float16

Shapes are those of the models' papers and configurations. What a run did besides is known from the
code that it ran:

    llm-foundry   FSDP's mixed precision (MP Mode in its tables), FlashAttention in Triton and
                  DecoupledAdamW, an operator at a time, with clipping (scripts/train/yamls/pretrain);
                  the loss is one kernel on bfloat16 (`loss_fn: fused_crossentropy`, its default)
    torchtitan    FSDP's mixed precision, AdamW without `fused`, clipping (train_configs)
    nanoGPT       torch.compile, fused AdamW, clipping; attention in operators, as it was when its
                  README got its figures (its issue 110 has the same 0.56 s on 2 February 2023)
    llm.c         kernels by hand, a vocabulary padded to 50,304 words, clipping
    NVIDIA        float16 with channels last, TF32 without (configs.yml); SGD
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import graphwright as gw
from graphwright.frozen import FrozenDict
from graphwright.ir import Graph
from graphwright.machine import Cluster, Curve, Device, cluster
from graphwright.tasks import Fusion
from graphwright.zoo.llama import Llama
from graphwright.zoo.resnet import STAGES, ResNet

Attend: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

MPT = {  # layers, width, heads: llm-foundry, scripts/train/yamls/pretrain
    "125M": (12, 768, 12), "350M": (24, 1024, 16), "760M": (24, 1536, 12), "1B": (24, 2048, 16),
    "3B": (32, 2560, 20), "7B": (32, 4096, 32), "13B": (40, 5120, 40), "30B": (48, 7168, 56),
    "70B": (64, 8192, 64),
}  # fmt: skip
MPT_WORDS = 50368
GPT2 = {  # Radford et al. 2019, table 2
    "124M": (12, 768, 12), "350M": (24, 1024, 16), "355M": (24, 1024, 16), "774M": (36, 1280, 20),
    "1558M": (48, 1600, 25), "1.5B": (48, 1600, 25),
}  # fmt: skip
GPT2_WORDS, PADDED_WORDS = 50257, 50304
LLAMA = {  # layers, width, heads, key heads, feed-forward, words
    "2-7B": (32, 4096, 32, 32, 11008, 32000), "2-13B": (40, 5120, 40, 40, 13824, 32000),
    "2-70B": (80, 8192, 64, 8, 28672, 32000), "3-8B": (32, 4096, 32, 8, 14336, 128256),
    "3.1-8B": (32, 4096, 32, 8, 14336, 128256), "3-70B": (80, 8192, 64, 8, 28672, 128256),
    "3.1-70B": (80, 8192, 64, 8, 28672, 128256), "3.1-405B": (126, 16384, 128, 8, 53248, 128256),
}  # fmt: skip
MACHINES = (
    ("H200", "dgx-h200"), ("H100", "dgx-h100"), ("A100-40", "dgx-a100-40"), ("A100", "dgx-a100"),
    ("V100", "dgx-1v"), ("B200", "dgx-b200"), ("MI300X", "nd96isr-mi300x-v5"),
)  # fmt: skip
RECIPES = (
    ("HSDP", "hsdp"), ("TP", "fsdp-tp"), ("FSDP", "fsdp"), ("ZERO-3", "fsdp"), ("ZERO-1", "zero2"),
    ("ZERO", "zero2"), ("DDP", "data"), ("DATA PARALLEL", "data"), ("ONE DEVICE", "data"),
)  # fmt: skip
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
TRITON = 1.8
"""How much longer than FlashAttention-2 that of Triton takes: 1.3 to 1.5 times forward, 2 times
backward, which is 2.5 times as much arithmetic (Dao 2023, section 4.1)."""


class UnknownRow(Exception):
    """A row says something that this file has no model, machine or recipe for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A published run: how it was done and what was measured."""

    id: str
    source: str
    model: str
    sequence: int
    micro_batch: int
    accumulate: int
    gpus: int
    device: str
    precision: str
    parallelism: str
    checkpointing: str
    step: float
    memory: float | None
    notes: str

    @staticmethod
    def read(row: Mapping[str, str]) -> Run:
        return Run(
            id=row["id"],
            source=row["source"],
            model=row["model"],
            sequence=int(row["sequence"] or 0),
            micro_batch=int(row["micro_batch_per_gpu"]),
            accumulate=int(row["accumulate"] or 1),
            gpus=int(row["gpus"]),
            device=row["device"],
            precision=row["precision"],
            parallelism=row["parallelism"],
            checkpointing=row["activation_checkpointing"],
            step=float(row["step_s"]),
            memory=float(row["peak_memory_gib"]) if row["peak_memory_gib"] else None,
            notes=row["notes"],
        )

    @property
    def samples(self) -> int:
        """Samples of a step, on all devices."""
        return self.micro_batch * self.accumulate * self.gpus

    def _ran(self, *words: str) -> bool:
        """Whether source or notes name one of some programs."""
        said = f"{self.source} {self.notes.partition(';')[0]}".lower()
        return any(word in said for word in words)

    @property
    def fusion(self) -> Fusion:
        """What its kernels were: fused by torch.compile, nanoGPT's default, or by hand, else
        PyTorch's own; torchtitan's Llama is written out in operators."""
        if self._ran("karpathy/nanogpt", "llm.c", "compile"):
            return "all"
        if self.model.startswith("Llama") or self._ran("in operators"):
            return "none"
        return "foreach" if self._ran("llm-foundry") else "modules"

    @property
    def clips(self) -> bool:
        """Whether it clipped the norm of gradients."""
        return self._ran("llm-foundry", "torchtitan", "karpathy/nanogpt", "llm.c")

    @property
    def channels_last(self) -> bool:
        """NVIDIA's examples lay images out so under mixed precision (configs.yml: memory_format)."""
        return "amp" in self.precision.lower() and not self._ran("channels first")

    @property
    def recipe(self) -> str:
        return _first(RECIPES, self.parallelism.upper(), f"{self.id}: parallelism")

    @property
    def cluster(self) -> Cluster:
        """As many devices of the machine as ran: some of one, or several of them."""
        machine = cluster(_first(MACHINES, self.device, f"{self.id}: device"))
        device, whole = machine.devices[0], machine.num_devices
        if "V100-32" in self.device:
            device = replace(device, memory=32 * 10**9)
        if self._ran("llm-foundry"):
            device = slower_attention(device, TRITON)
        if self.gpus < whole:
            inner = replace(machine.levels[-1], count=self.gpus)
            return replace(machine, levels=(inner,), devices=(device,) * self.gpus, links=())
        machine = replace(machine, devices=(device,) * whole)
        return machine.resized({machine.levels[0].name: self.gpus // whole})

    def capture(self) -> Graph:
        """The graph of one step on all devices."""
        with torch.device("meta"):
            model, batch, loss_fn = make(self)
        optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW
        options: dict[str, Any] = {}
        if self.model.startswith("ResNet"):
            optimizer, options = torch.optim.SGD, SGD
        return gw.capture(
            model,
            loss_fn,
            batch,
            optimizer=optimizer,
            optimizer_options=options,
            accumulate=self.accumulate,
            clip_norm=1.0 if self.clips else None,
            **precision(self),
        )


def slower_attention(device: Device, times: float) -> Device:
    """A device whose attention takes longer."""
    curves = {
        dtype: Curve(tuple((at, share / times) for at, share in curve.points))
        for dtype, curve in device.efficiency["attention"].items()
    }
    return replace(device, efficiency=FrozenDict({**device.efficiency, "attention": curves}))


def precision(run: Run) -> dict[str, torch.dtype]:
    """The options of a capture for the precision of a run."""
    words = run.precision.lower()
    dtype = torch.float16 if "float16" in words.replace("bfloat16", "") else torch.bfloat16
    if words in ("tf32", "float32", "fp32"):
        return {}
    if run.recipe in ("fsdp", "hsdp", "fsdp-tp") or "mixed" in words or "parameters" in words:
        return {"mixed_precision": dtype}
    return {"autocast": dtype}


def make(run: Run) -> tuple[nn.Module, tuple[Tensor, Tensor], Callable[..., Tensor]]:
    """The model of a run, its batch and its loss."""
    name = run.model
    if name == "ResNet-50":
        images = torch.empty(run.samples, 3, 224, 224)
        labels = torch.empty(run.samples, dtype=torch.int64)
        return ResNet(STAGES[50]), (images, labels), F.cross_entropy
    tokens = torch.empty(run.samples, run.sequence, dtype=torch.int64)
    model: nn.Module
    if name.startswith("Llama-") and name[6:] in LLAMA:
        layers, size, heads, shared, inner, words = LLAMA[name[6:]]
        model = Llama(
            layers=layers, size=size, heads=heads, shared=shared, inner=inner, vocabulary=words,
            length=run.sequence,
        )  # fmt: skip
    else:
        layers, size, heads, words = _gpt(run)
        attend = (
            attend_in_operators if run._ran("karpathy/nanogpt", "in operators") else attend_causally
        )
        model = Decoder(layers, size, heads, words, run.sequence, attend)
    _checkpoint(model, run)
    return model, (tokens, tokens), narrow_loss if run._ran("llm-foundry") else token_loss


def _gpt(run: Run) -> tuple[int, int, int, int]:
    name = run.model
    if name.startswith("MPT-") and name[4:] in MPT:
        return (*MPT[name[4:]], MPT_WORDS)
    if name.startswith("GPT-2 ") and name[6:] in GPT2:
        return (*GPT2[name[6:]], PADDED_WORDS if run._ran("llm.c") else GPT2_WORDS)
    plain = re.fullmatch(r"GPT d(\d+) (\d+) layers", name)
    if plain:
        size = int(plain[1])
        return int(plain[2]), size, size // 128, MPT_WORDS
    raise UnknownRow(f"{run.id}: there is no model {name!r} here")


def attend_causally(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as one kernel."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_in_operators(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as two products with a softmax between them, over all positions."""
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return F.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v


class Block(nn.Module):
    """A layer of GPT-2 and MPT: one product for queries, keys and values."""

    def __init__(self, size: int, heads: int, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.attention_norm, self.norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.expand, self.contract = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = self.attend(q, k, v)
        x = x + self.output(y.transpose(1, 2).flatten(2))
        return x + self.contract(self.gelu(self.expand(self.norm(x))))


class Decoder(nn.Module):
    """GPT-2 and MPT: learned positions, the output's weight that of the embedding."""

    def __init__(
        self, layers: int, size: int, heads: int, words: int, length: int, attend: Attend
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, size), nn.Embedding(length, size)
        self.layers = nn.ModuleList(Block(size, heads, attend) for _ in range(layers))
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, words, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy over all positions, in float32."""
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def narrow_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """The same on logits as they are, which the backward pass overwrites: a fused kernel holds no
    other copy of them."""
    wanted = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(-1) - wanted).float().mean()


class Checkpointed(nn.Module):
    """A layer that is run again in the backward pass, or what of it is not kept."""

    def __init__(self, layer: nn.Module, keeping: Callable[[], Any] | None) -> None:
        super().__init__()
        self.layer, self.options = layer, {} if keeping is None else {"context_fn": keeping}

    def forward(self, *given: Tensor) -> Any:
        return checkpoint(self.layer, *given, use_reentrant=False, **self.options)


def keep_heavy_operators() -> Any:
    """Keep every second product and attention, as torchtitan does where it selects by operator."""
    products = {False: 0, True: 0}

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        kept = "dot_product" in str(op)
        if op is torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            kept = products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


CHECKPOINTED = {
    "full": 1,
    "all": 1,
    "every layer": 1,
    "every second layer": 2,
    "selective layer": 2,
}


def _checkpoint(model: nn.Module, run: Run) -> None:
    words = run.checkpointing.lower()
    if words in ("", "none", "no"):
        return
    by_operator = words == "selective op"
    every = 1 if by_operator else CHECKPOINTED.get(words)
    if every is None:
        raise UnknownRow(f"{run.id}: activation checkpointing {words!r} is not known here")
    layers = model.layers
    assert isinstance(layers, nn.ModuleList)
    for number in range(every - 1, len(layers), every):
        keeping = keep_heavy_operators if by_operator else None
        layers[number] = Checkpointed(layers[number], keeping)


def _first(table: tuple[tuple[str, str], ...], words: str, place: str) -> str:
    for word, value in table:
        if word in words:
            return value
    raise UnknownRow(f"{place}: {words!r} is none of {', '.join(word for word, _ in table)}")
