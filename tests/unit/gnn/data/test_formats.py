"""Files and objects of others: written here as they publish them, and read back."""

import collections
import gzip
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import graphwright.gnn as dgl
from gnn_graphs import pairs
from graphwright.gnn import data
from graphwright.gnn.data import InvalidDataFile, MissingData
from graphwright.gnn.data.formats.pickled import read_pickled


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, csr_matrix):
        return (one != other).nnz == 0 and one.dtype == other.dtype
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.zeros((0, 4), np.float32),
        csr_matrix(np.array([[0, 1.5], [2, 0]], np.float32)),
        collections.defaultdict(list, {0: [1, 2], 1: [], 2: [0]}),
        {"a": [np.float64(1.5), 3, None, True, "x", 2**70, (1, (2, 3))]},
    ],
)
def test_pickles_of_arrays_are_read_without_running_them(tmp_path, protocol, value):
    path = tmp_path / "p"
    path.write_bytes(pickle.dumps(value, protocol))
    assert same(value, read_pickled(path))


def test_pickles_of_python_2_are_read(tmp_path):
    """A string of bytes is one of text there: an array as protocol 2 of Python 2 writes it."""
    data = np.array([200, 7], "<i4").tobytes()
    kind = b"cnumpy\ndtype\n(U\x02i4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    program = (
        b"\x80\x02"
        + array
        + b"(K\x01K\x02\x85"
        + kind
        + b"\x89U"
        + bytes([len(data)])
        + data
        + b"tb."
    )
    (tmp_path / "p").write_bytes(program)
    assert read_pickled(tmp_path / "p").tolist() == [200, 7]


class Evil:
    def __reduce__(self):
        return os.system, ("echo evil",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_else_in_a_pickle_is_called(tmp_path, protocol, capfd):
    path = tmp_path / "p"
    for value in (
        Evil(),
        [Evil()],
        np.array([Evil(), None], object),
        print,
        collections.Counter([1]),
    ):
        path.write_bytes(pickle.dumps(value, protocol))
        with pytest.raises(InvalidDataFile, match=r"not read|objects"):
            read_pickled(path)
    assert "evil" not in capfd.readouterr().out


def test_damaged_pickles_are_refused(tmp_path):
    whole = pickle.dumps({0: np.arange(4), 1: [1, 2]}, 2)
    path = tmp_path / "p"
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        with pytest.raises(InvalidDataFile):
            read_pickled(path)


def planetoid(folder, name="tiny"):
    """Six papers: two for training, four for tests, of which one has no row (as in CiteSeer)."""
    rng = np.random.default_rng(0)
    feats, labels = (rng.random((6, 3)) > 0.5).astype(np.float32), np.eye(2)[[0, 1, 0, 1, 1, 0]]
    test = [5, 2, 4]  # node 3 is missing
    graph = collections.defaultdict(list, {0: [1, 2, 2], 1: [0], 2: [0, 5], 3: [], 4: [4], 5: [2]})
    parts = {
        "x": csr_matrix(feats[:1]), "y": labels[:1], "allx": csr_matrix(feats[:2]), "ally": labels[:2],
        "tx": csr_matrix(feats[test]), "ty": labels[test], "graph": graph,
    }  # fmt: skip
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, 2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{v}\n" for v in test))
    return feats, labels.argmax(1), test


def test_planetoid(tmp_path):
    feats, labels, test = planetoid(tmp_path)
    g = data.read_planetoid(tmp_path, "tiny")
    assert (
        pairs(g) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 5), (4, 4), (5, 2)] and g.num_nodes() == 6
    )
    known = [0, 1, 2, 4, 5]
    assert (
        g.ndata["feat"][known].tolist() == feats[known].tolist() and g.ndata["feat"][3].sum() == 0
    )
    assert g.ndata["label"][known].tolist() == labels[known].tolist()
    assert g.ndata["train_mask"].nonzero().tolist() == [[0]]
    assert g.ndata["test_mask"].nonzero().reshape(-1).tolist() == sorted(test)
    planetoid(tmp_path, "cora")
    cora = dgl.data.CoraGraphDataset(raw_dir=str(tmp_path))
    assert cora.num_classes == 2 and pairs(cora[0]) == pairs(g) and len(cora) == 1
    with pytest.raises(MissingData, match=r"ind.pubmed.graph, and nothing is downloaded here"):
        dgl.data.PubmedGraphDataset(raw_dir=str(tmp_path))
    (tmp_path / "ind.tiny.ty").unlink()
    with pytest.raises(MissingData, match=r"has no ind.tiny.ty"):
        data.read_planetoid(tmp_path, "tiny")


def test_citation_npz(tmp_path):
    adj, attr = csr_matrix(np.array([[0, 1.0], [1, 0]])), csr_matrix(np.eye(2))
    fields = {
        f"{name}_{part}": getattr(m, part)
        for name, m in (("adj", adj), ("attr", attr))
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(tmp_path / "c.npz", labels=np.array([1, 0]), **fields)
    g = data.read_citation_npz(tmp_path / "c.npz")
    assert pairs(g) == [(0, 1), (1, 0)] and g.ndata["feat"].tolist() == [[1, 0], [0, 1]]
    assert g.ndata["label"].tolist() == [1, 0]
    np.savez(tmp_path / "d.npz", adj_data=np.array([Evil()], object))
    with pytest.raises(InvalidDataFile, match="no citation graph"):
        data.read_citation_npz(tmp_path / "d.npz")


def packed(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(map(str, np.atleast_1d(row))) + "\n" for row in rows)


def test_ogb_folders(tmp_path):
    raw = tmp_path / "mol" / "raw"
    packed(raw / "edge.csv.gz", [(0, 1), (1, 0), (0, 2)])
    packed(raw / "num-node-list.csv.gz", [2, 3])
    packed(raw / "num-edge-list.csv.gz", [2, 1])
    packed(raw / "node-feat.csv.gz", [(at, 0.5) for at in range(5)])
    packed(raw / "edge-feat.csv.gz", [7, 8, 9])
    packed(raw / "graph-label.csv.gz", [1, 0])
    for part, ids in (("train", [0]), ("valid", []), ("test", [1])):
        packed(tmp_path / "mol" / "split" / "scaffold" / f"{part}.csv.gz", ids)
    graphs, labels = data.read_ogb(tmp_path / "mol")
    assert [pairs(g) for g in graphs] == [[(0, 1), (1, 0)], [(0, 2)]]
    assert graphs[1].ndata["feat"][:, 0].tolist() == [2, 3, 4] and graphs[1].edata[
        "feat"
    ].tolist() == [[9]]
    assert labels["labels"].tolist() == [[1], [0]] and labels["labels"].dtype == torch.int64
    split = data.read_ogb_split(tmp_path / "mol")
    assert {part: ids.tolist() for part, ids in split.items()} == {
        "train": [0],
        "valid": [],
        "test": [1],
    }
    packed(raw / "num-edge-list.csv.gz", [2, 2])
    with pytest.raises(InvalidDataFile, match=r"names 4 edges, but edge.csv.gz has 3"):
        data.read_ogb(tmp_path / "mol")
    with pytest.raises(MissingData, match=r"has splits \['scaffold'\]"):
        data.read_ogb_split(tmp_path / "mol", "random")
    with pytest.raises(MissingData, match="unpack it there"):
        data.read_ogb(tmp_path)


def test_typed_and_packed_ogb_folders(tmp_path):
    raw = tmp_path / "mag" / "raw"
    packed(raw / "relations" / "author___writes___paper" / "edge.csv.gz", [(0, 1), (1, 0)])
    packed(raw / "num-node-dict.csv.gz", [("author", "paper"), (3, 2)])
    packed(raw / "node-feat" / "paper" / "node-feat.csv.gz", [(1, 2), (3, 4)])
    packed(raw / "node-label" / "paper" / "node-label.csv.gz", [5, 6])
    (g,), _ = data.read_ogb(tmp_path / "mag")
    assert g.canonical_etypes == [("author", "writes", "paper")] and g.num_nodes("author") == 3
    assert g.nodes["paper"].data["label"].tolist() == [[5], [6]] and pairs(g) == [(0, 1), (1, 0)]
    raw = tmp_path / "papers" / "raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "data.npz",
        edge_index=np.array([[0, 1], [1, 2]]),
        node_feat=np.ones((3, 2)),
        num_nodes_list=np.array([3]),
    )
    np.savez(raw / "node-label.npz", node_label=np.array([0, 1, 0]))
    (g,), _ = data.read_ogb(tmp_path / "papers")
    assert (
        pairs(g) == [(0, 1), (1, 2)]
        and g.ndata["feat"].shape == (3, 2)
        and g.ndata["label"].tolist() == [0, 1, 0]
    )


def test_edge_lists(tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("# a comment\n0 1\n1\t2\n\n2 2 extra\n")
    assert pairs(data.read_edge_list(path)) == [(0, 1), (1, 2), (2, 2)]
    with gzip.open(tmp_path / "e.csv.gz", "wt") as file:
        file.write("30,7,0.5\n7,100,1\n")
    g = data.read_edge_list(tmp_path / "e.csv.gz", ",", weight_name="w", relabel=True)
    assert pairs(g) == [(1, 0), (0, 2)] and g.edata["w"].tolist() == [0.5, 1.0]
    assert g.ndata[dgl.NID].tolist() == [7, 30, 100]
    path.write_text("ann bob\nbob cid\n")
    assert pairs(data.read_edge_list(path, relabel=True)) == [(0, 1), (1, 2)]
    with pytest.raises(InvalidDataFile, match="names need relabel=True"):
        data.read_edge_list(path)
    path.write_text("0 1\n5\n")
    with pytest.raises(InvalidDataFile, match="line 2: no edge in '5'"):
        data.read_edge_list(path)


class Store(dict):
    """What matters of PyTorch Geometric's objects: fields by attribute and by name."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


def test_objects_of_pytorch_geometric():
    fields = Store(
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        x=torch.eye(3),
        y=torch.arange(3),
        edge_attr=torch.ones(2, 1),
        num_nodes=3,
        name="me",
        train_mask=torch.ones(3, dtype=torch.bool),
    )
    g = data.from_pyg(fields)
    assert pairs(g) == [(0, 1), (1, 2)] and set(g.ndata) == {"feat", "label", "train_mask"}
    assert g.edata["feat"].shape == (2, 1) and "x" in data.from_pyg(fields, rename=False).ndata
    stores = {
        "a": Store(num_nodes=2, x=torch.eye(2)),
        "b": Store(num_nodes=3),
        ("a", "to", "b"): Store(edge_index=torch.tensor([[0, 1], [2, 0]]), edge_attr=torch.ones(2)),
    }
    hetero = Store(stores, node_types=["a", "b"], edge_types=[("a", "to", "b")])
    g = data.from_pyg(hetero)
    assert pairs(g, "to") == [(0, 2), (1, 0)] and g.nodes["a"].data["feat"].shape == (2, 2)
    assert g.edges["to"].data["feat"].tolist() == [1, 1] and g.num_nodes("b") == 3
    with pytest.raises(dgl.DGLError, match="has no edge_index"):
        data.from_pyg(SimpleNamespace())
