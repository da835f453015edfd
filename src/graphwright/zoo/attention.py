"""The encoder-decoder Transformer, BERT and GPT-2, each with its own form of attention.

    Transformer  matmul, softmax, matmul written out    norm after the sum, ReLU, fixed positions
    BERT         scaled_dot_product_attention, masked   norm after the sum, GELU, learned positions
    GPT          scaled_dot_product_attention, causal   norm before the branch, tanh GELU, learned

All three tie the output weight to the token embedding; the published models have `heads` of 64
channels. They share one attention class; `Attend` is a function of queries, keys and values
`[batch, head, position, channel]`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def attend_plainly(q: Tensor, k: Tensor, v: Tensor, hidden_from: Tensor | None) -> Tensor:
    """softmax(q k' / sqrt(d)) v, without pairs where `hidden_from` is true."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if hidden_from is not None:
        scores = scores.masked_fill(hidden_from, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


class Attention(nn.Module):
    """Multi-head attention: project, call `attend` for the heads, concatenate, project."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)

    def split(self, x: Tensor) -> Tensor:
        """`[batch, position, size]` -> `[batch, head, position, size / heads]`."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor, attend: Attend) -> Tensor:
        q = self.split(self.query(x))
        k, v = self.split(self.key(memory)), self.split(self.value(memory))
        return self.output(attend(q, k, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers, four times as wide inside."""

    def __init__(self, size: int, activation: nn.Module) -> None:
        super().__init__()
        self.expand = nn.Linear(size, 4 * size)
        self.activation = activation
        self.contract = nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))


class TransformerLayer(nn.Module):
    """A layer of Vaswani et al. (2017); with `cross`, it also attends to the encoder's output."""

    def __init__(self, size: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.attention = Attention(size, heads)
        self.attention_norm = nn.LayerNorm(size)
        self.cross = Attention(size, heads) if cross else None
        self.cross_norm = nn.LayerNorm(size) if cross else None
        self.feed_forward = FeedForward(size, nn.ReLU())
        self.feed_forward_norm = nn.LayerNorm(size)

    def forward(self, x: Tensor, memory: Tensor | None, future: Tensor | None) -> Tensor:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend_plainly(q, k, v, future)

        def attend_to_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend_plainly(q, k, v, None)

        x = self.attention_norm(x + self.attention(x, x, attend))
        if self.cross is not None and self.cross_norm is not None and memory is not None:
            x = self.cross_norm(x + self.cross(x, memory, attend_to_all))
        return self.feed_forward_norm(x + self.feed_forward(x))


class Transformer(nn.Module):
    """Translation: encoder and decoder of `layers` each, one embedding for both and the output."""

    positions: Tensor
    future: Tensor

    def __init__(self, *, layers: int, size: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.encoder = nn.ModuleList(
            TransformerLayer(size, heads, cross=False) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            TransformerLayer(size, heads, cross=True) for _ in range(layers)
        )
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.register_buffer("positions", sinusoids(length, size))
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def embed(self, tokens: Tensor) -> Tensor:
        size = self.embedding.embedding_dim
        return self.embedding(tokens) * math.sqrt(size) + self.positions[: tokens.shape[1]]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, None, None)
        length = target.shape[1]
        x, future = self.embed(target), self.future[:length, :length]
        for layer in self.decoder:
            x = layer(x, memory, future)
        return F.linear(x, self.embedding.weight)


def sinusoids(length: int, size: int) -> Tensor:
    """Fixed position vectors: sines in even channels, cosines in odd ones."""
    rates = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)


class BertLayer(nn.Module):
    """A BERT encoder layer: dropout on the attention weights and on each branch."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(size, heads)
        self.attention_norm = nn.LayerNorm(size, eps=1e-12)
        self.feed_forward = FeedForward(size, nn.GELU())
        self.feed_forward_norm = nn.LayerNorm(size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        dropout = self.dropout.p if self.training else 0.0

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)

        x = self.attention_norm(x + self.dropout(self.attention(x, x, attend)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class BERT(nn.Module):
    """The masked language model of Devlin et al. (2018): a word's scores at every position.

    `mask[batch, position]` is true where there is a token: every layer reads it (TensorOpt, section
    3.2). There is no next-sentence head, so there is one output.
    """

    def __init__(
        self,
        *,
        layers: int,
        size: int,
        heads: int,
        vocabulary: int = 30522,
        length: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, size)
        self.positions = nn.Embedding(length, size)
        self.segments = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(BertLayer(size, heads, dropout) for _ in range(layers))
        self.transform = nn.Sequential(
            nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size, eps=1e-12)
        )
        self.output = nn.Linear(size, vocabulary)
        self.output.weight = self.tokens.weight
        self.apply(initialise)

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.segments(segments) + self.positions(places)
        x = self.dropout(self.norm(x))
        mask = mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.output(self.transform(x))


class GptLayer(nn.Module):
    """A GPT-2 block: each branch reads the normalised input and adds to it."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.feed_forward = FeedForward(size, nn.GELU(approximate="tanh"))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        dropout = self.dropout.p if self.training else 0.0

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)

        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, attend))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class GPT(nn.Module):
    """The decoder of GPT-2 (Radford et al., 2019): the next token's scores at every position."""

    def __init__(
        self,
        *,
        layers: int,
        size: int,
        heads: int,
        vocabulary: int = 50257,
        length: int = 1024,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, size)
        self.positions = nn.Embedding(length, size)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(GptLayer(size, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        self.apply(initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(places))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def initialise(module: nn.Module) -> None:
    """Initialise as BERT and GPT-2: weights with standard deviation 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
