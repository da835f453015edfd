"""Tables with a meta.yaml, as DGL documents them."""

import pytest
import torch

import graphwright.gnn as dgl
from gnn_graphs import pairs
from graphwright.gnn.data import CSVDataset, InvalidDataFile, MissingData

META = (
    "dataset_name: mini\nedge_data:\n- file_name: edges.csv\nnode_data:\n- file_name: nodes.csv\n"
)


def write(folder, **files):
    for name, text in files.items():
        (folder / (name + (".yaml" if name == "meta" else ".csv"))).write_text(text)
    return str(folder)


def test_one_graph(tmp_path):
    path = write(
        tmp_path,
        meta=META,
        edges="src_id,dst_id,w\n10,2,0.5\n2,a,1\n",
        nodes='node_id,label,train_mask,feat\n10,1,True,"0.1,0.2"\n2,0,False,"0.3,0.4"\na,2,True,"1,2"\n',
    )
    data = CSVDataset(path, verbose=False)
    g = data[0]
    assert len(data) == 1 and g.ntypes == ["_V"] and pairs(g) == [(1, 0), (0, 2)]  # 2, 10, a
    assert g.ndata["label"].tolist() == [0, 1, 2] and g.ndata["train_mask"].tolist() == [0, 1, 1]
    assert g.ndata["feat"].tolist() == [[0.3, 0.4], [0.1, 0.2], [1, 2]] and g.edata[
        "w"
    ].tolist() == [0.5, 1]
    (tmp_path / "edges.csv").unlink()  # the cache is enough
    assert pairs(CSVDataset(path, verbose=False, transform=dgl.add_self_loop)[0])[2:] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]
    with pytest.raises(MissingData, match=r"edges.csv: No such file"):
        CSVDataset(path, verbose=False, force_reload=True)


def test_several_graphs_with_types_and_names_of_columns(tmp_path):
    path = write(
        tmp_path,
        meta="""
version: 1.0.0
dataset_name: many
separator: ';'
edge_data:
- file_name: plays.csv
  etype: [user, plays, game]
  src_id_field: who
  dst_id_field: what
node_data:
- file_name: users.csv
  ntype: user
graph_data:
  file_name: graphs.csv
""",
        plays="graph_id;who;what\n0;1;5\n0;0;6\n1;0;5\n",
        users="graph_id;node_id;age\n0;0;30\n0;1;40\n1;0;50\n",
        graphs="graph_id;label\n0;7\n1;8\n",
    )
    data = CSVDataset(
        path,
        verbose=False,
        ndata_parser={"user": lambda t: {"months": [12 * int(a) for a in t["age"]]}},
    )
    (g, facts), (h, more) = data[0], data[1]
    assert pairs(g) == [(1, 0), (0, 1)] and pairs(h) == [(0, 0)] and g.num_nodes("game") == 2
    assert g.nodes["user"].data["months"].tolist() == [360, 480] and h.nodes["user"].data[
        "months"
    ].tolist() == [600]
    assert (facts["label"].item(), more["label"].item()) == (7, 8)
    assert g.canonical_etypes == [("user", "plays", "game")]
    loaded = CSVDataset(path, verbose=False)
    assert pairs(loaded[0][0]) == pairs(g) and loaded[1][1]["label"] == 8
    batch = next(iter(dgl.dataloading.GraphDataLoader(loaded, batch_size=2)))
    assert batch[0].batch_size == 2 and batch[1]["label"].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"meta": "[1, 2"}, "no YAML"),
        ({"meta": "dataset_name: x"}, "needs dataset_name and edge_data"),
        ({"meta": META + "version: 2.0.0\n"}, "version 2.0.0, but 1.0.0"),
        ({"meta": "!!python/object/apply:os.system ['echo']"}, "no YAML"),
        ({"edges": "src_id,to\n0,1\n"}, r"has no column \['dst_id'\]"),
        ({"edges": "src_id,dst_id\n0,9\n"}, "names node 9 of type '_V' in graph 0"),
        ({"edges": "src_id,dst_id\n0\n"}, "row 2: 1 entries, but there are 2 columns"),
        ({"nodes": "node_id,x\n0,red\n1,2\n"}, r"nodes.csv, column x has no numbers"),
        ({"nodes": "node_id\n0\n0\n"}, "has a node twice"),
        ({"nodes": ""}, "its first line names the columns"),
    ],
)
def test_what_is_refused(tmp_path, files, message):
    whole = {"meta": META, "edges": "src_id,dst_id\n0,1\n", "nodes": "node_id\n0\n1\n"} | files
    with pytest.raises(InvalidDataFile, match=message):
        CSVDataset(write(tmp_path, **whole), verbose=False)


def test_a_missing_folder(tmp_path):
    with pytest.raises(MissingData, match=r"meta.yaml: No such file"):
        CSVDataset(str(tmp_path))
    assert torch.is_tensor(
        CSVDataset(
            write(tmp_path, meta=META, edges="src_id,dst_id\n0,1\n", nodes="node_id\n0\n1\n"),
            verbose=False,
        )[0].nodes()
    )
