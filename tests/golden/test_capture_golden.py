"""The captured training step of small models, as text: any change of capture shows as a difference."""

import pytest

from graphwright import zoo
from graphwright.ir import to_text, verify

MODELS = ("mlp", "lenet", "resnet50", "rnn-8-8k", "gpt2", "dlrm")


@pytest.mark.parametrize("name", MODELS)
def test_captured_step(name, golden):
    graph = zoo.load(name, small=True).capture()
    verify(graph)
    golden(f"capture/{name}.txt", to_text(graph) + "\n")
