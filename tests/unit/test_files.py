"""Whole files or none, of the kind that was there; what is read is limited; folders that go."""

import gzip
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from graphwright import files
from graphwright.errors import GraphFileError, GraphFormatError
from graphwright.files import read_whole, scratch_folder, write_atomically
from limits import HANG


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("bits", [0o600, 0o664, 0o755])
def test_a_file_keeps_its_mode(tmp_path, bits):
    path = tmp_path / "graph.json"
    path.write_text("old")
    path.chmod(bits)
    write_atomically(path, b"new")
    assert (path.read_text(), mode(path)) == ("new", bits)


def test_a_new_file_has_the_usual_mode(tmp_path):
    write_atomically(tmp_path / "one", b"")
    (tmp_path / "other").touch()
    assert mode(tmp_path / "one") == mode(tmp_path / "other")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_one(tmp_path, exists):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to(Path("there") / "target")
    write_atomically(link, b"new")
    assert link.is_symlink() and target.read_text() == "new"
    assert [p.name for p in target.parent.iterdir()] == ["target"]


def test_only_plain_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "link"):
        with pytest.raises(GraphFileError, match="not a plain file"):
            write_atomically(tmp_path / name, b"x")
    with pytest.raises(GraphFileError, match="cannot write"):
        write_atomically(tmp_path / "loop", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's link")
def test_links_of_others_are_not_followed(tmp_path):
    """In a folder that all can write to, they could lead anywhere."""
    (tmp_path / "mine").write_text("old")
    (tmp_path / "link").symlink_to("mine")
    os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
    with pytest.raises(GraphFileError, match="another user's link"):
        write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "mine").read_text() == "old"


def test_gzip_of_several_members(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0")
    assert read_whole(path) == b"one two"
    for damaged in (path.read_bytes()[:-12], b"no gzip", b""):
        path.write_bytes(damaged)
        if damaged:
            with pytest.raises(GraphFormatError, match="not a complete gzip file"):
                read_whole(path)


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_what_is_read_is_limited(tmp_path, monkeypatch, name):
    monkeypatch.setattr(files, "MAX_READ_BYTES", 1 << 20)
    path = tmp_path / name
    packed = gzip.compress if name.endswith(".gz") else bytes
    path.write_bytes(packed(b" " * (1 << 20)))
    assert len(read_whole(path)) == 1 << 20
    path.write_bytes(packed(b" " * ((1 << 20) + 1)))
    with pytest.raises(GraphFormatError, match="more than 1 MiB"):
        read_whole(path)


GROWING = """
import gzip, resource, sys
from graphwright import ir
from graphwright.errors import GraphFormatError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    ir.load(sys.argv[1])
except GraphFormatError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, error)
"""


def test_a_file_that_grows_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "graph.json.gz"
    with gzip.open(path, "wb", 1) as packed:
        for _ in range(128):
            packed.write(b" " * (1 << 24))  # 2 GiB in a few MB
    done = subprocess.run(
        [sys.executable, "-c", GROWING, str(path)], capture_output=True, text=True, timeout=HANG
    )
    grown, _, said = done.stdout.partition(" ")
    assert "more than 128 MiB" in said, done
    assert int(grown) < 400


HOLDING = """
import sys, time
from graphwright.files import scratch_folder
with scratch_folder() as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    time.sleep(600)
"""


def test_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = (Path(holder.stdout.readline().strip()) for holder in holders)
    holders[0].send_signal(signal.SIGKILL)
    holders[0].wait(HANG)
    assert killed.is_dir() and mode(killed) == 0o700
    with scratch_folder() as folder:
        assert not killed.exists()
        assert living.is_dir() and folder.parent == tmp_path
    holders[1].terminate()
    holders[1].wait(HANG)
    for holder in holders:
        holder.stdout.close()
    with scratch_folder():
        assert not living.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_there_is_left_alone(tmp_path, monkeypatch):
    """A pipe of that name would be waited for; a link could lead anywhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "kept").mkdir()
    os.mkfifo(tmp_path / "graphwright-run-pipe")
    (tmp_path / "graphwright-run-file").touch()
    (tmp_path / "graphwright-run-link").symlink_to("kept")
    theirs = tmp_path / "graphwright-run-theirs"
    theirs.mkdir()
    if os.getuid() == 0:
        os.chown(theirs, 65534, 65534)
    with scratch_folder():
        pass
    names = {path.name.removeprefix("graphwright-run-") for path in tmp_path.iterdir()}
    assert names == {"kept", "pipe", "file", "link"} | ({"theirs"} if os.getuid() == 0 else set())
