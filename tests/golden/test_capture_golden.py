"""The captured training step of small models, as text: any change of capture shows as a difference."""

import pytest

from graphwright import zoo
from graphwright.capture import capture
from graphwright.ir import to_text, verify

MODELS = ("mlp", "lenet", "resnet50", "rnn-8-8k", "gpt2", "dlrm")


@pytest.mark.parametrize("name", MODELS)
def test_captured_step(name, golden):
    workload = zoo.load(name, small=True)
    graph = capture(
        workload.model,
        workload.loss_fn,
        workload.batch,
        optimizer=workload.optimizer,
        optimizer_options=workload.optimizer_options,
    )
    verify(graph)
    golden(f"capture/{name}.txt", to_text(graph) + "\n")
