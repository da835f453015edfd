"""Clipping, accumulation, autocast, steps without an example and loaders: what is refused, and in which words."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

import graphwright as gw
from graphwright.errors import (
    BatchMismatch,
    InvalidAccumulation,
    InvalidAutocast,
    InvalidBatch,
    InvalidClipping,
    InvalidLoader,
    InvalidOption,
    PlanMismatch,
    UnsupportedModel,
)
from graphwright.partition import replicate
from graphwright.run import World, shard_loader

HERE = World(rank=0, size=2, local_rank=0, device=torch.device("cpu"), backend="gloo")


def model_and_batch():
    return nn.Linear(4, 3), (torch.zeros(6, 4), torch.zeros(6, dtype=torch.int64))


def refused(error, **options):
    model, batch = model_and_batch()
    with pytest.raises(error) as found:
        gw.capture(model, F.cross_entropy, batch, **options)
    return str(found.value)


@pytest.mark.parametrize("clip_norm", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_bound_of_a_norm_is_a_number_above_zero(clip_norm):
    message = refused(InvalidClipping, clip_norm=clip_norm)
    assert "number above zero" in message
    assert repr(clip_norm) in message


def test_accumulation_that_does_not_divide_the_batch_names_what_would():
    message = refused(InvalidAccumulation, accumulate=4)
    assert "accumulate=4 does not divide the batch" in message
    assert "inputs.0 has 6 samples" in message
    assert "2 or 3 or 6" in message


@pytest.mark.parametrize("accumulate", [0, -2, 1.5, True, "2"])
def test_a_number_of_micro_batches_is_one(accumulate):
    assert repr(accumulate) in refused(InvalidAccumulation, accumulate=accumulate)


def test_batch_dims_have_to_be_there_and_agree():
    message = refused(InvalidAccumulation, accumulate=2, batch_dim=1)
    assert "targets.0 has shape [6]" in message
    assert "batch_dim={'targets.0': None}" in message
    message = refused(InvalidAccumulation, accumulate=2, batch_dim={"inputs.0": 1})
    assert "targets.0 has 6 samples along dim 0, but inputs.0 has 4" in message
    message = refused(InvalidAccumulation, accumulate=2, batch_dim={"inputs.x": 1})
    assert "batch_dim names inputs.x, but the batch has inputs.0, targets.0" in message
    none = {"inputs.0": None, "targets.0": None}
    assert "nothing to cut" in refused(InvalidAccumulation, accumulate=2, batch_dim=none)


def test_an_empty_batch_cannot_be_cut():
    batch = (torch.zeros(0, 4), torch.zeros(0, 3))
    with pytest.raises(InvalidAccumulation, match="0 samples"):
        gw.capture(nn.Linear(4, 3), F.mse_loss, batch, accumulate=2)


@pytest.mark.parametrize("dtype", [torch.float32, "bfloat16", True])
def test_autocast_is_a_dtype_of_16_bits(dtype):
    assert "torch.bfloat16 or torch.float16" in refused(InvalidAutocast, autocast=dtype)


@pytest.mark.parametrize("option", [{"clip_norm": 1.0}, {"accumulate": 2}])
def test_inference_has_no_gradients(option):
    with pytest.raises(InvalidBatch, match="captures inference"):
        gw.capture(nn.Linear(4, 3), inputs=torch.zeros(6, 4), **option)


# Steps


def planned(**options):
    model, batch = model_and_batch()
    graph = gw.capture(model, F.cross_entropy, batch, optimizer=torch.optim.SGD, **options)
    return model, batch, graph, replicate(graph, "local:1")


def test_a_first_batch_that_is_a_part_asks_for_an_example():
    model, batch, _, plan = planned()
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.SGD)
    with pytest.raises(BatchMismatch, match=r"inputs.0 \[3, 4\].*whole.*batch=.*graph="):
        step((batch[0][:3], batch[1][:3]))
    step(batch)  # and nothing has been broken


def test_one_tensor_that_is_given_twice_is_two_inputs():
    x, model = torch.randn(4, 3), nn.Linear(3, 3)
    graph = gw.capture(model, F.mse_loss, (x, x), optimizer=torch.optim.SGD)
    plan = replicate(graph, "local:1")
    step = gw.compile(plan, model, F.mse_loss, torch.optim.SGD, batch=(x, x))
    expected = F.mse_loss(model(x), x).item()
    assert step((x, x)).item() == pytest.approx(expected)
    with torch.no_grad():
        expected = F.mse_loss(step.gather()(x), x + 1).item()
    assert step((x, x + 1)).item() == pytest.approx(expected)


def test_one_tensor_that_is_given_twice_is_not_written_to():
    class Writes(nn.Linear):
        def forward(self, x):
            return super().forward(x.add_(1))

    x = torch.randn(4, 3)
    with pytest.raises(UnsupportedModel, match=r"inputs.0 and targets.0 .* are one tensor"):
        gw.capture(Writes(3, 3), F.mse_loss, (x, x), optimizer=torch.optim.SGD)


@pytest.mark.parametrize("seed", ["x", -1, 2**63, 1.0])
def test_seeds_that_are_none_are_refused_before_anything_is_made(seed):
    model, batch, _, plan = planned()
    with pytest.raises(InvalidOption, match=r"seed=.* is no seed; give a whole number from 0"):
        gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, batch=batch, seed=seed)


def test_a_batch_with_more_in_it_than_was_captured():
    model, batch, graph, plan = planned()
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, graph=graph)
    with pytest.raises(
        BatchMismatch, match=r"unexpected inputs.1; the captured batch has inputs.0, targets.0"
    ):
        step(((batch[0], torch.zeros(6)), batch[1]))
    step(batch)


@pytest.mark.parametrize(
    "option",
    [
        {"clip_norm": 1.0},
        {"accumulate": 2},
        {"autocast": torch.bfloat16},
        {"mixed_precision": torch.bfloat16},
    ],
)
def test_options_belong_to_the_graph(option):
    model, batch, graph, plan = planned()
    with pytest.raises(InvalidOption, match=f"{next(iter(option))}=.*captured already"):
        gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, graph=graph, **option)
    with pytest.raises(PlanMismatch, match="clip_norm, accumulate, autocast or mixed_precision"):
        gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, batch=batch, **option)


# Loaders


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


def test_a_stream_has_no_parts():
    with pytest.raises(InvalidLoader, match="Stream is a stream"):
        shard_loader(Stream(), HERE, batch_size=2)


@pytest.mark.parametrize("batch_size", [None, 0])
def test_a_world_does_not_know_the_batch(batch_size):
    with pytest.raises(InvalidLoader, match="size of the whole batch"):
        shard_loader(TensorDataset(torch.zeros(4)), HERE, batch_size=batch_size)


def test_a_dataset_smaller_than_a_batch():
    with pytest.raises(InvalidLoader, match="3 samples, less than one batch of 4; drop_last=False"):
        shard_loader(TensorDataset(torch.zeros(3)), HERE, batch_size=4)
    with pytest.raises(InvalidLoader, match=r"0 samples, less than one batch of 4$"):
        shard_loader(TensorDataset(torch.zeros(0)), HERE, batch_size=4, drop_last=False)


def test_a_plan_is_for_one_batch_size():
    model, _, graph, plan = planned()
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, graph=graph)
    dataset = TensorDataset(torch.zeros(20, 4), torch.zeros(20, dtype=torch.int64))
    with pytest.raises(InvalidLoader, match="batches of 6, not of 5"):
        shard_loader(dataset, step, batch_size=5)
    with pytest.raises(InvalidLoader, match=r"inputs.0 4, targets.0 6"):
        shard_loader(dataset, step, batch_dim={"inputs.0": 1})
    fewer = lambda samples: tuple(t[:-1] for t in torch.utils.data.default_collate(samples))
    with pytest.raises(InvalidLoader, match=r"inputs.0 has 5 samples along dim 0, but 6 were read"):
        next(iter(shard_loader(dataset, step, collate_fn=fewer)))
