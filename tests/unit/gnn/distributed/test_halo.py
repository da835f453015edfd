"""What travels and what stays: only rows that are needed, and no halo longer than it is used."""

import gc
import weakref

import torch

import graphwright.gnn as dgl
from gnn_parts import add_features, sage
from graphwright.gnn.distributed.training import GraphStore, cut_part
from graphwright.gnn.kernels import gspmm
from graphwright.run import RowLinks
from threads import run_all

CPU = torch.device("cpu")


def in_two_parts(g, bounds, work):
    store = GraphStore.of(g)

    def run(rank, links):
        return work(cut_part(store, bounds, RowLinks(rank, 2, links), CPU))

    return run_all(2, run)


def test_each_needed_row_travels_once_and_no_other():
    g = dgl.graph(([0, 0, 1, 4, 4, 5, 3], [3, 4, 4, 0, 1, 1, 3]), num_nodes=6)
    routes = in_two_parts(g, (0, 3, 6), lambda part: part.halo.routes)
    assert routes[0].send_rows.tolist() == [0, 1]  # to vertices 3 and 4
    assert routes[1].send_rows.tolist() == [1, 2]  # vertices 4 and 5, to 0 and 1
    assert [route.sent for route in routes] == [(0, 2), (2, 0)]


def test_a_part_has_its_features_its_degrees_and_its_edges():
    g = add_features(dgl.data.rmat(5, 200, seed=4), 0, torch.float32)

    def look(part):
        relation = part.relation()
        edges = torch.cat([part.edata["w"], part.edata["kind"].float()])
        return part.ndata["feat"], relation.in_degrees(), relation.out_degrees(), edges

    found = in_two_parts(g, (0, 11, 32), look)
    feat, into, out, _ = (torch.cat(parts) for parts in zip(*found, strict=True))
    assert torch.equal(feat, g.ndata["feat"])
    assert torch.equal(into, g.in_degrees())
    assert torch.equal(out, g.out_degrees())
    weights = torch.cat([edges[: len(edges) // 2] for *_, edges in found])
    assert torch.equal(weights.sort().values, g.edata["w"].sort().values)


def test_rows_of_a_halo_are_freed_once_they_are_summed():
    g = add_features(dgl.data.rmat(6, 600, seed=4), 0, torch.float32)

    def work(part):
        halo, kept = part.halo, []
        finish = halo.finish

        def watched(token):
            rows = finish(token)
            kept.append(weakref.ref(rows))
            return rows

        halo.finish = watched
        x = part.ndata["feat"].clone().requires_grad_()
        halo.start()
        out = gspmm(part.relation(), "copy", "sum", (x, "u"))
        gc.collect()
        freed = all(ref() is None for ref in kept)
        halo.anchored(out.sum()).backward()
        return len(kept), freed

    assert in_two_parts(g, (0, 30, 64), work) == [(1, True), (1, True)]


def test_layers_of_the_clock_are_between_exchanges():
    g = add_features(dgl.data.rmat(6, 600, seed=4), 0, torch.float32)
    model = sage()

    def work(part):
        part.halo.start()
        part.halo.anchored(model(part, part.ndata["feat"]).sum()).backward()
        part.halo.clock.stop()
        return part.halo.clock.widths, part.halo.clock.seconds

    for widths, seconds in in_two_parts(g, (0, 30, 64), work):
        assert widths == [0, 5, 3]  # the second layer multiplies before it sums
        assert min(seconds) > 0
