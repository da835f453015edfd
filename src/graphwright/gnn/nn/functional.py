"""`dgl.nn.functional`."""

from graphwright.gnn.ops import edge_softmax as edge_softmax
