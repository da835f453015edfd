"""Graphs from files and from formulas, and graphs to files."""

from graphwright.gnn.data import utils
from graphwright.gnn.data.dataset import DGLBuiltinDataset, DGLDataset
from graphwright.gnn.data.errors import InvalidDataFile, MissingData
from graphwright.gnn.data.graph_files import load_graphs, load_labels, save_graphs
from graphwright.gnn.data.utils import Subset, add_nodepred_split, split_dataset
