"""Explanations: every operator is in one line, costs are those of the tasks, repeated blocks are shown once."""

import json
from io import StringIO

import pytest
from rich.console import Console

from graphwright import zoo
from graphwright.errors import PlanMismatch
from graphwright.ir import Phase
from graphwright.machine import cluster
from graphwright.partition import data_parallel, layers, replicate
from graphwright.partition.space.coarsen import coarsen
from graphwright.plans import figures_of, make_plan
from graphwright.report import annotated_program, explain_plan, show, to_dict
from graphwright.report.explain.lines import next_best
from graphwright.report.explain.sections import follows, split_path
from graphwright.simulate import CostModel, Simulator, simulate
from graphwright.tasks import GraphFacts


@pytest.fixture(scope="module")
def mlp():
    return zoo.load("mlp", small=True).capture()


@pytest.fixture(scope="module")
def gpt():
    return zoo.gpt(4, width=64, heads=2, batch_size=8, sequence=6, vocabulary=11).capture()


@pytest.fixture(scope="module")
def explained(gpt):
    return explain_plan(gpt, data_parallel(gpt, "local:4"))


def lines_of(found):
    return [(section, line) for section in found.sections for line in section.lines]


def shown(found, width=150):
    console = Console(width=width, record=True, file=StringIO())
    show(found, console, title="model")
    return console.export_text()


def test_every_operator_is_in_one_line(gpt, explained):
    free = coarsen(gpt).group_of.count(-1)
    assert sum(b.count * line.num_nodes for b, line in lines_of(explained)) + free == len(gpt.nodes)
    assert all(line.num_nodes == len(line.nodes) for _, line in lines_of(explained))


def test_layers_that_are_alike_are_one_block(explained):
    sections = {section.title: section.count for section in explained.sections}
    assert any(count > 1 and title.startswith("layers.") for title, count in sections.items())
    assert sum(count for title, count in sections.items() if title.startswith("layers.")) == 4


def test_bytes_are_those_that_the_simulation_moves(mlp):
    for plan in (data_parallel(mlp, "local:4"), layers(mlp, "local:4"), replicate(mlp, "local:4")):
        found = explain_plan(mlp, plan)
        moved = sum(b.count * line.nbytes for b, line in lines_of(found))
        assert moved == figures_of(found.plan).nbytes == simulate(mlp, plan).moved_bytes


def test_times_add_up_to_what_a_device_computes(mlp):
    found = explain_plan(mlp, data_parallel(mlp, "local:4"))
    total = sum(b.count * line.compute_time for b, line in lines_of(found))
    parts = Simulator(GraphFacts(mlp), found.plan.cluster, CostModel(), together=False)
    assert total == pytest.approx(parts.figures(found.plan).compute_time, rel=0.2)


def test_parameters_and_their_state_are_held_by_their_updates(mlp):
    found = explain_plan(mlp, replicate(mlp, "local:2"))
    held = sum(b.count * line.memory for b, line in lines_of(found) if line.kind == "update")
    states = {old for old in mlp.updates if mlp.tensors[old].type.numel > 1}
    assert held == sum(mlp.tensors[name].type.nbytes for name in states)


def test_words_of_data_parallelism(explained):
    heavy = {line.words for _, line in lines_of(explained) if line.kind == "heavy" and line.label}
    assert heavy == {"batch in 4"}
    assert {line.words for _, line in lines_of(explained) if line.kind == "update"} == {
        "every device does all of it"
    }


def test_the_next_best_is_another_split_with_its_price(explained):
    found = [line for _, line in lines_of(explained) if line.instead is not None]
    assert found
    for line in found:
        text = next_best(line)
        assert text.startswith(line.instead)
        assert ": +" in text or ": -" in text


def test_one_device_has_no_next_best(mlp):
    found = explain_plan(mlp, replicate(mlp, "local:1"))
    assert all(line.words == "one device does it" for _, line in lines_of(found))
    assert not any(line.moves for _, line in lines_of(found))
    assert {next_best(line) for _, line in lines_of(found) if line.kind == "heavy"} == {""}


def test_a_plan_on_some_of_the_devices_is_explained_without_a_next_best(mlp):
    found = explain_plan(mlp, layers(mlp, "local:4"))
    assert "no next best is known" in found.notes[0]
    assert any("on device" in line.words for _, line in lines_of(found))
    assert all(line.instead is None for _, line in lines_of(found))


def test_a_plan_for_another_graph_is_refused(mlp, gpt):
    with pytest.raises(PlanMismatch, match="was made for graph"):
        explain_plan(gpt, replicate(mlp, "local:2"))


def test_where_a_parameter_is_stored_is_said_if_it_is_elsewhere(mlp):
    from graphwright.plans import Sharding, whole_mesh

    on = cluster("local:2")
    inputs = {"layers.1.weight": Sharding(whole_mesh(on), ("S0",))}
    found = explain_plan(mlp, make_plan(mlp, on, {}, inputs=inputs))
    words = {line.words for _, line in lines_of(found) if "weight" in line.label}
    assert "every device does all of it; stored in 2 by rows" in words


@pytest.mark.parametrize("width", [80, 150])
def test_what_is_printed(explained, width):
    text = shown(explained, width)
    flat = " ".join(text.split())
    for words in (
        "model: data on 4 devices of local:4",
        "batch in 4",
        "attention.query",
        "×",
        "update of",
    ):
        assert words in flat
    assert ("next best" in text) == (width > 100)
    assert ("or columns" in flat or "or batch" in flat) == (width < 100)
    assert max(map(len, text.splitlines())) <= width


def test_as_data(gpt, explained):
    found = json.loads(json.dumps(to_dict(explained)))
    names = {n for b in found["blocks"] for line in b["lines"] for n in line["nodes"]}
    assert names <= {node.name for node in gpt.nodes}
    assert found["plan"]["time"] == figures_of(explained.plan).time
    assert {"words", "next_best", "moves", "memory"} <= set(found["blocks"][0]["lines"][0])


def test_the_program_has_a_comment_on_every_line(mlp):
    program = list(annotated_program(mlp, data_parallel(mlp, "local:4")))
    lines = [line for line in program if not line.startswith("#")]
    assert len(lines) == len(mlp.nodes)
    assert [line for line in program if line.startswith("#")] == [f"# {phase}" for phase in Phase]
    (mm,) = [line for line in lines if line.startswith("%mm = aten.mm")]
    assert mm.partition("    # ")[2].startswith("batch in 4, ")
    assert any("all reduce of %" in line for line in lines)


@pytest.mark.parametrize(
    ("module", "parts"),
    [
        ("layers.3.attention.query", ("layers.3", "attention.query")),
        ("layers.3", ("layers.3", "")),
        ("0", ("0", "")),
        ("head", ("head", "")),
        ("", ("", "")),
        ("a.1.b.2.c", ("a.1", "b.2.c")),
    ],
)
def test_paths(module, parts):
    assert split_path(module) == parts


def test_paths_that_follow():
    assert follows("layers.3", "layers.4")
    assert not follows("layers.3", "layers.5")
    assert not follows("layers.3", "other.4")
    assert not follows("norm", "norm")
