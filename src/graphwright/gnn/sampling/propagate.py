"""Message passing along a traversal: one set of nodes or edges after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling.traversal import (
    bfs_nodes_generator,
    dfs_labeled_edges_generator,
    topological_nodes_generator,
)


def prop_nodes(
    graph: DGLGraph, nodes_generator: Iterable[Any], message_func: Any, reduce_func: Any,
    apply_node_func: Any = None,
) -> None:  # fmt: skip
    """`pull` one set of nodes after another."""
    graph.prop_nodes(nodes_generator, message_func, reduce_func, apply_node_func)


def prop_edges(
    graph: DGLGraph, edges_generator: Iterable[Any], message_func: Any, reduce_func: Any,
    apply_node_func: Any = None,
) -> None:  # fmt: skip
    """`send_and_recv` one set of edges after another."""
    graph.prop_edges(edges_generator, message_func, reduce_func, apply_node_func)


def prop_nodes_bfs(
    graph: DGLGraph, source: Any, message_func: Any, reduce_func: Any, reverse: bool = False,
    apply_node_func: Any = None,
) -> None:  # fmt: skip
    """`prop_nodes` over nodes 0, 1, 2, ... edges away from some sources."""
    nodes = bfs_nodes_generator(graph, source, reverse)
    graph.prop_nodes(nodes, message_func, reduce_func, apply_node_func)


def prop_nodes_topo(
    graph: DGLGraph, message_func: Any, reduce_func: Any, reverse: bool = False,
    apply_node_func: Any = None,
) -> None:  # fmt: skip
    """`prop_nodes` in topological order; a cycle is an error."""
    nodes = topological_nodes_generator(graph, reverse)
    graph.prop_nodes(nodes, message_func, reduce_func, apply_node_func)


def prop_edges_dfs(
    graph: DGLGraph, source: Any, message_func: Any, reduce_func: Any, reverse: bool = False,
    has_reverse_edge: bool = False, has_nontree_edge: bool = False, apply_node_func: Any = None,
) -> None:  # fmt: skip
    """`prop_edges` over the edges of a depth-first search."""
    edges = dfs_labeled_edges_generator(
        graph, source, reverse, has_reverse_edge, has_nontree_edge, return_labels=False
    )
    graph.prop_edges(edges, message_func, reduce_func, apply_node_func)
