"""The graph: structure, features, message passing, and the ways to make one."""

from graphwright.gnn.graph.base import ALL, EID, ETYPE, NID, NTYPE, row_entries
from graphwright.gnn.graph.create import create_block, graph, heterograph
from graphwright.gnn.graph.graph import DGLBlock, DGLGraph
from graphwright.gnn.graph.message import EdgeBatch, NodeBatch, padded
