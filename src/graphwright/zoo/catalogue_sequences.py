"""Recipes of the recurrent and attention models, one function each.

FlexFlow (section 3.7.1) gives layers, hidden sizes and 40 steps for its three recurrent models, and
a batch of 64 per GPU; embeddings have the hidden size here. TASO's NasRNN is one layer of 512 for 5
steps.
"""

from functools import partial

import torch

from graphwright.zoo.attention import BERT, GPT, Transformer
from graphwright.zoo.llama import Llama
from graphwright.zoo.nmt import NMT
from graphwright.zoo.recipe import (
    Recipe,
    Variant,
    labelled_tokens,
    masked_tokens,
    next_tokens,
    sentence_pairs,
    small,
)
from graphwright.zoo.rnn import BRNN, RNN, RNNTC, NasCell
from graphwright.zoo.workload import Entry, classification, token_prediction

ADAGRAD = {"lr": 0.01}
ADAM = {"lr": 1e-4}

CHARACTERS = 256
STEPS = 20


# Tofu, section 7.2 (128 for the largest, 512 elsewhere); SwapAdvisor, table 5.1 (256).
RNN_BATCHES = {(8, 8192): 256, (10, 8192): 128}


def rnn(layers: str, hidden: str) -> Recipe | None:
    depth, size = int(layers), _hidden_size(hidden)
    if depth < 1 or size < 1:
        return None
    return Recipe(
        entry=Entry(
            name=f"rnn-{depth}-{_spell(size)}",
            family="rnn",
            source="Tofu, section 7.1 and table 2; SwapAdvisor, section 5.1",
            batch_size=RNN_BATCHES.get((depth, size), 512),
            description=f"{depth} LSTM layers of {size}, unrolled for {STEPS} steps",
        ),
        full=Variant(
            build=partial(RNN, layers=depth, hidden=size, vocabulary=CHARACTERS, embedding=1024),
            batch=next_tokens(STEPS, vocabulary=CHARACTERS),
        ),
        small=small(
            partial(RNN, layers=2, hidden=16, vocabulary=11, embedding=8),
            next_tokens(3, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.Adagrad,
        optimizer_options=ADAGRAD,
    )


def brnn(layers: str, hidden: str) -> Recipe | None:
    depth, size = int(layers), _hidden_size(hidden)
    if depth < 1 or size < 1:
        return None
    return Recipe(
        entry=Entry(
            name=f"brnn-{depth}-{_spell(size)}",
            family="brnn",
            source="SwapAdvisor, section 5.1 and table 5.1",
            batch_size=128,
            description=f"{depth} bidirectional LSTM layers of {size}, unrolled for {STEPS} steps",
        ),
        full=Variant(
            build=partial(BRNN, layers=depth, hidden=size, vocabulary=CHARACTERS, embedding=1024),
            batch=next_tokens(STEPS, vocabulary=CHARACTERS),
        ),
        small=small(
            partial(BRNN, layers=2, hidden=8, vocabulary=11, embedding=8),
            next_tokens(3, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.Adagrad,
        optimizer_options=ADAGRAD,
    )


def _hidden_size(text: str) -> int:
    return int(text[:-1]) * 1024 if text.endswith("k") else int(text)


def _spell(size: int) -> str:
    return f"{size // 1024}k" if size >= 2048 and size % 1024 == 0 else str(size)


def transformer(name: str, size: int, heads: int, batch_size: int, source: str) -> Recipe:
    return Recipe(
        entry=Entry(
            name=name,
            family="transformer",
            source=source,
            batch_size=batch_size,
            description=f"encoder and decoder of 6 layers of {size}, {heads} heads, 64 positions",
        ),
        full=Variant(
            build=partial(
                Transformer, layers=6, size=size, heads=heads, vocabulary=37000, length=64
            ),
            batch=sentence_pairs(64, vocabulary=37000),
        ),
        small=small(
            partial(Transformer, layers=1, size=16, heads=2, vocabulary=13, length=5),
            sentence_pairs(5, vocabulary=13),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.Adam,
        optimizer_options=ADAM,
    )


def wide_transformer(size: str) -> Recipe | None:
    """TensorOpt gives weights (9.7 and 4.8 GB), no sizes; its VGG-16 of 0.52 shows units of 2^30.

    With the base model's six layers and one table, hidden sizes of 3840 and 2688 come nearest: 9.8
    and 4.9.
    """
    hidden = int(size)
    if hidden < 64 or hidden % 64:
        return None
    source = "TensorOpt, table 1 (9.7 GB of weights), section 5.3 (4.8 GB) and figure 7"
    return transformer(f"transformer-{hidden}", hidden, hidden // 64, 256, source)


def bert(name: str, layers: int, size: int, heads: int, dropout: float) -> Recipe:
    return Recipe(
        entry=Entry(
            name=name,
            family="bert",
            source="TASO, section 2.9.1; Devlin et al. 2018, section 3",
            batch_size=32,
            description=f"BERT masked language model: {layers} layers of {size}, 128 positions",
        ),
        full=Variant(
            build=partial(BERT, layers=layers, size=size, heads=heads, dropout=dropout),
            batch=masked_tokens(128, vocabulary=30522),
        ),
        small=small(
            partial(BERT, layers=2, size=16, heads=2, vocabulary=13, length=6, dropout=dropout),
            masked_tokens(6, vocabulary=13),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.AdamW,
        optimizer_options=ADAM,
    )


def gpt(
    name: str,
    layers: int,
    size: int,
    heads: int,
    *,
    length: int = 1024,
    vocabulary: int = 50257,
    batch_size: int = 8,
    source: str = "Radford et al. 2019, table 2",
) -> Recipe:
    return Recipe(
        entry=Entry(
            name=name,
            family="gpt",
            source=source,
            batch_size=batch_size,
            description=f"GPT-2 decoder: {layers} layers of {size}, {heads} heads, "
            f"{length} positions",
        ),
        full=Variant(
            build=partial(
                GPT, layers=layers, size=size, heads=heads, vocabulary=vocabulary, length=length
            ),
            batch=next_tokens(length, vocabulary=vocabulary),
        ),
        small=small(
            partial(GPT, layers=2, size=16, heads=2, vocabulary=13, length=6),
            next_tokens(6, vocabulary=13),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.AdamW,
        optimizer_options=ADAM,
    )


def sized_gpt(layers: str, width: str) -> Recipe | None:
    """Any depth and width. Heads have 64 channels as in GPT-2, from 4096 on 128 as in GPT-3."""
    depth, size = int(layers), int(width)
    channels = 64 if size < 4096 else 128
    if depth < 1 or size < channels or size % channels:
        return None
    source = "Radford et al. 2019, section 2.3; Brown et al. 2020, table 2.1 (gpt-96-12288)"
    return gpt(f"gpt-{depth}-{size}", depth, size, size // channels, source=source)


def llama(layers: str) -> Recipe | None:
    """Llama 3 8B with fewer layers (32 are all)."""
    depth = int(layers)
    if depth < 1:
        return None
    return Recipe(
        entry=Entry(
            name=f"llama-8b-{depth}",
            family="llama",
            source="Grattafiori et al. 2024, table 3; AutoParallel, example_llama3.py",
            batch_size=8,
            description=f"Llama 3 decoder of the 8B model's width: {depth} layers of 4096, "
            "32 heads, 8 of keys and values, 2048 positions",
        ),
        full=Variant(
            build=partial(Llama, layers=depth), batch=next_tokens(2048, vocabulary=128256)
        ),
        small=small(
            partial(Llama, layers=2, size=16, heads=4, shared=2, inner=24, vocabulary=13, length=6),
            next_tokens(6, vocabulary=13),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.AdamW,
        optimizer_options=ADAM,
    )


def rnntc() -> Recipe:
    """Words of the movie reviews as counted by Kim (2014), two classes."""
    sizes = {"layers": 4, "hidden": 1024, "vocabulary": 18765, "embedding": 1024, "classes": 2}
    return Recipe(
        entry=Entry(
            name="rnntc",
            family="rnntc",
            source="FlexFlow, section 3.7.1 and table 3.3",
            batch_size=64,
            description="text classification: 4 LSTM layers of 1024 (nn.LSTM), 40 steps",
        ),
        full=Variant(
            build=partial(RNNTC, **sizes),
            batch=labelled_tokens(40, vocabulary=18765, classes=2),
        ),
        small=small(
            partial(RNNTC, layers=2, hidden=8, vocabulary=11, embedding=6, classes=2),
            labelled_tokens(3, vocabulary=11, classes=2),
        ),
        loss_fn=classification,
        optimizer=torch.optim.Adam,
        optimizer_options=ADAM,
    )


def rnnlm_of(steps: str) -> Recipe | None:
    """Of two steps in FlexFlow's check against all plans (section 3.7.5)."""
    length = int(steps)
    return rnnlm(length) if length > 0 else None


def rnnlm(length: int = 40) -> Recipe:
    """The 10,000 words of the Penn Treebank."""
    published = length == 40
    return Recipe(
        entry=Entry(
            name="rnnlm" if published else f"rnnlm-{length}",
            family="rnnlm",
            source="FlexFlow, section 3.7.1 and table 3.3"
            if published
            else "FlexFlow, section 3.7.5 (2 steps)",
            batch_size=64,
            description=f"language model: 2 LSTM layers of 2048, unrolled for {length} steps",
        ),
        full=Variant(
            build=partial(RNN, layers=2, hidden=2048, vocabulary=10000, embedding=2048),
            batch=next_tokens(length, vocabulary=10000),
        ),
        small=small(
            partial(RNN, layers=2, hidden=8, vocabulary=11, embedding=8),
            next_tokens(4 if published else length, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.SGD,
        optimizer_options={"lr": 1.0},
    )


def nmt() -> Recipe:
    return Recipe(
        entry=Entry(
            name="nmt",
            family="nmt",
            source="FlexFlow, section 3.7.1, table 3.3 and figure 3.15",
            batch_size=64,
            description="translation: 2 + 2 LSTM layers of 1024 with attention, 40 steps",
        ),
        full=Variant(
            build=partial(NMT, layers=2, hidden=1024, vocabulary=32000),
            batch=sentence_pairs(40, vocabulary=32000),
        ),
        small=small(
            partial(NMT, layers=2, hidden=8, vocabulary=11), sentence_pairs(3, vocabulary=11)
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.Adam,
        optimizer_options=ADAM,
    )


def nasrnn() -> Recipe:
    return Recipe(
        entry=Entry(
            name="nasrnn",
            family="nasrnn",
            source="TASO, section 2.9.1; Zoph and Le 2017, section 4.2",
            batch_size=64,
            description="language model: one layer of 512 of the searched cell, 5 steps",
        ),
        full=Variant(
            build=partial(RNN, layers=1, hidden=512, vocabulary=10000, embedding=512, cell=NasCell),
            batch=next_tokens(5, vocabulary=10000),
        ),
        small=small(
            partial(RNN, layers=1, hidden=8, vocabulary=11, embedding=8, cell=NasCell),
            next_tokens(3, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=torch.optim.SGD,
        optimizer_options={"lr": 1.0},
    )
