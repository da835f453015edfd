"""Damaged files through every reader: an error of ours or the whole value, never anything else.

Bits are flipped, bytes lost and added, fields of JSON and TOML replaced by what cannot be there;
the same ones in every test run. A bigger hunt: `hunt(seed, count)` with other seeds.
"""

import copy
import gzip
import json
import random
import resource
import time
import warnings

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import graphwright as gw
from graphwright import ir
from graphwright.cli import app
from graphwright.errors import GraphwrightError
from graphwright.machine import Measurement, Store
from graphwright.machine import load as load_cluster
from graphwright.machine import save as save_cluster
from graphwright.machine.measured import save_table, table_from_json, table_of
from graphwright.plans import Frontier, Mesh, Plan, replicated
from graphwright.run import load_into_module
from graphwright.run.checkpoint import DamagedCheckpoint, load_step, save
from graphwright.run.checkpoint.shards import Shard

MOST_BYTES = 600 << 20
MOST_SECONDS = 60.0
ODD = [None, True, -1, 0, 2**31, 2**63, 10**400, -(10**400), 1e308, 1e-320, 0.5, float("inf"),
       float("nan"), "", "x", "a" * 5000, "☃", [], {}, [[]], [None], {"a": 1}, "9" * 500,
       "float32[999999999999, 99999999]", "1e999GB/s", "aten.mm", "aten.nothing"]  # fmt: skip
ODD_BYTES = [b"9" * 400, b"1e999", b"-", b"[", b"{", b'"', b"\\u0000", b"[" * 100_000]


def damage_bytes(draw, data):
    """Cut it off, or flip bits, remove and insert bytes."""
    changed = bytearray(data)
    if draw.random() < 0.25:
        return bytes(changed[: draw.randrange(len(changed))])
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(len(changed))
        match draw.randrange(4):
            case 0 | 1:
                changed[at] ^= 1 << draw.randrange(8)
            case 2:
                del changed[at : at + draw.randrange(1, 20)]
            case _:
                changed[at:at] = draw.choice([bytes([draw.randrange(256)]), *ODD_BYTES])
        changed = changed or bytearray(b"x")
    return bytes(changed)


def paths(tree, path=()):
    if path:
        yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from paths(value, (*path, key))


def damage_json(draw, data):
    """Replace, remove or double a field, or put another field's value in its place."""
    document = json.loads(data)
    everywhere = list(paths(document))
    *way, last = draw.choice(everywhere)
    place = document
    for key in way:
        place = place[key]
    match draw.randrange(6):
        case 0:
            del place[last]
        case 1 if isinstance(place, list):
            place.insert(last, copy.deepcopy(place[last]))
        case 2:
            value = document
            for key in draw.choice(everywhere):
                value = value[key]
            place[last] = copy.deepcopy(value)
        case _:
            place[last] = draw.choice(ODD)
    return json.dumps(document).encode()


def damage(draw, data):
    try:
        json.loads(data)
    except ValueError:
        return damage_bytes(draw, data)
    return (damage_json if draw.random() < 0.7 else damage_bytes)(draw, data)


def judge(read, *arguments):
    """Whether something was read; all that a damaged file may do is raise an error of ours."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        read(*arguments)
        return True
    except GraphwrightError:
        return False
    finally:
        assert time.monotonic() - began < MOST_SECONDS
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown << 10 < MOST_BYTES


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(8, 4), nn.Linear(4, 3)

    def forward(self, tokens):
        return self.layer(self.table(tokens).transpose(0, 1).relu().sum(0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One whole file of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    batch = torch.zeros(6, 2, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    graph = gw.capture(Small(), nn.functional.cross_entropy, batch, optimizer=torch.optim.SGD)
    ir.save(graph, folder / "graph.json")
    (folder / "graph.json.gz").write_bytes(gzip.compress((folder / "graph.json").read_bytes()))
    (folder / "graph.txt").write_text(ir.to_text(graph))
    frontier = gw.plan(graph, "local:2")
    frontier.save(folder / "frontier.json")
    frontier.fastest().save(folder / "plan.json")
    save_cluster(gw.cluster("dgx-h100"), folder / "cluster.toml")
    store = Store(folder / "costs.sqlite")
    measured = Measurement(seconds=1e-3, spread=0.0, repeats=3)
    store.put_compute("cpu", "2", "aten.mm", "", "", measured)
    store.put_collective(gw.cluster("local:2").hash, "all_reduce", "1x2, 1 contenders", 4, measured)
    table = table_of(
        store, devices=["cpu"], on=gw.cluster("local:2"), source="here", measured_with="2"
    )
    save_table(table, folder / "table.json")
    return folder


def use_store(path):
    store = Store(path)
    store.load_compute("cpu", "2")
    store.load_collective(gw.cluster("local:2").hash)
    store.counts()


READERS = {
    "graph.json": ir.load,
    "graph.json.gz": ir.load,
    "graph.txt": lambda path: ir.parse_text(path.read_text("utf-8", "replace")),
    "plan.json": Plan.load,
    "frontier.json": Frontier.load,
    "cluster.toml": load_cluster,
    "costs.sqlite": use_store,
    "table.json": lambda path: table_from_json(path.read_text("utf-8", "replace"), "table"),
}


def hunt(whole, name, tmp_path, seed, count):
    draw, path = random.Random(f"{seed} {name}"), tmp_path / name
    data = (whole / name).read_bytes()
    refused = 0
    for _ in range(count):
        path.write_bytes(damage(draw, data))
        refused += not judge(READERS[name], path)
    return refused


@pytest.mark.parametrize("name", READERS)
def test_readers(whole, name, tmp_path):
    assert judge(READERS[name], whole / name)
    assert hunt(whole, name, tmp_path, seed=1, count=60) > 20


VERBS = {
    "graph.json": [["plan", "?", "--cluster", "local:2", "--objective", "time"],
                   ["simulate", "?", "--cluster", "local:2"]],
    "plan.json": [["explain", "?", "graph.json"], ["simulate", "graph.json", "--plan", "?"]],
    "frontier.json": [["explain", "?", "graph.json", "--pick", "fastest"],
                      ["diff", "?", "frontier.json", "graph.json"]],
    "cluster.toml": [["doctor", "--cluster", "?"],
                     ["simulate", "graph.json", "--cluster", "?"]],
}  # fmt: skip


@pytest.mark.parametrize("name", VERBS)
def test_verbs(whole, name, tmp_path):
    draw, path = random.Random(name), tmp_path / name
    data = (whole / name).read_bytes()
    for number in range(16):
        path.write_bytes(damage(draw, data))
        for verb in VERBS[name]:
            words = [str(path) if w == "?" else str(whole / w) if w in READERS else w for w in verb]
            done = CliRunner().invoke(app, words)
            ended = isinstance(done.exception, GraphwrightError | SystemExit | None)
            assert ended, (number, words, path.read_bytes()[:2000], done.exc_info)


def test_checkpoints(tmp_path):
    """Whatever is damaged: all values of one checkpoint, or an error."""

    def shards(value):
        return {
            name: Shard(
                name=name,
                type=ir.TensorType(shape, "float32"),
                sharding=replicated(Mesh((0,), (1,))),
                local=torch.full(shape, value),
            )
            for name, shape in {"weight": (16, 6), "bias": (16,)}.items()
        }

    for number in (1, 2):
        extra = {"num_steps": number, "seed": 0}
        save(tmp_path, number, shards(float(number)), extra=extra)
    newest = tmp_path / "000002-step-2"
    draw, module = random.Random(0), nn.Linear(6, 16)
    originals = {
        file: (newest / file).read_bytes() for file in ("graphwright.json", "__0_0.distcp")
    }
    for number in range(120):
        file = draw.choice(list(originals))
        data = originals[file]
        if file.endswith("json") and number % 2:  # as older ones are, without a checksum
            document = json.loads(data)
            del document["checksum"]
            data = json.dumps(document).encode()
        (newest / file).write_bytes(damage(draw, data))
        into = shards(0.0)

        def load(into=into):
            step, _ = load_step(newest, into)
            values = {float(value) for shard in into.values() for value in shard.local.flatten()}
            assert values == {2.0}, step

        judge(load)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedCheckpoint)
            load_into_module(tmp_path, module)
        assert float(module.weight.detach().mean()) in (1.0, 2.0)
        (newest / file).write_bytes(originals[file])
