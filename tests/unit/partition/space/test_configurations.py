"""Configurations over several axes, and the restrictions of a space."""

import numpy as np
import pytest

from additive import COSTS, coarse_of, codes, model_of
from graphwright.describe import Soap
from graphwright.machine import cluster
from graphwright.partition import Space, Weight, make_estimate, other_plan
from graphwright.partition.search.recursive import TOFU
from graphwright.partition.space.group_choices import typical
from graphwright.plans import Along, whole_mesh
from graphwright.tasks import place


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("mlp", "v100-2x8"),
        ("lenet", "p2.8xlarge"),
        ("gpt2", "summit:2"),
        ("rnnlm-2", "v100-2x8"),
        ("resnet50", "local:6"),
    ],
)
def test_every_configuration_can_be_placed_and_its_layouts_are_true(name, on):
    model = model_of(name, on)
    coarse, mesh = model.coarse, whole_mesh(model.cluster)
    rng, seen = np.random.default_rng(0), set()
    for g, group in enumerate(coarse.groups):
        found = model.all[g]
        if model.key(g) in seen:
            continue
        seen.add(model.key(g))
        some = rng.permutation(len(found))[:6]
        for slot, nodes in enumerate(group.slots):
            for i in {nodes[0], typical(nodes), nodes[-1]}:
                call = coarse.facts.graph.nodes[i].op, coarse.facts.attrs[i], coarse.facts.types[i]
                for c in some:
                    placed = place(*call, found.strategy(c, slot), mesh)  # does not raise
                    for arg, sharding in enumerate(placed.inputs):
                        if sharding is not None:
                            assert codes(sharding) == found.need(slot, arg)[c].tolist()
                    for output, sharding in enumerate(placed.outputs):
                        assert codes(sharding) == found.made(slot, output)[c].tolist()


def lead_rows(model, g):
    """The lead's options along the axes, for each configuration."""
    group = model.coarse.groups[g]
    return [
        tuple(str(c) for c in model.all[g].strategy(c, group.lead).choices)
        for c in range(len(model.all[g]))
    ]


def heavy(model):
    return [g for g, group in enumerate(model.coarse.groups) if group.weight is Weight.HEAVY]


def test_axes_that_are_alike_are_counted_once():
    """Three axes of 2 at one level: 20 orders of four choices, of which a batch of 4 allows but some."""
    model = model_of("mlp", "p2.8xlarge")
    for g in range(len(model.all)):
        rows = [tuple(sorted(row)) for row in lead_rows(model, g)]
        rests = [tuple(map(tuple, np.sort(r, axis=1))) for r in model.all[g].rest]
        pairs = list(zip(rows, rests, strict=True))
        assert len(set(pairs)) == len(pairs)


def test_axes_of_different_levels_or_sizes_are_not_alike():
    model = model_of("mlp", "summit")
    rows = lead_rows(model, heavy(model)[1])
    assert {("i", "j"), ("j", "i")} <= set(rows)


def test_samples_are_outermost_and_replication_innermost():
    model = model_of("lenet", "local:4")
    rows = {row for g in heavy(model) for row in lead_rows(model, g)}
    assert ("i", "-") in rows
    assert ("-", "i") not in rows
    assert ("i", "j") in rows
    assert ("j", "i") not in rows


def test_levels_of_many_axes_mix_few_choices():
    model = model_of("mlp", "p2.8xlarge")
    for found in model.all:
        assert ((found.mix > 0).sum(axis=1) <= 2).all()


def test_no_replication():
    model = model_of("gpt2", "local:4", Space(replication=False))
    free = model_of("gpt2", "local:4")
    for g in range(len(model.all)):
        most = max(sum(c != "-" for c in row) for row in lead_rows(free, g))
        assert {sum(c != "-" for c in row) for row in lead_rows(model, g)} == {most}


def test_what_has_too_few_parts_is_split_as_far_as_possible():
    """A batch of 4 and 16 columns on 8 devices, without replication: nothing is simply left whole."""
    model = model_of("mlp", "p2.8xlarge", TOFU)
    for g, group in enumerate(model.coarse.groups):
        if group.weight is not Weight.UPDATE:
            assert len(model.all[g])
            assert all(any(c != "-" for c in row) for row in lead_rows(model, g))


def test_no_reduction():
    model = model_of("gpt2", "local:4", Space(reduction=False))
    for g, group in enumerate(model.coarse.groups):
        found = model.all[g]
        for slot in range(len(group.slots)):
            reduces = np.array(found.options[slot].reduces)
            assert not reduces[found.choice[:, slot]].any()


def test_batch_only():
    model = model_of("gpt2", "local:4", Space(batch_only=True))
    split = 0
    for g in heavy(model):
        found = model.all[g]
        used = (found.mix > 0).any(axis=0).reshape(-1, len(found.kinds)).any(axis=0)
        kinds = {kind for kind, u in zip(found.kinds, used, strict=True) if u}
        assert kinds <= {None, Soap.SAMPLE}
        split += Soap.SAMPLE in kinds
    assert split


def test_roles_of_axes():
    """One mesh for all (Mesh-TensorFlow): samples along the first axis, anything but samples along the second."""
    model = model_of("gpt2", "local:6", Space(roles=("sample", "other")))
    for g in heavy(model):
        found = model.all[g]
        samples = {n for n, kind in enumerate(found.kinds) if kind is Soap.SAMPLE}
        lead = model.coarse.groups[g].lead
        tied = model.group_choices[g].lead_option
        by_samples = {int(tied[n]) for n in samples}
        assert set(found.choice[:, lead, 0].tolist()) <= by_samples | {0}
        assert by_samples.isdisjoint(found.choice[:, lead, 1].tolist())


def test_one_split_for_all_axes():
    model = model_of("mlp", "p2.8xlarge", Space(replication=False, single_split=True))
    for g in heavy(model):
        assert all(len(set(row) - {"-"}) == 1 for row in lead_rows(model, g))


def test_one_device_has_one_configuration():
    model = model_of("mlp", "local:1")
    assert {len(found) for found in model.all} == {1}


def plans_of(name, on):
    coarse, machine = coarse_of(name), cluster(on)
    return [other_plan(n, coarse, machine, COSTS) for n in ("data", "zero", "megatron")]


def test_plans_bring_their_configurations():
    plans = plans_of("mlp", "v100-2x8")
    model = make_estimate(coarse_of("mlp"), cluster("v100-2x8"), COSTS, plans=plans)
    nodes = model.coarse.facts.graph.nodes
    for g, group in enumerate(model.coarse.groups):
        for plan, number in zip(plans, model.seeds[g], strict=True):
            assert number is not None
            for slot, members in enumerate(group.slots):
                assert model.all[g].strategy(number, slot) == plan.strategy(nodes[members[0]].name)


def test_what_plans_bring_hides_no_uniform_configuration():
    """Searches over many configurations start with the uniform ones, whatever plans were brought."""
    alone = model_of("gpt2", "v100-2x8")
    given = make_estimate(
        coarse_of("gpt2"), cluster("v100-2x8"), COSTS, plans=plans_of("gpt2", "v100-2x8")
    )
    for before, after in zip(alone.all, given.all, strict=True):
        assert len(after.uniform()) - len(before.uniform()) == len(after) - len(before)


def test_uniform_configurations_have_one_choice_for_each_level():
    model = model_of("mlp", "v100-2x8")
    g = heavy(model)[1]
    rows = lead_rows(model, g)
    uniform = {rows[c] for c in model.all[g].uniform()}
    assert {("i", "-", "-", "-"), ("j", "j", "j", "j")} <= uniform
    assert all(len(set(row[1:])) == 1 for row in uniform)


def test_near_configurations_differ_in_one_axis():
    model = model_of("mlp", "v100-2x8")
    g = heavy(model)[1]
    rows = lead_rows(model, g)
    some = rows.index(("j", "j", "j", "j"))
    near = {rows[c] for c in model.all[g].near(np.array([some]))}
    assert rows[some] in near
    assert ("i", "j", "j", "j") in near
    assert all(sum(c != "j" for c in row) <= 1 for row in near)


def test_choices_are_splits_of_the_lead():
    model = model_of("mlp", "p2.8xlarge")
    for g, group in enumerate(model.coarse.groups):
        choices = model.all[g].options[group.lead].choices
        used = {choices[o] for o in model.all[g].choice[:, group.lead].ravel().tolist()}
        assert all(isinstance(c, Along) or str(c) == "-" for c in used)
