"""Graphs from files and from formulas, and graphs to files."""

from graphwright.gnn.data import utils
from graphwright.gnn.data.csv_dataset import CSVDataset
from graphwright.gnn.data.dataset import DGLBuiltinDataset, DGLDataset
from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.data.formats import (
    CitationGraphDataset,
    CiteseerGraphDataset,
    CoraGraphDataset,
    PubmedGraphDataset,
    from_pyg,
    read_citation_npz,
    read_edge_list,
    read_ogb,
    read_ogb_split,
    read_planetoid,
)
from graphwright.gnn.data.graph_files import load_graphs, load_labels, save_graphs
from graphwright.gnn.data.motifs import BAShapeDataset, TreeCycleDataset, TreeGridDataset
from graphwright.gnn.data.small import KarateClubDataset, MiniGCDataset
from graphwright.gnn.data.synthetic import (
    barabasi_albert,
    erdos_renyi,
    planted_partition,
    rand_bipartite,
    rand_graph,
    rmat,
)
from graphwright.gnn.data.utils import (
    Subset,
    add_nodepred_split,
    load_tensors,
    save_tensors,
    split_dataset,
)
