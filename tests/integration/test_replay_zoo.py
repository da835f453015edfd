"""Every model of the zoo, small: captured, replayed for three steps, and compared with eager training."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import torch

import eager
from graphwright import capture, zoo
from graphwright.aten.batches import map_tensors
from graphwright.ir import Role

pytestmark = pytest.mark.filterwarnings("ignore:no description")


def as_float64(tree: Any) -> Any:
    return map_tensors(lambda t: t.double() if t.is_floating_point() else t, tree)


@pytest.mark.parametrize("name", zoo.names())
def test_three_steps_equal_eager_training(name: str) -> None:
    torch.manual_seed(0)
    workload = zoo.load(name, small=True, device="cpu")
    eager.assert_trains_alike(
        workload.model.double(),
        workload.loss_fn,
        as_float64(workload.batch),
        workload.optimizer,
        dict(workload.optimizer_options),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wresnet-152-10", "rnn-8-8k", "gpt2-xl"])
def test_full_size_allocates_nothing(name: str) -> None:
    workload = zoo.load(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = capture.capture(
        workload.model,
        workload.loss_fn,
        workload.batch,
        optimizer=workload.optimizer,
        optimizer_options=workload.optimizer_options,
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
    weights = sum(
        tensor.type.nbytes
        for tensor in map(graph.tensors.__getitem__, graph.inputs)
        if tensor.role is Role.PARAMETER
    )
    assert len(graph.nodes) > 5_000
    assert weights > 4e9
    assert grown * 1024 < weights / 4
