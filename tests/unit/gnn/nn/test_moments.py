"""Principal neighbourhood aggregation against each node's messages, one after another."""

import pytest
import torch

import graphwright.gnn as dgl
from graphwright.gnn import nn
from graphwright.gnn.storage import DGLError

EVEN = ["mean", "max", "min", "std", "var", "sum", "moment4"]
SCALERS = ["identity", "amplification", "attenuation"]


def statistics(messages, names):
    """Of a node's messages; nothing of none."""
    mean = messages.mean(0)
    centred = messages - mean
    moment = lambda n: (centred**n).mean(0)
    known = {
        "mean": mean, "sum": messages.sum(0), "max": messages.amax(0), "min": messages.amin(0),
        "var": moment(2), "std": (moment(2) + 1e-30).sqrt(), "moment4": (moment(4) + 1e-30) ** 0.25,
        "moment3": moment(3).sign() * moment(3).abs() ** (1 / 3),
    }  # fmt: skip
    return [known[name] for name in names]


def by_nodes(layer, g, x, e, names, delta, sizes):
    (src, dst), outs = g.edges(), []
    for at, tower in enumerate(layer.towers):
        size = layer.tower_in_size
        h, rows = x[:, at * size : (at + 1) * size], []
        for node in range(g.num_nodes()):
            into = dst == node
            if not into.any():
                rows.append(torch.cat([h[node], h.new_zeros(len(names) * 3 * size)]))
                continue
            parts = [h[src[into]], h[node].expand(int(into.sum()), -1)]
            messages = tower.M(torch.cat(parts if e is None else [*parts, e[into]], 1))
            made = torch.cat(statistics(messages, names))
            log = torch.log(into.sum() + 1.0)
            rows.append(torch.cat([h[node], made, made * log / delta, made * delta / log]))
        outs.append(tower.batchnorm(tower.U(torch.stack(rows)) / sizes.sqrt().unsqueeze(1)))
    return layer.mixing_layer(torch.cat(outs, 1))


@pytest.mark.parametrize("edge_size", [0, 3])
def test_every_statistic_and_scaler(multigraph, features, agree, edge_size):
    g = dgl.add_edges(dgl.add_nodes(multigraph, 2), [7, 7, 7], [7, 1, 2])  # one has no in-edges
    x, e = features(9, 4), features(g.num_edges(), 3)
    layer = nn.PNAConv(4, 6, EVEN, SCALERS, 1.7, num_towers=2, edge_feat_size=edge_size).eval()
    edges = e if edge_size else None
    expected = by_nodes(layer, g, x, edges, EVEN, 1.7, torch.full((9,), 9.0))
    inputs = [x, layer.towers[1].M.weight, layer.towers[0].M.bias, *([e] if edge_size else [])]
    agree(layer(g, x, edges), expected, *inputs)


def test_odd_moments_residual_and_batches(multigraph, features, agree):
    g = dgl.batch([multigraph, dgl.graph(([0, 1, 2, 2], [2, 2, 2, 2]))])
    x = features(10, 4)
    layer = nn.PNAConv(4, 4, ["moment3"], SCALERS, 2.0).eval()
    sizes = torch.tensor([7.0] * 7 + [3.0] * 3)
    expected = by_nodes(layer, g, x, None, ["moment3"], 2.0, sizes) + x
    torch.testing.assert_close(
        layer(g, x), expected, rtol=1e-3, atol=2e-2
    )  # of two edges: rounding


def test_what_does_not_fit_is_refused(multigraph, features):
    with pytest.raises(DGLError, match=r"divisible by num_towers \(3\). Got 4 and 6"):
        nn.PNAConv(4, 6, EVEN, SCALERS, 1.0, num_towers=3)
    with pytest.raises(DGLError, match="'median' is none of"):
        nn.PNAConv(4, 4, ["median"], SCALERS, 1.0)
    with pytest.raises(DGLError, match="'linear' is none of"):
        nn.PNAConv(4, 4, EVEN, ["linear"], 1.0)
    with pytest.raises(DGLError, match="needs edge_feat"):
        nn.PNAConv(4, 4, EVEN, SCALERS, 1.0, edge_feat_size=2)(multigraph, features(7, 4))
