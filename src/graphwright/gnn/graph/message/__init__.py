"""Message passing: user-defined functions and built-ins, on all edges, on some, or in an order."""

from graphwright.gnn.graph.message.bucketing import padded
from graphwright.gnn.graph.message.passing import MessagePassing
from graphwright.gnn.graph.message.udf import EdgeBatch, NodeBatch
