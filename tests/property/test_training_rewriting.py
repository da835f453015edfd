"""Rewriting a training step keeps the value of every output and update, whatever is rewritten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir import verify
from graphwright.machine import cluster
from graphwright.rewrite import Optimize
from graphwright.rewrite.training.optimize import Search
from graphwright.rewrite.training.prices import FormulaPrice
from training_models import MODELS, AnyLayers, assert_same, captured


class AnyForm(Search):
    """Takes a form of each piece that nobody chose."""

    def __init__(self, graph, rng, steps):
        super().__init__(graph, FormulaPrice(cluster("dgx-a100").devices[0]), 1.05, 1)
        self.rng, self.num_steps, self.applied = rng, steps, 0

    def best(self, outputs):
        found = super().best(outputs)
        made = outputs
        for _ in range(self.num_steps):
            changes = list(self.matcher.changes(made))
            for number in self.rng.permutation(len(changes))[:20]:
                after = self.pool.replace(made, changes[number].replaced)
                if after is not None and after != made:
                    made, self.applied = after, self.applied + 1
                    break
        return replace(found, graph=made, applied=())


def changed_at_random(graph, rng, steps=6):
    search = AnyForm(graph, rng, steps)
    changed, _ = search.run()
    verify(changed)
    assert_same(graph, changed)
    return search.applied


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_forms_of_random_convolutions_train_alike(seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 3)), 4, 5, 6)
    changed_at_random(captured(AnyLayers(seed), shape), rng)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_forms_of_known_models_train_alike(name, seed):
    make, shape = MODELS[name]
    optimizer = torch.optim.Adam if seed % 2 else torch.optim.SGD
    graph = captured(make(), shape, optimizer)
    assert changed_at_random(graph, np.random.default_rng(seed)) > 0


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_the_pass_finds_trains_alike_and_is_found_again(seed):
    graph = captured(AnyLayers(seed), (1, 4, 5, 6))
    changed = Optimize(budget=20).apply(graph)
    assert_same(graph, changed)
    assert Optimize(budget=20).apply(graph).program_hash == changed.program_hash
