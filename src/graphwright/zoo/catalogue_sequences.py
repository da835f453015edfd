"""Recipes of the recurrent and attention models, one function each.

FlexFlow (section 3.7.1) gives layers, hidden sizes and 40 steps for its three recurrent models, and
a batch of 64 per GPU; embeddings have the hidden size here. TASO's NasRNN is one layer of 512 for 5
steps.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from graphwright.zoo.attention import BERT, GPT, Transformer
from graphwright.zoo.llama import Llama
from graphwright.zoo.nmt import NMT
from graphwright.zoo.recipe import (
    ADAGRAD,
    ADAM,
    ADAMW,
    Optimizer,
    Recipe,
    labelled_tokens,
    masked_tokens,
    next_tokens,
    sentence_pairs,
    sgd,
)
from graphwright.zoo.rnn import BRNN, RNN, RNNTC, NasCell
from graphwright.zoo.workload import classification, token_prediction

CHARACTERS = 256
STEPS = 20
PENN_TREEBANK = 10000
"""Words of the corpus."""

# Tofu, section 7.2 (128 for the largest, 512 elsewhere); SwapAdvisor, table 5.1 (256).
RNN_BATCHES = {(8, 8192): 256, (10, 8192): 128}


def rnn(layers: int, hidden: int) -> Recipe:
    return characters(
        partial(RNN, layers=layers, hidden=hidden),
        partial(RNN, layers=2, hidden=16),
        name=f"rnn-{layers}-{_spell(hidden)}",
        family="rnn",
        source="Tofu, section 7.1 and table 2; SwapAdvisor, section 5.1",
        batch_size=RNN_BATCHES.get((layers, hidden), 512),
        description=f"{layers} LSTM layers of {hidden}, unrolled for {STEPS} steps",
    )


def brnn(layers: int, hidden: int) -> Recipe:
    return characters(
        partial(BRNN, layers=layers, hidden=hidden),
        partial(BRNN, layers=2, hidden=8),
        name=f"brnn-{layers}-{_spell(hidden)}",
        family="brnn",
        source="SwapAdvisor, section 5.1 and table 5.1",
        batch_size=128,
        description=f"{layers} bidirectional LSTM layers of {hidden}, unrolled for {STEPS} steps",
    )


def characters(
    model: Callable[..., nn.Module],
    small: Callable[..., nn.Module],
    *,
    batch_size: int,
    **facts: str,
) -> Recipe:
    """A recurrent model of characters, as Tofu and SwapAdvisor have it."""
    return Recipe(
        batch_size=batch_size,
        full=(
            partial(model, vocabulary=CHARACTERS, embedding=1024),
            next_tokens(STEPS, vocabulary=CHARACTERS),
        ),
        small=(partial(small, vocabulary=11, embedding=8), next_tokens(3, vocabulary=11)),
        loss_fn=token_prediction,
        optimizer=ADAGRAD,
        **facts,
    )


def _spell(size: int) -> str:
    return f"{size // 1024}k" if size >= 2048 and size % 1024 == 0 else str(size)


def transformer(
    name: str, size: int, heads: int, batch_size: int, source: str, optimizer: Optimizer = ADAM
) -> Recipe:
    full = partial(Transformer, layers=6, size=size, heads=heads, vocabulary=37000, length=64)
    small = partial(Transformer, layers=1, size=16, heads=2, vocabulary=13, length=5)
    return Recipe(
        name=name,
        family="transformer",
        source=source,
        batch_size=batch_size,
        description=f"encoder and decoder of 6 layers of {size}, {heads} heads, 64 positions",
        full=(full, sentence_pairs(64, vocabulary=37000)),
        small=(small, sentence_pairs(5, vocabulary=13)),
        loss_fn=token_prediction,
        optimizer=optimizer,
    )


def wide_transformer(size: int) -> Recipe | None:
    """TensorOpt gives weights (9.7 and 4.8 GB), no sizes; its VGG-16 of 0.52 shows units of 2^30.

    With the base model's six layers and one table, hidden sizes of 3840 and 2688 come nearest: 9.8
    and 4.9.
    """
    if size % 64:
        return None
    source = "TensorOpt, table 1 (9.7 GB of weights), section 5.3 (4.8 GB) and figure 7"
    return transformer(f"transformer-{size}", size, size // 64, 256, source)


def bert(name: str, layers: int, size: int, heads: int, dropout: float) -> Recipe:
    small = partial(BERT, layers=2, size=16, heads=2, vocabulary=13, length=6, dropout=dropout)
    return Recipe(
        name=name,
        family="bert",
        source="TASO, section 2.9.1; Devlin et al. 2018, section 3",
        batch_size=32,
        description=f"BERT masked language model: {layers} layers of {size}, 128 positions",
        full=(
            partial(BERT, layers=layers, size=size, heads=heads, dropout=dropout),
            masked_tokens(128, vocabulary=30522),
        ),
        small=(small, masked_tokens(6, vocabulary=13)),
        loss_fn=token_prediction,
        optimizer=ADAMW,
    )


def gpt(
    name: str,
    layers: int,
    size: int,
    heads: int,
    *,
    length: int = 1024,
    vocabulary: int = 50257,
    source: str = "Radford et al. 2019, table 2",
) -> Recipe:
    words = {"vocabulary": vocabulary, "length": length}
    return Recipe(
        name=name,
        family="gpt",
        source=source,
        batch_size=8,
        description=f"GPT-2 decoder: {layers} layers of {size}, {heads} heads, {length} positions",
        full=(
            partial(GPT, layers=layers, size=size, heads=heads, **words),
            next_tokens(length, vocabulary=vocabulary),
        ),
        small=(
            partial(GPT, layers=2, size=16, heads=2, vocabulary=13, length=6),
            next_tokens(6, vocabulary=13),
        ),
        loss_fn=token_prediction,
        optimizer=ADAMW,
    )


def sized_gpt(layers: int, width: int) -> Recipe | None:
    """Any depth and width. Heads have 64 channels as in GPT-2, from 4096 on 128 as in GPT-3."""
    channels = 64 if width < 4096 else 128
    if width % channels:
        return None
    source = "Radford et al. 2019, section 2.3; Brown et al. 2020, table 2.1 (gpt-96-12288)"
    return gpt(f"gpt-{layers}-{width}", layers, width, width // channels, source=source)


LLAMA = {
    8: {"size": 4096, "heads": 32, "inner": 14336},
    70: {"size": 8192, "heads": 64, "inner": 28672},
}


def llama(billions: int, layers: int) -> Recipe | None:
    """Llama 3 8B or 70B with fewer layers (32 and 80 are all)."""
    if billions not in LLAMA:
        return None
    full = LLAMA[billions]
    sizes = {"size": 16, "heads": 4, "shared": 2, "inner": 24, "vocabulary": 13, "length": 6}
    return Recipe(
        name=f"llama-{billions}b-{layers}",
        family="llama",
        source="Grattafiori et al. 2024, table 3; AutoParallel, example_llama3.py",
        batch_size=8,
        description=f"Llama 3 decoder of the {billions}B model's width: {layers} layers of "
        f"{full['size']}, {full['heads']} heads, 8 of keys and values, 2048 positions",
        full=(partial(Llama, layers=layers, **full), next_tokens(2048, vocabulary=128256)),
        small=(partial(Llama, layers=2, **sizes), next_tokens(6, vocabulary=13)),
        loss_fn=token_prediction,
        optimizer=ADAMW,
    )


def rnntc() -> Recipe:
    """Words of the movie reviews as counted by Kim (2014), two classes."""
    words = 18765
    return Recipe(
        name="rnntc",
        source="FlexFlow, section 3.7.1 and table 3.3",
        batch_size=64,
        description="text classification: 4 LSTM layers of 1024 (nn.LSTM), 40 steps",
        full=(
            partial(RNNTC, layers=4, hidden=1024, vocabulary=words, embedding=1024, classes=2),
            labelled_tokens(40, vocabulary=words, classes=2),
        ),
        small=(
            partial(RNNTC, layers=2, hidden=8, vocabulary=11, embedding=6, classes=2),
            labelled_tokens(3, vocabulary=11, classes=2),
        ),
        loss_fn=classification,
        optimizer=ADAM,
    )


def rnnlm(length: int = 40) -> Recipe:
    """On the Penn Treebank; of two steps in FlexFlow's check against all plans (section 3.7.5)."""
    published = length == 40
    place = "section 3.7.1 and table 3.3" if published else "section 3.7.5 (2 steps)"
    return Recipe(
        name="rnnlm" if published else f"rnnlm-{length}",
        family="rnnlm",
        source=f"FlexFlow, {place}",
        batch_size=64,
        description=f"language model: 2 LSTM layers of 2048, unrolled for {length} steps",
        full=(
            partial(RNN, layers=2, hidden=2048, vocabulary=PENN_TREEBANK, embedding=2048),
            next_tokens(length, vocabulary=PENN_TREEBANK),
        ),
        small=(
            partial(RNN, layers=2, hidden=8, vocabulary=11, embedding=8),
            next_tokens(4 if published else length, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=sgd(1.0),
    )


def nmt() -> Recipe:
    return Recipe(
        name="nmt",
        source="FlexFlow, section 3.7.1, table 3.3 and figure 3.15",
        batch_size=64,
        description="translation: 2 + 2 LSTM layers of 1024 with attention, 40 steps",
        full=(
            partial(NMT, layers=2, hidden=1024, vocabulary=32000),
            sentence_pairs(40, vocabulary=32000),
        ),
        small=(partial(NMT, layers=2, hidden=8, vocabulary=11), sentence_pairs(3, vocabulary=11)),
        loss_fn=token_prediction,
        optimizer=ADAM,
    )


def nasrnn() -> Recipe:
    searched = partial(RNN, layers=1, cell=NasCell)
    return Recipe(
        name="nasrnn",
        source="TASO, section 2.9.1; Zoph and Le 2017, section 4.2",
        batch_size=64,
        description="language model: one layer of 512 of the searched cell, 5 steps",
        full=(
            partial(searched, hidden=512, vocabulary=PENN_TREEBANK, embedding=512),
            next_tokens(5, vocabulary=PENN_TREEBANK),
        ),
        small=(
            partial(searched, hidden=8, vocabulary=11, embedding=8),
            next_tokens(3, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=sgd(1.0),
    )
