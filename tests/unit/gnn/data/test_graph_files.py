"""Graphs in files: what is loaded is what was saved, damage is refused, nothing is executed."""

import json
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, heterographs, pairs
from graphwright.gnn.data import InvalidDataFile, MissingData, split_dataset
from graphwright.gnn.data.utils import (
    add_nodepred_split,
    load_info,
    load_labels,
    load_tensors,
    makedirs,
    save_info,
    save_tensors,
)


def same(one, other):
    assert (one.meta, one.idtype, type(one)) == (other.meta, other.idtype, type(other))
    for etype in one.canonical_etypes:
        assert pairs(one, etype) == pairs(other, etype)
    for mine, theirs in zip(
        (*one._node_frames, *one._edge_frames),
        (*other._node_frames, *other._edge_frames),
        strict=True,
    ):
        assert mine.num_rows == theirs.num_rows and set(mine) == set(theirs)
        for name in mine:
            assert mine[name].dtype == theirs[name].dtype and mine[name].equal(theirs[name])


@given(st.lists(graphs() | heterographs(), min_size=1, max_size=3), st.data())
def test_graphs_come_back_as_they_were(tmp_path_factory, made, data):
    path = str(tmp_path_factory.mktemp("graphs") / "some.bin")
    dgl.save_graphs(path, made, {"y": torch.arange(3)})
    loaded, labels = dgl.load_graphs(path)
    assert len(loaded) == len(made) and labels["y"].tolist() == [0, 1, 2]
    for one, other in zip(made, loaded, strict=True):
        same(one, other)
    chosen = data.draw(st.lists(st.integers(0, len(made) - 1)))
    for number, other in zip(chosen, dgl.load_graphs(path, chosen)[0], strict=True):
        same(made[number], other)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.bool]
)
def test_features_of_every_type(tmp_path, dtype):
    g = dgl.graph(([0, 1], [1, 2]))
    g.ndata["x/y z"] = torch.tensor([[0, 1], [1, 0], [1, 1]]).to(dtype)
    g.edata["none"] = torch.empty(2, 0)
    dgl.save_graphs(str(tmp_path / "g"), g)
    same(g, dgl.load_graphs(str(tmp_path / "g"))[0][0])


def test_blocks_and_batches(tmp_path):
    block = dgl.to_block(dgl.graph(([0, 1], [1, 2])))
    batch = dgl.batch([dgl.graph(([0], [1])), dgl.graph(([0, 0], [1, 2]))])
    dgl.save_graphs(str(tmp_path / "g"), [block, batch])
    loaded = dgl.load_graphs(str(tmp_path / "g"))[0]
    same(block, loaded[0])
    assert loaded[1].batch_num_nodes().tolist() == [2, 3] and loaded[
        1
    ].batch_num_edges().tolist() == [1, 2]
    assert [g.num_nodes() for g in dgl.unbatch(loaded[1])] == [2, 3]


def test_any_reader_of_safetensors_reads_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    path = str(tmp_path / "t.safetensors")
    save_tensors(path, {"a": torch.eye(2), "b": torch.arange(3), "e": torch.empty(0, 4)})
    theirs = safetensors.load_file(path)
    assert {n: t.tolist() for n, t in theirs.items()} == {
        n: t.tolist() for n, t in load_tensors(path).items()
    }
    safetensors.save_file({"c": torch.rand(2, 3).bfloat16()}, path)
    assert load_tensors(path)["c"].equal(safetensors.load_file(path)["c"])


def test_every_damaged_byte_of_the_header_is_refused_or_harmless(tmp_path):
    path = tmp_path / "g"
    g = dgl.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.ones(3)
    dgl.save_graphs(str(path), g)
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at])
        with pytest.raises(InvalidDataFile):
            dgl.load_graphs(str(path))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        try:
            loaded = dgl.load_graphs(str(path))[0][0]
        except InvalidDataFile:
            continue
        assert loaded.num_edges() == 2  # a name or a feature differs


def test_nodes_beyond_the_last_are_refused(tmp_path):
    path = tmp_path / "g"
    dgl.save_graphs(str(path), dgl.graph(([0, 1], [1, 2])))
    path.write_bytes(path.read_bytes().replace(b'num_nodes\\": [3]', b'num_nodes\\": [2]'))
    with pytest.raises(InvalidDataFile, match="nodes beyond 1"):
        dgl.load_graphs(str(path))


def test_a_pickle_is_not_read(tmp_path):
    path = tmp_path / "g"
    path.write_bytes(pickle.dumps({"graph": 1}))
    with pytest.raises(InvalidDataFile, match="no file of tensors"):
        dgl.load_graphs(str(path))
    with pytest.raises(InvalidDataFile, match="No such file"):
        dgl.load_graphs(str(tmp_path / "none"))
    save_tensors(str(path), {"a": torch.ones(1)})
    with pytest.raises(InvalidDataFile, match="save_graphs did not make it"):
        load_labels(str(path))


def test_facts(tmp_path):
    path = str(tmp_path / "deep" / "info.json")
    makedirs(str(tmp_path / "deep"))
    save_info(path, {"num_classes": 3, "names": ["a"]})
    assert load_info(path) == {"num_classes": 3, "names": ["a"]}
    with pytest.raises(InvalidDataFile, match="save_tensors"):
        save_info(path, {"x": torch.ones(1)})
    assert json.loads((tmp_path / "deep" / "info.json").read_text())["num_classes"] == 3


class Ring(dgl.data.DGLDataset):
    processed = 0

    def __init__(self, folder, **options):
        super().__init__("ring", raw_dir=str(folder), **options)

    def process(self):
        Ring.processed += 1
        self.g = dgl.graph(([0, 1, 2], [1, 2, 0]))

    def save(self):
        makedirs(self.save_path)
        dgl.save_graphs(self.save_path + "/g.bin", self.g)

    def has_cache(self):
        import os

        return os.path.exists(self.save_path + "/g.bin")

    def load(self):
        self.g = dgl.load_graphs(self.save_path + "/g.bin")[0][0]

    def __getitem__(self, idx):
        return self.g

    def __len__(self):
        return 1


def test_a_dataset_is_processed_once(tmp_path, capsys):
    Ring.processed = 0
    assert Ring(tmp_path)[0].num_edges() == Ring(tmp_path)[0].num_edges() == 3
    assert Ring.processed == 1
    Ring(tmp_path, force_reload=True)
    assert Ring.processed == 2
    (tmp_path / "ring" / "g.bin").write_bytes(b"damaged")
    assert Ring(tmp_path, verbose=True)[0].num_edges() == 3 and Ring.processed == 3
    assert "re-processing" in capsys.readouterr().out
    assert repr(Ring(tmp_path)).startswith('Dataset("ring", num_graphs=1')
    with pytest.raises(MissingData, match="nothing is downloaded here"):
        dgl.data.DGLDataset("x", url="https://example.org/x.zip", raw_dir=str(tmp_path))


def test_splits(tmp_path):
    parts = split_dataset(list(range(25)), [0.5, 0.3, 0.2], shuffle=True, random_state=1)
    assert [len(part) for part in parts] == [12, 7, 6]
    assert sorted(x for part in parts for x in part) == list(range(25))
    data = Ring(tmp_path)
    add_nodepred_split(data, [0.34, 0.33, 0.33])
    masks = torch.stack([data[0].ndata[name] for name in ("train_mask", "val_mask", "test_mask")])
    assert masks.sum(0).tolist() == [1, 1, 1]
    with pytest.raises(dgl.DGLError, match="add up to 1"):
        split_dataset([1, 2], [0.5, 0.2, 0.2])
