"""Checkpoints that cannot be written, read or used: what is said, and that nothing is lost or changed."""

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import data, integers, lists
from torch import nn

from graphwright.errors import (
    CheckpointError,
    CheckpointMismatch,
    CheckpointNotSaved,
    InvalidCheckpoint,
    InvalidOption,
    InvalidShard,
)
from graphwright.ir import TensorType
from graphwright.plans import Mesh, Sharding, replicated
from graphwright.run.checkpoint import DamagedCheckpoint, load_step
from graphwright.run.checkpoint.save_load import latest, load, load_into_module, save
from graphwright.run.checkpoint.shards import Shard, cover_once
from limits import HANG

ONE = Mesh((0,), (1,))


def shards_of(**tensors):
    return {
        name: Shard(
            name=name,
            type=TensorType(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")),
            sharding=replicated(ONE),
            local=tensor,
        )
        for name, tensor in tensors.items()
    }


@pytest.fixture
def saved(tmp_path):
    return save(tmp_path / "run", 5, shards_of(a=torch.ones(4, 2), b=torch.ones(3)))


# Other tensors


def refused(path, **tensors):
    """Loading is refused and changes nothing."""
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    with pytest.raises(CheckpointMismatch) as caught:
        load(path, shards_of(**tensors))
    for name, tensor in tensors.items():
        assert torch.equal(tensor, before[name]), name
    assert str(path) in str(caught.value)
    return caught.value


def test_missing_names_are_named_and_nothing_is_changed(saved):
    error = refused(saved, a=torch.zeros(4, 2), b=torch.zeros(3), c=torch.zeros(1))
    assert (error.missing, error.extra, error.mismatched) == (("c",), (), ())
    assert "it lacks c" in str(error)


def test_extra_names_are_named_and_nothing_is_changed(saved):
    error = refused(saved, a=torch.zeros(4, 2))
    assert (error.missing, error.extra, error.mismatched) == ((), ("b",), ())
    assert "nothing asks for b" in str(error)


def test_another_shape_is_shown_beside_the_one_wanted(saved):
    error = refused(saved, a=torch.zeros(2, 4), b=torch.zeros(3))
    assert error.mismatched == ("a",)
    assert "a (float32[4, 2] there, float32[2, 4] here)" in str(error)


def test_another_dtype_is_not_converted(saved):
    error = refused(saved, a=torch.zeros(4, 2), b=torch.zeros(3, dtype=torch.bfloat16))
    assert error.mismatched == ("b",)
    assert "b (float32[3] there, bfloat16[3] here)" in str(error)


def test_many_names_are_counted(saved):
    error = refused(saved, **{f"n{i:02}": torch.zeros(1) for i in range(30)})
    assert len(error.missing) == 30
    assert "n07 and 22 more" in str(error)


def test_another_module(tmp_path):
    model = nn.Linear(3, 2)
    save(tmp_path, 1, shards_of(**dict(model.named_parameters())))
    other = nn.Sequential(nn.Linear(3, 2))
    before = other[0].weight.clone()
    with pytest.raises(CheckpointMismatch) as caught:
        load_into_module(tmp_path, other)
    assert caught.value.missing == ("0.weight", "0.bias")
    assert caught.value.extra == ("bias", "weight")
    assert torch.equal(other[0].weight, before)
    with pytest.raises(CheckpointMismatch, match="nothing asks for bias"):
        load_into_module(tmp_path, nn.Linear(3, 2, bias=False))
    with pytest.raises(InvalidShard, match="to_empty"):
        load_into_module(tmp_path, nn.Linear(3, 2, device="meta"))


# No checkpoint, or half of one


def test_what_is_not_there(tmp_path):
    with pytest.raises(InvalidCheckpoint, match="does not exist"):
        load(tmp_path / "nowhere", {})


def test_a_folder_without_checkpoints(tmp_path):
    with pytest.raises(InvalidCheckpoint, match=r"holds none.*graphwright\.json"):
        load(tmp_path, {})


def test_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidCheckpoint, match="is not a folder"):
        load(tmp_path / "file", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\x80\x04", "cannot read"),
        (b"[]", "not the index"),
        (b'{"format": "something"}', "not the index"),
        (b'{"format": "graphwright checkpoint", "version": 99}', "version 99"),
        (b'{"format": "graphwright checkpoint", "version": 1}', "damaged.*step"),
    ],
)
def test_an_index_that_is_none(saved, text, message):
    (saved / "graphwright.json").write_bytes(text)
    with pytest.raises(InvalidCheckpoint, match=message):
        load(saved, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda chunk: chunk.update(start=[1, 0]), "outside of float32"),
        (lambda chunk: chunk.update(sizes=[3, 2]), "do not make the whole"),
        (lambda chunk: chunk.update(sizes=[4]), "damaged"),
        (lambda chunk: chunk.update(file="../../outside"), "not a place in this folder"),
        (lambda chunk: chunk.update(offset=-1), "not a place in this folder"),
        (lambda chunk: chunk.pop("bytes"), "damaged.*bytes"),
    ],
)
def test_an_index_that_was_changed(saved, change, message):
    file = saved / "graphwright.json"
    index = json.loads(file.read_text())
    change(index["tensors"]["a"]["chunks"][0])
    file.write_text(json.dumps(index))
    with pytest.raises(InvalidCheckpoint, match=message):
        load(saved, shards_of(a=torch.zeros(4, 2), b=torch.zeros(3)))


def rewrite(saved, change, *, keep_checksum=False):
    """Change the index; without a checksum it is as one of an older version."""
    file = saved / "graphwright.json"
    index = json.loads(file.read_text())
    if not keep_checksum:
        del index["checksum"]
    change(index)
    file.write_text(json.dumps(index))


@pytest.mark.parametrize(
    "boxes",
    [
        [([0, 0], [2, 2]), ([1, 0], [2, 2])],  # one row twice, one not at all
        [([0, 0], [3, 2]), ([2, 0], [2, 1])],
        [([0, 0], [4, 2]), ([1, 1], [0, 1]), ([0, 0], [4, 2])],
        [([0, 0], [2, 1]), ([0, 1], [3, 1]), ([2, 0], [2, 1]), ([2, 1], [1, 1])],
    ],
)
def test_chunks_that_overlap(saved, boxes):
    def overlap(index):
        first = index["tensors"]["a"]["chunks"][0]
        chunks = [{**first, "start": start, "sizes": sizes} for start, sizes in boxes]
        index["tensors"]["a"]["chunks"] = chunks

    rewrite(saved, overlap)
    a = torch.zeros(4, 2)
    with pytest.raises(InvalidCheckpoint, match="do not make the whole of it, each part once"):
        load(saved, shards_of(a=a, b=torch.zeros(3)))
    assert not a.any()


@given(data())
def test_only_boxes_that_cover_everything_once_do(data):
    """Against a count of every element: grids that are cut at random, and the same with one moved."""
    shape = tuple(data.draw(lists(integers(1, 5), min_size=1, max_size=3)))

    def cut(box, depth):
        dim = data.draw(integers(0, len(box) - 1))
        start, stop = box[dim]
        if not depth or stop - start < 2:
            return [box]
        at = data.draw(integers(start + 1, stop - 1))
        halves = [(*box[:dim], side, *box[dim + 1 :]) for side in ((start, at), (at, stop))]
        return [part for half in halves for part in cut(half, depth - 1)]

    boxes = cut(tuple((0, size) for size in shape), 4)
    assert cover_once(boxes, shape)
    moved = data.draw(integers(0, len(boxes) - 1))
    dim = data.draw(integers(0, len(shape) - 1))
    start, stop = boxes[moved][dim]
    to = data.draw(integers(0, shape[dim] - (stop - start)))
    boxes[moved] = (*boxes[moved][:dim], (to, to + stop - start), *boxes[moved][dim + 1 :])
    times = torch.zeros(shape)
    for box in boxes:
        times[tuple(slice(*side) for side in box)] += 1
    assert cover_once(boxes, shape) == bool((times == 1).all())


def test_interlocked_boxes():
    """No cut along a dim separates these."""
    wheel = [
        ((0, 2), (0, 1)),
        ((2, 3), (0, 2)),
        ((1, 3), (2, 3)),
        ((0, 1), (1, 3)),
        ((1, 2), (1, 2)),
    ]
    assert cover_once(wheel, (3, 3))
    assert not cover_once([*wheel[:4], ((0, 1), (2, 3))], (3, 3))


@pytest.mark.parametrize("key", ["a", "b"])
def test_every_bit_of_the_index_counts(saved, key):
    file = saved / "graphwright.json"
    data = file.read_bytes()
    target = {"a": torch.zeros(4, 2), "b": torch.zeros(3)}
    for position in range(0 if key == "a" else 1, len(data), 2):
        for bit in (0, 3, 6):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            file.write_bytes(changed)
            with pytest.raises(InvalidCheckpoint):
                load(saved, shards_of(**target))
    assert not target["a"].any() and not target["b"].any()


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b'{"format": ' + b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000],
)
def test_an_index_nested_or_long_beyond_reason(saved, text):
    (saved / "graphwright.json").write_bytes(text)
    with pytest.raises(InvalidCheckpoint, match="cannot read"):
        load(saved, {})


@pytest.mark.parametrize(
    "extra", [{}, {"num_steps": float("inf")}, {"num_steps": 10**400}, {"num_steps": -1},
              {"num_steps": True}, {"num_steps": "5"}, {"num_steps": 5, "seed": None},
              {"num_steps": 5, "seed": float("nan")}, {"num_steps": [[]]}],
)  # fmt: skip
def test_a_step_does_not_go_on_from_a_number_that_is_none(tmp_path, extra):
    saved = save(tmp_path, 5, shards_of(a=torch.ones(2)), extra={"seed": 0, **extra})
    a = torch.zeros(2)
    with pytest.raises(InvalidCheckpoint, match="not the checkpoint of a training step"):
        load_step(saved, shards_of(a=a))
    assert not a.any()


def test_the_newest_that_is_whole_is_read_and_said(tmp_path):
    for value in (1, 2, 3):
        save(tmp_path, value, shards_of(a=torch.full((64,), float(value))), extra={"at": value})
    one, two, three = sorted(tmp_path.iterdir())
    file = three / "__0_0.distcp"
    data = bytearray(file.read_bytes())
    data[data.index(torch.full((4,), 3.0).numpy().tobytes())] ^= 1
    file.write_bytes(data)
    (two / "graphwright.json").write_text("{")
    a = torch.zeros(64)
    with pytest.warns(DamagedCheckpoint) as warned:
        assert load(tmp_path, shards_of(a=a)) == {"at": 1}
    assert torch.equal(a, torch.ones(64))
    said = [str(warning.message) for warning in warned]
    assert str(three) in said[0] and "checksum" in said[0] and str(two) in said[1]
    assert all(f"going on from {one}" in text for text in said)
    module = nn.Module()
    module.register_buffer("a", torch.zeros(64))
    with pytest.warns(DamagedCheckpoint):
        assert load_into_module(tmp_path, module) == {"at": 1}
    with pytest.raises(
        InvalidCheckpoint, match="is damaged"
    ) as caught:  # named, it is not replaced
        load(three, shards_of(a=a))
    assert caught.value.partly_loaded
    (one / "graphwright.json").unlink()
    with pytest.raises(InvalidCheckpoint, match="000003-step-3") as caught:
        load(tmp_path, shards_of(a=a))


def test_a_record_that_would_grow(saved):
    """What torch.save writes is not compressed: a zip that grows is not its work."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as records:
        records.writestr("archive/data/0", b"\0" * (64 << 20))
    (saved / "__0_0.distcp").write_bytes(packed.getvalue())

    def point(index):
        for entry in index["tensors"].values():
            entry["chunks"][0].update(offset=0, bytes=len(packed.getvalue()))

    rewrite(saved, point)
    with pytest.raises(InvalidCheckpoint, match="records are larger"):
        load(saved, shards_of(a=torch.zeros(4, 2), b=torch.zeros(3)))


def test_half_copied(saved):
    file = saved / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-10])
    a = torch.zeros(4, 2)
    with pytest.raises(InvalidCheckpoint, match=r"not complete: __0_0.distcp has \d+ bytes of \d+"):
        load(saved, shards_of(a=a, b=torch.zeros(3)))
    assert not a.any()
    file.unlink()
    with pytest.raises(InvalidCheckpoint, match=r"not complete: __0_0\.distcp cannot be read"):
        load(saved, shards_of(a=a, b=torch.zeros(3)))


def test_damaged_bytes_are_found(saved):
    file = saved / "__0_0.distcp"
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(InvalidCheckpoint, match="is damaged: a cannot be read from byte 0"):
        load(saved, shards_of(a=torch.zeros(4, 2), b=torch.zeros(3)))


def test_one_bit_that_has_changed_is_found(tmp_path):
    a = torch.arange(8.0)
    path = save(tmp_path, 1, shards_of(a=a))
    file = path / "__0_0.distcp"
    written = bytearray(file.read_bytes())
    place = bytes(written).index(a.numpy().tobytes())
    written[place + 5] ^= 1
    file.write_bytes(written)
    with pytest.raises(
        InvalidCheckpoint, match=r"is damaged: a .*the checksum of .* does not match"
    ):
        load(path, shards_of(a=torch.zeros(8)))


def test_checksums_are_written_where_they_are_turned_off(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        path = save(tmp_path, 1, shards_of(a=torch.arange(8.0)))
        assert torch.serialization.get_crc32_options() is False
    finally:
        torch.serialization.set_crc32_options(True)
    found = torch.zeros(8)
    load(path, shards_of(a=found))
    assert torch.equal(found, torch.arange(8.0))


class Trap:
    def __reduce__(self):
        return os.system, ("touch trapped",)


def test_a_pickle_in_place_of_a_tensor_is_not_run(saved, monkeypatch):
    monkeypatch.chdir(saved)
    file = saved / "__0_0.distcp"
    torch.save(Trap(), file)
    document = json.loads((saved / "graphwright.json").read_text())
    for entry in document["tensors"].values():
        entry["chunks"][0].update(offset=0, bytes=file.stat().st_size)
    (saved / "graphwright.json").write_text(json.dumps(document))
    with pytest.raises(InvalidCheckpoint, match="is damaged"):
        load(saved, shards_of(a=torch.zeros(4, 2), b=torch.zeros(3)))
    assert not (saved / "trapped").exists()


def test_another_tensor_in_its_place(saved):
    file = saved / "graphwright.json"
    index = json.loads(file.read_text())
    index["tensors"]["a"]["chunks"], index["tensors"]["b"]["chunks"] = (
        [{**index["tensors"]["b"]["chunks"][0], "start": [0, 0], "sizes": [4, 2]}],
        index["tensors"]["b"]["chunks"],
    )
    del index["checksum"]  # as in older checkpoints
    file.write_text(json.dumps(index))
    with pytest.raises(InvalidCheckpoint, match="holds something other than a"):
        load(saved, shards_of(a=torch.zeros(4, 2), b=torch.zeros(3)))


# Not written


def check_former(directory, former, error):
    assert isinstance(error, CheckpointError)
    assert error.former == str(former)
    assert f"the one before, {former}, is as it was" in str(error)
    assert [p.name for p in directory.iterdir()] == [former.name]
    a, b = torch.zeros(4, 2), torch.zeros(3)
    load(directory, shards_of(a=a, b=b))
    assert a.eq(1).all() and b.eq(1).all()


def test_a_file_that_grows_too_large(saved):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(CheckpointNotSaved, match="rank 0: File too large") as caught:
            save(saved.parent, 6, shards_of(big=torch.zeros(1_000_000)), keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_former(saved.parent, saved, caught.value)


FULL = """
import sys, subprocess, torch
sys.path[:0] = {path!r}
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", {folder!r}], check=True)
print("mounted", flush=True)
from pathlib import Path
from graphwright.errors import CheckpointNotSaved
from test_checkpoint_errors import check_former, shards_of
from graphwright.run.checkpoint.save_load import save
run = Path({folder!r}) / "run"
former = save(run, 1, shards_of(a=torch.ones(4, 2), b=torch.ones(3)))
for size in (1_000_000, 70_000, 60_000):
    try:
        save(run, 2, shards_of(big=torch.zeros(size)))
    except CheckpointNotSaved as error:
        assert "No space left on device" in str(error), error
        check_former(run, former, error)
        print("refused", flush=True)
"""


def test_a_disk_that_is_full(tmp_path):
    program = FULL.format(path=[str(Path(__file__).parent), *sys.path], folder=str(tmp_path))
    command = [
        "unshare",
        "--map-root-user",
        "--mount",
        sys.executable,
        "-W",
        "error",
        "-c",
        program,
    ]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here to make a small disk with")
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    if "mounted" not in done.stdout:
        pytest.skip(f"a small disk cannot be made here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") >= 2


def test_a_folder_that_may_not_be_written(saved):
    directory = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(saved, directory / saved.name)
        directory.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # root may write everywhere, so become somebody else
            os.seteuid(65534)
        try:
            with pytest.raises(CheckpointNotSaved, match="Permission denied") as caught:
                save(directory, 6, shards_of(a=torch.zeros(4, 2)))
        finally:
            os.seteuid(user)
        check_former(directory, directory / saved.name, caught.value)
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointNotSaved, match=r"File exists.*none before") as caught:
        save(tmp_path / "file", 1, shards_of(a=torch.zeros(1)))
    assert caught.value.former is None
    assert (tmp_path / "file").read_text() == "mine"


# Asked for in a wrong way


def shard(**changes):
    fields = {"name": "x", "type": TensorType((4, 2), "float32"), "sharding": replicated(ONE)}
    return Shard(**{**fields, "local": torch.zeros(4, 2), **changes})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            shard(local=torch.zeros(2, 2)),
            r"rank 0 holds float32\[4, 2\] at \[0:4, 0:2\].*float32\[2, 2\]",
        ),
        (shard(local=torch.zeros(4, 2).double()), r"is float64\[4, 2\]"),
        (shard(local=torch.zeros(4, 2, device="meta")), "meta tensor"),
        (shard(local=torch.zeros(4, 2).to_sparse()), "sparse tensor"),
        (shard(name="y"), "the shard of y is given under the name x"),
        (shard(sharding=Sharding(ONE, ("P(sum)",))), r"x is \[P\(sum\)\].*reduce it"),
        (
            shard(sharding=Sharding(Mesh((0, 1), (2,)), ("S0",)), local=torch.zeros(2, 2)),
            r"devices \(0, 1\), but there are 1 processes",
        ),
    ],
)
def test_parts_that_cannot_be(tmp_path, wrong, message):
    with pytest.raises(InvalidShard, match=message):
        save(tmp_path, 1, {"x": wrong})
    assert latest(tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0}, "keep=0"),
        ({"extra": {"x": torch.zeros(1)}}, "extra cannot be written as JSON.*Tensor"),
        ({"step_number": -1}, "step -1"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, message):
    with pytest.raises(InvalidOption, match=message):
        save(tmp_path, **{"step_number": 1, "shards": {}, **options})
    assert not list(tmp_path.iterdir())
