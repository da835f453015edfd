"""Graphs from the files and objects of others."""

from graphwright.gnn.data.formats.citation import (
    CitationGraphDataset,
    CiteseerGraphDataset,
    CoraGraphDataset,
    PubmedGraphDataset,
    read_citation_npz,
    read_planetoid,
)
from graphwright.gnn.data.formats.edge_list import read_edge_list
from graphwright.gnn.data.formats.ogb import read_ogb, read_ogb_split
from graphwright.gnn.data.formats.pyg import from_pyg
