"""A Llama 3 decoder (Grattafiori et al., 2024, section 3.2): shared keys, rotary positions.

    x -- RMS norm -- attention --(+)-- RMS norm -- SwiGLU --(+)--
     \\__________________________/ \\________________________/

    RMS norm    x / sqrt(mean of x^2 + eps) * weight, written out: a norm without means or biases
    attention   `heads` queries share `shared` keys and values; queries and keys are turned by an
                angle that grows with the position, channel c paired with channel c + d / 2
    SwiGLU      contract(silu(gate(x)) * expand(x))

No linear map has a bias, and the output weight is not tied to the embedding. AutoParallel's example
(examples/example_llama3.py) plans the same model, its sizes the 8B one's.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    """Division by the root of the mean square, and a weight per channel."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class SharedAttention(nn.Module):
    """Causal attention whose queries share keys and values in groups of `heads / shared`."""

    def __init__(self, size: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        channels = size // heads
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, shared * channels, bias=False)
        self.value = nn.Linear(size, shared * channels, bias=False)
        self.output = nn.Linear(size, size, bias=False)

    def repeat(self, x: Tensor) -> Tensor:
        """`[batch, shared, position, channel]` -> `[batch, head, position, channel]`."""
        wide = x.unsqueeze(2).expand(-1, -1, self.heads // self.shared, -1, -1)
        return wide.flatten(1, 2)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k = self.key(x).unflatten(-1, (self.shared, -1)).transpose(1, 2)
        v = self.value(x).unflatten(-1, (self.shared, -1)).transpose(1, 2)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        y = F.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v), is_causal=True)
        return self.output(y.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    """Two maps into `inner` channels, one the other's gate, and one back."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, inner, bias=False)
        self.expand = nn.Linear(size, inner, bias=False)
        self.contract = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.silu(self.gate(x)) * self.expand(x))


class LlamaLayer(nn.Module):
    """One block; each branch reads the normalised input and adds to it."""

    def __init__(self, size: int, heads: int, shared: int, inner: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(size)
        self.attention = SharedAttention(size, heads, shared)
        self.feed_forward_norm = RMSNorm(size)
        self.feed_forward = SwiGLU(size, inner)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """The next token's scores at every position."""

    cosines: Tensor
    sines: Tensor

    def __init__(
        self,
        *,
        layers: int,
        size: int = 4096,
        heads: int = 32,
        shared: int = 8,
        inner: int = 14336,
        vocabulary: int = 128256,
        length: int = 2048,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, size)
        self.layers = nn.ModuleList(LlamaLayer(size, heads, shared, inner) for _ in range(layers))
        self.norm = RMSNorm(size)
        self.output = nn.Linear(size, vocabulary, bias=False)
        angles = rotations(length, size // heads)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        cosines, sines = self.cosines[:length], self.sines[:length]
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, cosines, sines)
        return self.output(self.norm(x))


def rotations(length: int, channels: int, *, base: float = 500000.0) -> Tensor:
    """`[position, channel]`: how far a position turns each pair of channels, twice over."""
    rates = base ** (torch.arange(0, channels, 2) * (-1.0 / channels))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.cat((angles, angles), dim=1)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn the pairs (c, c + d / 2) of the last dim."""
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat((-second, first), dim=-1) * sines).type_as(x)
