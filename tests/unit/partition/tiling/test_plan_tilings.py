"""Tilings of small programs, by hand."""

from pathlib import Path

import pytest

from graphwright.errors import InvalidOption, InvalidStrategy, PlanMismatch
from graphwright.ir import GraphBuilder, TensorType
from graphwright.partition.tiling import (
    TILING_ALGORITHMS,
    ExactTiling,
    Feedback,
    plan_tilings,
    sides_of,
    spell_tiles,
    worker_cluster,
)
from graphwright.plans import Plan, Sharding, check_plan, whole_mesh

PERMUTED = {"dims": (1, 0)}


def matrix(rows, columns):
    return TensorType((rows, columns), "float32")


def product(n, k, m):
    made = GraphBuilder()
    x, y = made.add_input("x", matrix(n, k)), made.add_input("y", matrix(k, m))
    (z,) = made.add("aten.mm", [x, y], {}, matrix(n, m), names="z")
    return made.build([z])


def words(plan, name):
    return str(plan.shardings[name])


def test_workers_make_a_grid():
    grids = {2: ((0,),), 4: ((0,), (1,)), 8: ((0, 1), (2,)), 12: ((0, 1), (2,)), 7: ((0,),), 1: ()}
    for workers, sides in grids.items():
        assert sides_of(worker_cluster(workers)) == sides


@pytest.mark.parametrize("workers", [0, -1, 2.5, "4", True, 1 << 20])
def test_workers_are_a_whole_number(workers):
    with pytest.raises(InvalidOption, match="workers has to be a whole number from 1"):
        plan_tilings(product(2048, 2048, 2048), workers)


def test_one_worker_receives_nothing():
    plan = plan_tilings(product(2048, 2048, 2048), 1)
    assert plan.nbytes == 0 and plan.exact


def test_the_form_of_a_product_follows_the_shapes():
    """Figure 2.2: a tall X stays where it is and Y goes to all; with a long inner dim the terms are added up."""
    tall = plan_tilings(product(1 << 20, 1024, 1024), 2)
    assert str(tall.strategy("z")) == "i"
    assert (words(tall, "x"), words(tall, "z")) == ("[S0]", "[S0]")
    assert tall.nbytes == 1024 * 1024 * 4  # each worker gets the half of y that it lacks
    inner = plan_tilings(product(1024, 1 << 20, 1024), 2)
    assert str(inner.strategy("z")) == "k"
    assert (words(inner, "x"), words(inner, "y"), words(inner, "z")) == ("[S1]", "[S0]", "[P(sum)]")
    assert inner.nbytes == 1024 * 1024 * 4  # each adds up half of z
    wide = plan_tilings(product(1024, 1024, 1 << 20), 2)
    assert str(wide.strategy("z")) == "j"


def test_a_square_product_is_computed_in_blocks():
    plan = plan_tilings(product(4096, 4096, 4096), 4)
    assert plan.nbytes == 4 * 4096 * 4096 * 4 // 2  # half of x and of y for each of four
    assert plan_tilings(product(4096, 4096, 4096), 4, algorithm="rows").nbytes > plan.nbytes


def test_a_result_of_terms_is_added_up_in_parts():
    plan = plan_tilings(product(1024, 1 << 20, 1024), 2)
    assert [str(s) for s in plan.plan.results.values()] == ["[S0]"]
    assert [str(s) for s in plan.copies["z"]] == ["[S0]"]
    assert plan.received == {"z": plan.nbytes}


def test_a_plan_is_a_plan_for_a_cluster(tmp_path):
    graph = product(1024, 1 << 20, 1024)
    plan = plan_tilings(graph, 4).plan
    check_plan(plan, graph)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    with pytest.raises(PlanMismatch, match="not a result of the graph"):
        check_plan(Plan(**_fields(plan) | {"results": {"x": plan.inputs["x"]}}), graph)


def _fields(plan):
    names = ("strategies", "inputs", "cluster", "graph_hash", "algorithm", "passes")
    return {name: getattr(plan, name) for name in names}


def test_small_arrays_lie_everywhere():
    made = GraphBuilder()
    x, w = made.add_input("x", matrix(1 << 20, 64)), made.add_input("w", matrix(64, 16))
    (y,) = made.add("aten.mm", [x, w], {}, matrix(1 << 20, 16), names="y")
    graph = made.build([y])
    plan = plan_tilings(graph, 4)
    assert plan.nbytes == 0
    assert words(plan, "w") == "[R R]" and words(plan, "x") == "[S0 S0]"
    assert plan_tilings(graph, 4, small=0).nbytes > 0


def test_an_array_read_both_ways_is_duplicated_within_the_budget():
    """ALS reads the ratings by users and by items (Figure 2.3)."""
    made, users, items = GraphBuilder(), 1 << 16, 1 << 15
    ratings = made.add_input("ratings", matrix(users, items))
    results = []
    for step in range(2):
        for dim, count in ((0, users), (1, items)):
            (sums,) = made.add(
                "aten.cumsum", [ratings], {"dim": dim, "dtype": None}, matrix(users, items),
                names=f"step{step}:{count}",
            )  # fmt: skip
            results.append(sums)
    graph = made.build(results)
    array = 4 * users * items
    plan = plan_tilings(graph, 2)
    assert plan.nbytes == array // 2 and plan.duplicates == array // 2
    greedy = plan_tilings(graph, 2, algorithm="greedy")
    assert greedy.nbytes == plan.nbytes
    assert sorted(str(s) for s in plan.copies["ratings"]) in (["[S0]"], ["[S1]"])


def test_inputs_that_are_there_stay_there():
    graph, mesh = product(1 << 20, 1024, 1024), whole_mesh(worker_cluster(2))
    columns = Sharding(mesh, ("S1",))
    plan = plan_tilings(graph, 2, fixed={"x": columns})
    assert plan.shardings["x"] == columns
    assert plan.nbytes > plan_tilings(graph, 2).nbytes
    with pytest.raises(PlanMismatch, match="its inputs are x, y"):
        plan_tilings(graph, 2, fixed={"z": columns})
    with pytest.raises(InvalidStrategy, match="on the mesh of workers:3"):
        plan_tilings(graph, 3, fixed={"x": columns})
    with pytest.raises(InvalidStrategy, match="no dim 2 to split"):
        plan_tilings(graph, 2, fixed={"x": Sharding(mesh, ("S2",))})


def test_algorithms_have_names():
    assert list(TILING_ALGORITHMS) == ["exact", "greedy", "rows"]
    graph = product(4096, 4096, 4096)
    assert plan_tilings(graph, 2, algorithm="exact").algorithm == ExactTiling.name
    with pytest.raises(InvalidOption, match="one of exact, greedy, rows"):
        plan_tilings(graph, 2, algorithm="best")
    with pytest.raises(InvalidOption, match="memory has to be 0 or more"):
        plan_tilings(graph, 2, memory=-1)
    assert all(algorithm.summary() for algorithm in TILING_ALGORITHMS.values())


def test_the_page_lists_the_algorithms():
    page = Path(__file__).parents[4] / "docs" / "tiling.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows] == list(TILING_ALGORITHMS)
    for row, algorithm in zip(rows, TILING_ALGORITHMS.values(), strict=True):
        assert row[1] == algorithm.whose
        assert row[2].removesuffix(" |") == f"{algorithm.summary()}."


def test_a_wide_graph_is_said_not_to_be_exact():
    """Every array is read with every other: no narrow order exists."""
    made, type = GraphBuilder(), matrix(1 << 12, 1 << 12)
    names = [made.add_input(f"x{i}", type) for i in range(9)]
    turned = [made.add("aten.permute", [n], PERMUTED, type)[0] for n in names]
    sums = [
        made.add("aten.add.Tensor", [a, b], {"alpha": 1}, type)[0]
        for i, a in enumerate(names)
        for b in turned[i + 1 :]
    ]
    plan = plan_tilings(made.build(sums), 4, algorithm=ExactTiling(work=10_000))
    assert not plan.exact
    assert "least" not in repr(plan)


def test_feedback_makes_updates_cheaper():
    """An operator that was seen to update a tenth of its result is split so that it has to be added up."""
    graph = product(8192, 4096, 8192)
    first = plan_tilings(graph, 2)
    assert str(first.strategy("z")) != "k"
    forced = plan_tilings(product(1024, 1 << 20, 1024), 2)
    seen = Feedback().after(forced, {"z": forced.nbytes / 10})
    assert list(seen.observed.values()) == [0.1]
    call = next(iter(seen.observed))
    facts_of_first = {(call[0], call[1], _types(graph)): 0.1}
    second = plan_tilings(graph, 2, feedback=Feedback(facts_of_first))
    assert str(second.strategy("z")) == "k"
    with pytest.raises(PlanMismatch, match="no operator of the graph"):
        Feedback().after(first, {"w": 1.0})
    with pytest.raises(InvalidOption, match="no number of bytes"):
        Feedback().after(first, {"z": -1.0})


def _types(graph):
    from graphwright.describe import types_of

    return types_of(graph, graph.nodes[0])


def test_a_plan_explains_every_array():
    plan = plan_tilings(product(1024, 1 << 20, 1024), 4)
    lines = plan.explain().splitlines()
    assert lines[0].split() == [
        "array",
        "shape",
        "operator",
        "split",
        "tiles",
        "copies",
        "MB",
        "received",
    ]
    assert lines[1].split("  ")[0] == "x" and "1024 x 1048576" in lines[1] and "1 x 4" in lines[1]
    assert lines[3].split()[4:] == ["aten.mm", "k", "k", "4", "terms", "4", "x", "1", "12.583"]
    assert lines[-1] == "12.583 MB received by 4 workers"
    assert plan.moved["z"] == plan.nbytes == plan.update_bytes("z")


def test_tiles_have_words():
    mesh, type = whole_mesh(worker_cluster(4)), matrix(8, 8)
    words = {
        ("S0", "S0"): "4 x 1",
        ("S0", "S1"): "2 x 2",
        ("R", "R"): "whole",
        ("S1", "R"): "1 x 2, on 2 workers each",
        ("P(sum)", "P(sum)"): "4 terms",
        ("S0", "P(sum)"): "2 x 1, 2 terms",
        ("R", "P(sum)"): "2 terms, on 2 workers each",
    }
    for placements, spelled in words.items():
        assert spell_tiles(Sharding(mesh, placements), type) == spelled
    halos = Sharding(mesh, ("S0", "S0"), ((0, ((0, 3), (1, 5), (3, 7), (5, 8))),))
    assert spell_tiles(halos, type) == "4 x 1 shifted"
