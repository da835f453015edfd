"""Hypothesis strategies for graphs with nodes and edges of every awkward kind.

Isolated nodes, loops, parallel edges, no edges at all, a single node, ids of 32 and 64 bits.
"""

import networkx
import torch
from hypothesis import strategies as st

import graphwright.gnn as dgl

idtypes = st.sampled_from([torch.int32, torch.int64])


@st.composite
def edge_lists(draw, num_src, num_dst, max_edges=14):
    if not num_src or not num_dst:
        return [], []
    pairs = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    edges = draw(st.lists(pairs, max_size=max_edges))
    return [u for u, _ in edges], [v for _, v in edges]


@st.composite
def graphs(draw, min_nodes=1, max_nodes=6):
    count = draw(st.integers(min_nodes, max_nodes))
    g = dgl.graph(draw(edge_lists(count, count)), num_nodes=count, idtype=draw(idtypes))
    g.ndata["h"] = torch.arange(count).float()
    g.edata["w"] = torch.arange(g.num_edges()).float() + 10
    return g


@st.composite
def heterographs(draw):
    """Users follow users and play games, developers make games."""
    counts = {ntype: draw(st.integers(1, 4)) for ntype in ("user", "game", "dev")}
    kinds = [("user", "follows", "user"), ("user", "plays", "game"), ("dev", "makes", "game")]
    edges = {kind: draw(edge_lists(counts[kind[0]], counts[kind[2]], 6)) for kind in kinds}
    g = dgl.heterograph(edges, counts, idtype=draw(idtypes))
    for ntype in g.ntypes:
        g.nodes[ntype].data["h"] = torch.arange(counts[ntype]).float()
    for etype in g.canonical_etypes:
        g.edges[etype].data["w"] = torch.arange(g.num_edges(etype)).float()
    return g


def pairs(g, etype=None):
    """The edges as a list of pairs, in the order of their ids."""
    src, dst = g.edges(etype=etype)
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def to_networkx(g):
    """The same multigraph, with edges keyed by their ids."""
    made = networkx.MultiDiGraph()
    made.add_nodes_from(range(g.num_nodes()))
    made.add_edges_from((u, v, e) for e, (u, v) in enumerate(pairs(g)))
    return made
