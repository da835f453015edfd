"""Checkpoints between real processes: saved by so many, loaded by other numbers, under other cuts.

Every world of processes saves the same tensors under shardings of its own; every other loads all of these, and compares its parts with
slices of the whole. Gloo over loopback; the processes find each other through a file.
"""

import json
import os
import signal
import traceback
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

from graphwright.errors import CheckpointMismatch, CheckpointNotSaved, InvalidShard
from graphwright.ir import TensorType
from graphwright.plans import Mesh, Sharding, boxes, replicated
from graphwright.run.checkpoint import folder as checkpoint_folder
from graphwright.run.checkpoint import write as checkpoint_write
from graphwright.run.checkpoint.dtensors import from_dtensor, reshard, to_dtensor
from graphwright.run.checkpoint.save_load import latest, load, load_into_module, save
from graphwright.run.checkpoint.shards import Shard
from limits import HANG

WORLDS = (0, 1, 2, 3, 4)  # 0: one process without a process group


# Processes


def serve(rank, pipe):
    """One process: joins the worlds that it is told to, one after the other."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    while (task := pipe.recv()) is not None:
        meet, size, work, arguments = task
        try:
            dist.init_process_group(
                "gloo", init_method=f"file://{meet}", rank=rank, world_size=size
            )
            outcome = work(rank, size, *arguments)
            dist.barrier()
            dist.destroy_process_group()
            pipe.send((outcome, None))
        except BaseException:
            pipe.send((None, traceback.format_exc()))
            return


class Pool:
    """Processes that stay for several worlds, for it takes them seconds to import what they need."""

    def __init__(self, folder):
        self.folder = folder
        self.members = {}

    def member(self, rank):
        if rank not in self.members or not self.members[rank][0].is_alive():
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, theirs), daemon=True)
            process.start()
            theirs.close()
            self.members[rank] = (process, ours)
        return self.members[rank]

    def run(self, size, work, *arguments):
        """`work(rank, size, ...)` in so many processes; results by rank, "dead" for one that died."""
        if size == 0:
            return [work(0, 1, *arguments)]
        meet = self.folder / os.urandom(4).hex()
        pipes = [self.member(rank)[1] for rank in range(size)]
        for pipe in pipes:
            pipe.send((meet, size, work, arguments))
        outcomes = [self.answer(rank, size) for rank in range(size)]
        if any(failure or outcome == "dead" for outcome, failure in outcomes):
            self.end()  # nobody knows what state they are in
        for rank, (_, failure) in enumerate(outcomes):
            assert failure is None, f"rank {rank} of {size}:\n{failure}"
        return [outcome for outcome, _ in outcomes]

    def answer(self, rank, size):
        process, pipe = self.members[rank]
        if not pipe.poll(HANG):
            process.kill()
            return None, "hangs"
        try:
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            return "dead", None

    def end(self):
        for process, _ in self.members.values():
            process.kill()
            process.join()
        self.members.clear()


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    made = Pool(tmp_path_factory.mktemp("meetings"))
    yield made
    made.end()


# Tensors


def number(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    return (torch.rand(shape, generator=generator) * 200 - 100).to(dtype)


WHOLE = {
    "replicated": number((5, 3), torch.float32, 1),
    "rows": number((7, 3), torch.float32, 2),
    "columns": number((4, 10), torch.bfloat16, 3),
    "tiles": number((5, 9), torch.float64, 4),
    "nested": number((11, 2), torch.int64, 5),
    "few": number((2,), torch.int32, 6),
    "scalar": number((), torch.float64, 7),
    "flag": number((), torch.bool, 8),
    "mask": number((6, 5), torch.bool, 9),
    "halo": number((10, 2), torch.float32, 10),
    "none": number((0, 4), torch.float32, 11),
    "some": number((6, 2), torch.float16, 12),
    "backwards": number((13,), torch.uint8, 13),
}


def shardings(size):
    """A sharding for every tensor, other ones for every number of processes."""
    row = Mesh(tuple(range(size)), (size,))
    square = Mesh(tuple(range(size)), (2, 2) if size == 4 else (1, size))
    cuts = [10 * part // size for part in range(size + 1)]
    around = tuple((max(0, a - 1), min(10, b + 1)) for a, b in pairwise(cuts))
    first = size % 2  # odd and even worlds split along other dims
    return {
        "replicated": replicated(row),
        "rows": Sharding(row, ("S0",)),
        "columns": Sharding(row, (f"S{first}",)),
        "tiles": Sharding(square, ("S0", "S1") if first else ("S1", "S0")),
        "nested": Sharding(square, ("S0", "S0")),
        "few": Sharding(row, ("S0",)),
        "scalar": replicated(row),
        "flag": replicated(square),
        "mask": Sharding(square, ("R", "S0") if first else ("S1", "R")),
        "halo": Sharding(row, ("S0",), ((0, around),)),
        "none": Sharding(row, ("S1",)),
        "some": Sharding(Mesh(tuple(range(size // 2 + 1)), (size // 2 + 1,)), ("S0",)),
        "backwards": Sharding(Mesh(tuple(reversed(range(size))), (size,)), ("S0",)),
    }


def part_of(whole, sharding, rank):
    position = sharding.mesh.devices.index(rank)
    box = boxes(sharding, tuple(whole.shape))[position].tolist()
    return whole[tuple(slice(start, stop) for start, stop in box)].clone()


def shards(rank, size, tensors=WHOLE, **other):
    made = {}
    for name, sharding in {**shardings(size), **other}.items():
        if name in tensors and rank in sharding.mesh.devices:
            whole = tensors[name]
            type = TensorType(tuple(whole.shape), str(whole.dtype).removeprefix("torch."))
            local = part_of(whole, sharding, rank)
            made[name] = Shard(name=name, type=type, sharding=sharding, local=local)
    return made


def saving(rank, size, folder):
    return save(folder / f"by-{size}", 7, shards(rank, size), extra={"by": size})


def loading(rank, size, paths):
    for by, path in paths.items():
        wanted = shards(rank, size)
        for shard in wanted.values():
            shard.local.view(-1).view(torch.uint8).fill_(1)
        assert load(path, wanted) == {"by": max(by, 1)}
        for name, shard in wanted.items():
            assert torch.equal(shard.local, part_of(WHOLE[name], shard.sharding, rank)), (by, name)
    return len(wanted)


@pytest.fixture(scope="module")
def saved(pool, tmp_path_factory):
    """By every world, one checkpoint."""
    folder = tmp_path_factory.mktemp("saved")
    paths = {}
    for size in WORLDS:
        (path, *others) = pool.run(size, saving, folder / str(size))
        assert all(other == path for other in others)
        paths[size] = path
    return paths


@pytest.mark.parametrize("size", WORLDS)
def test_every_world_loads_what_every_other_saved(size, saved, pool):
    counts = pool.run(size, loading, saved)
    assert max(counts) == len(WHOLE)


@pytest.mark.parametrize("size", WORLDS)
def test_everything_is_written_once_and_by_all(size, saved):
    index = json.loads((saved[size] / "graphwright.json").read_text())
    files = set()
    for name, entry in index["tensors"].items():
        elements = sum(torch.Size(chunk["sizes"]).numel() for chunk in entry["chunks"])
        assert elements == WHOLE[name].numel(), name
        files |= {chunk["file"] for chunk in entry["chunks"]}
    assert len(index["tensors"]["replicated"]["chunks"]) == 1
    assert len(index["tensors"]["rows"]["chunks"]) == max(size, 1)
    assert files == {f"__{rank}_0.distcp" for rank in range(max(size, 1))}


# Modules


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 5)
        self.norm = nn.BatchNorm1d(5)


def tensors_of(model):
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items()}


def seeded_model():
    torch.manual_seed(4)
    model = Model()
    model.norm(model.layer(torch.randn(6, 7)))
    return model


def saving_model(rank, size, folder):
    tensors = tensors_of(seeded_model()) | {"layer.weight.exp_avg": torch.ones(5, 7)}
    row = Mesh(tuple(range(size)), (size,))
    chosen = {n: Sharding(row, ("S0",)) if t.dim() else replicated(row) for n, t in tensors.items()}
    return save(folder, 1, shards(rank, size, tensors, **chosen))


def test_a_split_model_loads_into_a_plain_module(pool, tmp_path):
    pool.run(3, saving_model, tmp_path / "checkpoints")
    torch.manual_seed(5)
    model = Model()
    load_into_module(tmp_path / "checkpoints", model)
    for name, tensor in seeded_model().state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


# What goes wrong


def keep_saving(rank, size, folder):
    return [save(folder, step, shards(rank, size), keep=2).name for step in range(4)]


def refused(rank, size, saved, folder):
    """The same error in all processes, also where only one has the reason; and nothing was changed."""
    found = []
    wanted = shards(rank, size)
    before = {name: shard.local.fill_(1).clone() for name, shard in wanted.items()}
    if rank == 1:
        more = replicated(Mesh((1,), (1,)))
        wanted |= shards(1, size, {"more": torch.ones(2)}, more=more)
    for attempt in (
        lambda: load(saved, wanted),
        lambda: save(folder, 1, {n: s for n, s in wanted.items() if rank == 0 or n != "rows"}),
    ):
        with pytest.raises((CheckpointMismatch, InvalidShard)) as caught:
            attempt()
        found.append(str(caught.value))
    for name, tensor in before.items():
        assert torch.equal(wanted[name].local, tensor), name
    return found, folder.exists()


def test_an_error_of_one_process_is_raised_in_all(saved, pool, tmp_path):
    first, second = pool.run(2, refused, saved[3], tmp_path / "never")
    assert first == second
    (mismatch, silent), written = first
    assert "lacks more" in mismatch
    assert "rows" in silent and "[1]" in silent
    assert not written


def killed(rank, size, folder, who):
    save(folder, 1, shards(rank, size))
    if who == "writer" and rank == 1:
        die_at(checkpoint_write.BoxSavePlanner, "lookup_object", 3)
    if who == "first" and rank == 0:  # everything is written, and the name not yet given
        die_at(checkpoint_folder, "_flush", 1)
    with pytest.raises(CheckpointNotSaved) as caught:
        save(
            folder,
            2,
            shards(
                rank, size, {n: t + 1 if t.dtype != torch.bool else ~t for n, t in WHOLE.items()}
            ),
        )
    (folder.parent / f"{rank}.message").write_text(str(caught.value))
    os._exit(0)  # the process group is broken: nothing more can be done together


def die_at(owner, name, call):
    """Kill this process, as nothing can catch it, at the so-manieth call of a function."""
    original, calls = getattr(owner, name), []

    def dying(*arguments):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(owner, name, dying)


@pytest.mark.parametrize("who", ["writer", "first"])
def test_killed_while_saving_leaves_the_one_before(who, pool, tmp_path):
    folder = tmp_path / "checkpoints"
    assert pool.run(2, killed, folder, who) == ["dead", "dead"]
    former = folder / "000001-step-1"
    assert latest(folder) == former
    survivor = 0 if who == "writer" else 1
    message = (tmp_path / f"{survivor}.message").read_text()
    assert not (tmp_path / f"{1 - survivor}.message").exists()
    assert f"the one before, {former}, is as it was" in message
    wanted = shards(0, 1)
    for shard in wanted.values():
        shard.local.view(-1).view(torch.uint8).fill_(1)
    load(folder, wanted)
    for name, shard in wanted.items():
        assert torch.equal(shard.local, WHOLE[name]), name
    assert bool(list(folder.glob(".saving-*"))) == (who == "first")
    save(folder, 3, shards(0, 1))
    assert not list(folder.glob(".saving-*"))
    assert latest(folder) == folder / "000002-step-3"


def test_several_processes_keep_the_newest(pool, tmp_path):
    folder = tmp_path / "checkpoints"
    first, second = pool.run(2, keep_saving, folder)
    assert first == second
    assert sorted(p.name for p in folder.iterdir()) == first[-2:]


# DTensors


def as_dtensors(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, distribute_tensor
    from torch.distributed.tensor import Shard as Cut

    shapes = [(size,), (1, size), (2, 2) if size == 4 else (size, 1)]
    compared = 0
    for shape in shapes:
        mesh = Mesh(tuple(range(size)), shape)
        device_mesh = init_device_mesh("cpu", shape)
        words = {
            1: [("S0",), ("S1",), ("R",)],
            2: [("S0", "S0"), ("S0", "S1"), ("S1", "R"), ("S1", "S1"), ("R", "S0")],
        }
        for placements in words[len(shape)]:
            for whole in (
                number((11, 7), torch.float32, 1),
                number((3, 10), torch.bfloat16, 2),
                number((2, 5), torch.int64, 3),
            ):
                sharding = Sharding(mesh, placements)
                (shard,) = shards(rank, size, {"x": whole}, x=sharding).values()
                made = to_dtensor(shard, device_mesh)
                theirs = [Replicate() if p == "R" else Cut(int(p[1])) for p in placements]
                wanted = distribute_tensor(whole, device_mesh, theirs)
                assert made.placements == wanted.placements
                assert made.shape == whole.shape and made.stride() == wanted.stride()
                assert torch.equal(made.to_local(), wanted.to_local()), (shape, placements)
                assert torch.equal(made.full_tensor(), whole)
                back = from_dtensor("x", wanted)
                assert torch.equal(back.local, part_of(whole, back.sharding, rank))
                ours = from_dtensor("x", wanted, sharding)
                assert torch.equal(ours.local, shard.local) and ours.sharding == sharding
                compared += 1
        if len(shape) == 2:  # terms stay terms, and only their cuts move
            whole = number((7, 3), torch.float64, 4)
            sharding = Sharding(mesh, ("P(sum)", "S0"))
            term = rank // shape[1] + 1.0  # another one in every row of the mesh
            (shard,) = shards(rank, size, {"x": whole * term}, x=sharding).values()
            made = to_dtensor(shard, device_mesh)
            assert made.placements == (Partial("sum"), Cut(0))
            assert torch.allclose(made.full_tensor(), whole * sum(range(1, shape[0] + 1)))
            back = from_dtensor("x", made, sharding)
            assert back.sharding == sharding and torch.equal(back.local, shard.local)
    halo = shards(rank, size)["halo"]
    columns = reshard(halo, Sharding(halo.sharding.mesh, ("S1",)))
    assert torch.equal(columns.local, part_of(WHOLE["halo"], columns.sharding, rank))
    assert torch.equal(reshard(columns, halo.sharding).local, halo.local)
    rows, other_mesh = shards(rank, size)["rows"], init_device_mesh("cpu", (1, size))
    if size == 1:  # one device is one device, along any number of axes
        assert torch.equal(to_dtensor(rows, other_mesh).to_local(), WHOLE["rows"])
    else:
        with pytest.raises(InvalidShard, match="init_device_mesh"):
            to_dtensor(rows, other_mesh)
    return compared


@pytest.mark.parametrize("size", [1, 3, 4])
def test_as_a_dtensor_and_back(size, pool):
    assert all(count > 20 for count in pool.run(size, as_dtensors))
