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


def test_rows_that_stay_the_same_travel_once():
    g = add_features(dgl.data.rmat(6, 600, seed=4), 0, torch.float32)
    change_on = {3: 0, 5: 1}  # in these passes one worker's features are others

    def work(part):
        x, weight, found = part.ndata["feat"], torch.ones(5, requires_grad=True), []
        rank = part.halo.links.rank
        for number in range(7):
            if change_on.get(number) == rank:
                x = x + 1
            part.halo.start()
            first = gspmm(part.relation(), "copy", "sum", (x, "u"))
            second = gspmm(part.relation(), "copy", "sum", (first * weight, "u"))
            part.halo.anchored(second.sum()).backward()
            found.append((part.halo.received_bytes, x, second.detach()))
        there, back = part.halo.num_rows * 5 * 4, len(part.halo.routes.send_rows) * 5 * 4
        return there, back, found

    ranks = in_two_parts(g, (0, 30, 64), work)
    for there, back, found in ranks:
        second = there + back
        sent = [nbytes - second for nbytes, _, _ in found]
        assert sent == [there, 0, 0, there, there, there, there]  # after a change, ever after
    for number in range(7):
        x = torch.cat([found[number][1] for *_, found in ranks])
        made = torch.cat([found[number][2] for *_, found in ranks])
        once = gspmm(g.relation(), "copy", "sum", (x, "u"))
        torch.testing.assert_close(made, gspmm(g.relation(), "copy", "sum", (once, "u")))


def test_rows_with_gradients_and_of_evaluations_are_not_kept():
    g = add_features(dgl.data.rmat(6, 600, seed=4), 0, torch.float32)

    def work(part):
        x, found = part.ndata["feat"], []
        for needs_grad in (True, False, False):
            part.halo.start()
            rows = x.clone().requires_grad_(needs_grad)
            with torch.set_grad_enabled(needs_grad):
                out = gspmm(part.relation(), "copy", "sum", (rows, "u"))
            if needs_grad:
                part.halo.anchored(out.sum()).backward()
            found.append(part.halo.received_bytes)
        return found, part.halo.num_rows * 20, len(part.halo.routes.send_rows) * 20

    for found, there, back in in_two_parts(g, (0, 30, 64), work):
        assert found == [there + back, there, there]
