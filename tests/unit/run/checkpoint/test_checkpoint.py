"""Checkpoints of one process, without a process group."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from graphwright.errors import InvalidShard
from graphwright.ir import TensorType
from graphwright.plans import Mesh, Sharding, replicated
from graphwright.run.checkpoint.dtensors import torch_cuts
from graphwright.run.checkpoint.save_load import latest, load, load_into_module, save
from graphwright.run.checkpoint.shards import Shard, distinct_boxes

ONE = Mesh((0,), (1,))


def whole(name, tensor):
    type = TensorType(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
    return Shard(name=name, type=type, sharding=replicated(ONE), local=tensor)


def shards_of(**tensors):
    return {name: whole(name, tensor) for name, tensor in tensors.items()}


VALUES = {
    "float32": torch.linspace(-1, 1, 12).reshape(3, 4),
    "float64": torch.linspace(-1, 1, 5, dtype=torch.float64),
    "bfloat16": torch.linspace(-1, 1, 7).bfloat16(),
    "float16": torch.linspace(-1, 1, 7).half(),
    "float8": torch.linspace(-1, 1, 6).to(torch.float8_e4m3fn),
    "complex64": torch.complex(torch.arange(3.0), torch.ones(3)),
    "int64": torch.tensor([2**62, -1, 0]),
    "uint8": torch.arange(250, 256, dtype=torch.uint8),
    "bool": torch.tensor([[True, False]]),
    "scalar": torch.tensor(3.25, dtype=torch.float64),
    "counter": torch.tensor(7),
    "empty": torch.zeros(0, 4),
    "not.a.number": torch.tensor([float("nan"), float("inf"), -0.0]),
}


def test_every_kind_of_tensor_comes_back_bit_for_bit(tmp_path):
    path = save(
        tmp_path, 3, shards_of(**VALUES), extra={"seed": 5, "nested": {"a": [1, 2.5, None]}}
    )
    found = {name: torch.empty_like(tensor) for name, tensor in VALUES.items()}
    for tensor in found.values():
        tensor.view(-1).view(torch.uint8).fill_(1)
    assert load(path, shards_of(**found)) == {"seed": 5, "nested": {"a": [1, 2.5, None]}}
    for name, tensor in VALUES.items():
        bits = [t.reshape(-1).view(torch.uint8) for t in (found[name], tensor)]
        assert torch.equal(*bits), name


def test_views_and_parameters_are_saved_and_filled(tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    path = save(tmp_path, 0, shards_of(t=base.t(), strided=base[:, ::2]))
    parameter = nn.Parameter(torch.zeros(6, 4))
    large = torch.zeros(8, 6)
    load(path, shards_of(t=parameter, strided=large[::2, ::2]))
    assert torch.equal(parameter, base.t())
    assert parameter.is_leaf and parameter.requires_grad
    assert torch.equal(large[::2, ::2], base[:, ::2])
    assert large[1::2].count_nonzero() == 0


def test_only_the_view_is_written_not_what_it_is_a_view_of(tmp_path):
    path = save(tmp_path, 0, shards_of(corner=torch.zeros(1000, 1000)[:2, :2]))
    assert sum(file.stat().st_size for file in path.iterdir()) < 20_000


def test_the_newest_is_the_one_saved_last_also_after_going_back(tmp_path):
    assert latest(tmp_path / "nothing") is None
    for step in (10, 20, 15):
        newest = save(tmp_path, step, shards_of(x=torch.tensor(float(step))))
        assert latest(tmp_path) == newest
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "000001-step-10",
        "000002-step-20",
        "000003-step-15",
    ]
    x = torch.tensor(0.0)
    load(tmp_path, shards_of(x=x))
    assert x == 15
    load(tmp_path / "000002-step-20", shards_of(x=x))
    assert x == 20


def test_a_step_can_be_saved_twice(tmp_path):
    first = save(tmp_path, 1, shards_of(x=torch.tensor(1.0)))
    second = save(tmp_path, 1, shards_of(x=torch.tensor(2.0)))
    assert first != second
    assert latest(tmp_path) == second


def test_keep_leaves_the_newest_only(tmp_path):
    for step in range(5):
        save(tmp_path, step, shards_of(x=torch.tensor(float(step))), keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000004-step-3", "000005-step-4"]
    save(tmp_path, 5, shards_of(x=torch.tensor(5.0)))
    assert len(list(tmp_path.iterdir())) == 3


def test_keep_touches_nothing_that_is_no_checkpoint(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "000001-step-0").mkdir()
    (tmp_path / "000001-step-0" / "mine.txt").write_text("not a checkpoint")
    for step in range(3):
        save(tmp_path, step, shards_of(x=torch.tensor(1.0)), keep=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000001-step-0", "000004-step-2", "notes"]


def test_one_without_its_index_is_not_the_newest(tmp_path):
    first = save(tmp_path, 1, shards_of(x=torch.tensor(1.0)))
    second = save(tmp_path, 2, shards_of(x=torch.tensor(2.0)))
    (second / "graphwright.json").unlink()
    assert latest(tmp_path) == first


def test_the_pickle_beside_is_never_read(tmp_path):
    path = save(tmp_path, 1, shards_of(x=torch.tensor(4.0)))
    (path / ".metadata").write_bytes(b"not a pickle")
    x = torch.tensor(0.0)
    load(path, shards_of(x=x))
    assert x == 4


def test_pytorch_reads_it_too(tmp_path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    path = save(tmp_path, 1, shards_of(x=torch.arange(4.0), n=torch.tensor(2)))
    dcp_to_torch_save(path, tmp_path / "all.pt")
    found = torch.load(tmp_path / "all.pt", weights_only=True)
    assert torch.equal(found["x"], torch.arange(4.0))
    assert found["n"] == 2


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.norm = nn.BatchNorm1d(3)
        self.last = nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("mask", torch.ones(3), persistent=False)


def test_into_a_plain_module_past_optimizer_and_loss(tmp_path):
    source, target = Tied(), Tied()
    with torch.no_grad():
        for tensor in [*source.parameters(), *source.buffers()]:
            tensor.copy_(torch.rand(tensor.shape) * 9)
    tensors = dict(source.named_parameters()) | dict(source.named_buffers())
    tensors |= {
        "first.weight.exp_avg": torch.ones(3, 3),
        "optimizer.step.0": torch.tensor(1.0),
        "loss_fn.weight": torch.ones(2),
    }
    save(tmp_path, 1, shards_of(**tensors), extra={"epoch": 2})
    assert load_into_module(tmp_path, target) == {"epoch": 2}
    for name, tensor in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], tensor), name
    assert torch.equal(target.mask, source.mask)
    assert target.last.weight is target.first.weight


def test_what_is_left_of_a_killed_save_is_removed_by_the_next(tmp_path):
    left = tmp_path / ".saving-00000000"
    left.mkdir()
    (left / "__0_0.distcp").write_bytes(b"half")
    save(tmp_path, 1, shards_of(x=torch.tensor(1.0)))
    assert [p.name for p in tmp_path.iterdir()] == ["000001-step-1"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    import fcntl

    busy = tmp_path / ".saving-00000000"
    busy.mkdir()
    descriptor = os.open(busy, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        save(tmp_path, 1, shards_of(x=torch.tensor(1.0)))
    finally:
        os.close(descriptor)
    assert busy.is_dir()


def test_chunks_that_overlap_are_each_held_to_account_once():
    sharding = Sharding(Mesh((0, 1, 2), (3,)), ("S0",), ((0, ((0, 4), (3, 7), (6, 10))),))
    assert distinct_boxes(sharding, (10,), "x")[:, 0].tolist() == [[0, 4], [4, 7], [7, 10]]
    inside = Sharding(Mesh((0, 1, 2), (3,)), ("S0",), ((0, ((0, 8), (3, 5), (8, 10))),))
    assert distinct_boxes(inside, (10,), "x")[:, 0].tolist() == [[0, 8], [5, 5], [8, 10]]
    gap = Sharding(Mesh((0, 1), (2,)), ("S0",), ((0, ((0, 4), (5, 10))),))
    with pytest.raises(InvalidShard, match="gap after 4"):
        distinct_boxes(gap, (10,), "x")


def test_the_cuts_of_dtensor_are_those_of_torch_chunk():
    mesh = Mesh((0, 1, 2, 3), (4,))
    assert dict(torch_cuts(Sharding(mesh, ("S0",)), (10,)).pieces) == {
        0: ((0, 3), (3, 6), (6, 9), (9, 10))
    }
    assert torch_cuts(Sharding(mesh, ("S0",)), (8,)).pieces == ()
    square = Mesh((0, 1, 2, 3), (2, 2))
    assert dict(torch_cuts(Sharding(square, ("S0", "S0")), (5,)).pieces) == {
        0: ((0, 2), (2, 3), (3, 4), (4, 5))
    }


def test_the_index_says_where_everything_is(tmp_path):
    path = save(tmp_path, 12, shards_of(x=torch.zeros(2, 3)), extra={"a": 1})
    index = json.loads((path / "graphwright.json").read_text())
    assert (index["format"], index["version"], index["step"]) == ("graphwright checkpoint", 1, 12)
    (chunk,) = index["tensors"]["x"]["chunks"]
    assert index["tensors"]["x"]["type"] == "float32[2, 3]"
    assert (chunk["start"], chunk["sizes"], chunk["file"]) == ([0, 0], [2, 3], "__0_0.distcp")
    with (path / chunk["file"]).open("rb") as file:
        file.seek(chunk["offset"])
        assert file.read(2) == b"PK"
        assert chunk["bytes"] == path.joinpath(chunk["file"]).stat().st_size


def test_importing_it_does_not_import_the_checkpoints_of_pytorch():
    program = (
        "import sys, graphwright.run.checkpoint.save_load, graphwright.run.checkpoint.dtensors\n"
        "print('torch.distributed.checkpoint' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
