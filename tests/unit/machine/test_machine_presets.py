"""The machines that come with the package, names that lead to them, and this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from graphwright.machine import (
    cluster,
    from_toml,
    inspect_machine,
    load,
    local,
    parse_quantity,
    preset_names,
    save,
    to_toml,
)

PRESETS = Path(str(files("graphwright.machine"))) / "presets"


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_is_written_back(name: str):
    preset = cluster(name)
    assert preset.name == name
    assert preset.source
    assert from_toml(to_toml(preset)) == preset
    assert cluster(f"{name}:3").levels[0].count == 3


@pytest.mark.parametrize("name", preset_names())
def test_every_figure_of_a_preset_has_a_source(name: str):
    """On its line, or on the line of its table, or in the comment above the table."""
    above = ""
    for line in next(PRESETS.glob(f"*/{name}.toml")).read_text().splitlines():
        code, _, comment = line.partition(" #")
        if line.startswith("#"):
            above = line
        elif line.startswith("["):
            above = comment or (above if line.startswith("[[link]]") else "")
        elif re.match(r"(memory|bandwidth|duplex|latency|launch|float\d+|bfloat16|int8)\b", code):
            assert comment or above, f"{name}: {line}"


def test_the_machines_of_the_papers():
    tofu = cluster("p2.8xlarge")
    assert (tofu.num_devices, tofu.devices[0].memory) == (8, 12 * 10**9)
    assert tofu.host is not None
    assert tofu.host.bandwidth == 10e9
    tensoropt = cluster("v100-2x8")
    assert [axis.size for axis in tensoropt.axes] == [2, 2, 2, 2]
    assert tensoropt.route(0, 8).bandwidth == 12.5e9
    assert [axis.size for axis in cluster("summit").axes] == [2, 3]
    assert cluster("summit:16").num_devices == 96
    assert cluster("flexflow-p100").num_devices == 16


def test_the_k80_node_is_asymmetric():
    k80 = cluster("flexflow-k80")
    names = k80.resources
    assert k80.num_devices == 64
    assert [names[r] for r in k80.route(0, 1).resources] == ["gpu 0 out", "gpu 1 in"]
    assert [names[r] for r in k80.route(1, 2).resources] == ["node 0 bus"]
    assert [names[r] for r in k80.route(0, 3).resources] == ["node 0 bus"]
    assert k80.route(3, 4).bandwidth == 7e9


def test_the_hybrid_cube_mesh():
    dgx = cluster("dgx-1v")
    nvlinks = [0] * 8
    for link in dgx.links:
        for device in link.devices:
            nvlinks[device] += round(link.bandwidth / 25e9)
    assert nvlinks == [6] * 8
    joined = {frozenset(link.devices) for link in dgx.links}
    assert all(frozenset((d, (d + 1) % 8)) in joined for d in range(8))
    quads = [{a, b} for q in (0, 4) for a in range(q, q + 4) for b in range(a + 1, q + 4)]
    assert all(quad in joined for quad in quads)
    assert dgx.route(1, 7).bandwidth == 10e9
    assert cluster("dgx-1v:2").route(8, 15) == cluster("dgx-1v:2").route(8, 15)
    assert len(cluster("dgx-1v:2").links) == 32


def test_names(tmp_path: Path):
    h100 = cluster("dgx-h100")
    assert cluster(h100) is h100
    assert cluster("dgx-h100:1") is h100
    assert cluster("dgx-h100:4").name == "dgx-h100:4"
    path = tmp_path / "mine.toml"
    save(h100, path)
    assert cluster(path) == cluster(str(path)) == load(path) == h100
    assert cluster(f"{path}:2").num_devices == 16
    assert list(tmp_path.iterdir()) == [path]


def test_local_is_the_same_every_time():
    four = cluster("local:4")
    assert four.num_devices == 4
    assert four == cluster("local:4")
    assert "estimates" in four.source
    assert four.devices[0].memory == inspect_machine().memory // 4
    assert cluster("local").num_devices == 1
    assert from_toml(to_toml(four)) == four
    total = 4 * four.devices[0].rate("float32")
    assert total == pytest.approx(cluster("local:1").devices[0].rate("float32"))


def test_inspect_machine_reads_what_the_driver_says(monkeypatch: pytest.MonkeyPatch):
    out = "NVIDIA H200, 143771, 570.1\nSomething, with a comma, [N/A], 1.0\nnonsense\n"
    done = subprocess.CompletedProcess((), 0, out, "")
    monkeypatch.setattr(local.subprocess, "run", lambda *_, **__: done)
    first, second = inspect_machine().gpus
    assert (first.name, first.memory, first.driver) == ("NVIDIA H200", 143771 << 20, "570.1")
    assert (second.name, second.memory) == ("Something, with a comma", 0)


def test_inspect_machine_without_anything(monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(local.subprocess, "run", missing)
    monkeypatch.setattr(local, "_read", lambda _: "")
    monkeypatch.delattr(local.os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(local.os, "sysconf", raising=False)
    machine = inspect_machine()
    assert machine.gpus == ()
    assert machine.cores >= 1
    assert machine.memory == local.UNKNOWN_MEMORY
    assert machine.processor


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("80GB", "size", 80 * 10**9),
        ("16GiB", "size", 16 << 30),
        ("1.5kB", "size", 1500),
        ("3.35TB/s", "bandwidth", 3.35e12),
        ("100Gb/s", "bandwidth", 12.5e9),
        ("56 Gb/s", "bandwidth", 7e9),
        ("4us", "time", 4e-6),
        ("67T", "rate", 67e12),
        (5, "time", 5),
    ],
)
def test_quantities(text: object, kind: str, value: float):
    assert parse_quantity(text, kind, "here") == value


def test_no_torch_is_needed():
    code = "import sys, graphwright.machine as m; m.cluster('local:4'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
