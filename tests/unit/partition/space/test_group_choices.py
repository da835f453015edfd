"""How the operators of a group follow its lead."""

import numpy as np
import pytest
import torch
from torch import nn

from additive import coarse_of
from graphwright.capture import capture
from graphwright.partition import coarsen
from graphwright.partition.space.coarsen import Weight
from graphwright.partition.space.group_choices import find_group_choices, typical
from graphwright.partition.space.options import PARTIAL, REPLICATED
from graphwright.plans import Along, Replicate


def rows_of(coarse, name, **options):
    """The joint choices of the group that makes a tensor: for each, what every node does, by the lead's choice."""
    group = coarse.groups[coarse.group_of[coarse.facts.producer[name][0]]]
    joint = find_group_choices(coarse, group, **options)
    nodes = [coarse.facts.graph.nodes[typical(slot)].name for slot in group.slots]
    return joint, {
        str(joint.options[group.lead].choices[tied]): {
            node: str(joint.options[s].choices[row[s]]) for s, node in enumerate(nodes)
        }
        for row, tied in zip(joint.choice, joint.lead_option, strict=True)
    }


def test_a_linear_layer_as_people_split_it():
    """y = mm(x, w'); dw = mm(x', dy), dx = mm(dy, w)."""
    layers = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    batch = torch.zeros(256, 16), torch.zeros(256, 16)
    coarse = coarsen(capture(layers, nn.functional.mse_loss, batch, optimizer=torch.optim.Adam))
    _, rows = rows_of(coarse, "mm_1")
    lead = lambda choice: {k: v for k, v in rows[choice].items() if "mm" in k or "grad" in k}
    (weight,) = (name for name in lead("i") if name.endswith("weight.grad"))
    (other,) = (name for name in lead("i") if name not in ("mm_1", weight))
    assert lead("-") == {"mm_1": "-", weight: "-", other: "-"}
    assert lead("i")[weight] == "k"  # samples: terms of the gradient of the weight
    assert lead("i")[other] == "i"
    assert lead("j")[other] == "k"  # columns: terms of the gradient of the input
    assert lead("j")[weight] in ("i", "j")
    assert lead("k")[other] == "j"  # rows: the gradient of the input is in parts like the input


@pytest.mark.parametrize("name", ["mlp", "lenet", "gpt2", "rnnlm-2"])
def test_replication_comes_first_and_every_row_names_options(name):
    coarse = coarse_of(name)
    for group in coarse.groups:
        joint = find_group_choices(coarse, group)
        assert (joint.choice[0] == 0).all()
        assert isinstance(joint.options[group.lead].choices[joint.lead_option[0]], Replicate)
        assert len(np.unique(np.hstack([joint.choice, joint.rest]), axis=0)) == len(joint.choice)
        for s, options in enumerate(joint.options):
            assert ((joint.choice[:, s] >= 0) & (joint.choice[:, s] < len(options.choices))).all()
        assert (joint.choice[:, group.lead] == joint.lead_option).all()


@pytest.mark.parametrize("name", ["mlp", "gpt2"])
def test_without_reduction_nothing_is_a_sum_of_terms(name):
    coarse = coarse_of(name)
    with_sums = 0
    for group in coarse.groups:
        for reduction in (False, True):
            joint = find_group_choices(coarse, group, reduction=reduction)
            found = any(
                joint.options[s].reduces[o] for row in joint.choice for s, o in enumerate(row)
            )
            assert reduction or not found
            with_sums += found
    assert with_sums


def test_residents_live_as_they_are_updated_or_whole():
    coarse = coarse_of("gpt2")
    both = 0
    for group in coarse.groups:
        if group.weight is not Weight.UPDATE:
            continue
        joint = find_group_choices(coarse, group)
        graph = coarse.facts.graph
        for row, rest in zip(joint.choice, joint.rest, strict=True):
            assert PARTIAL not in rest.tolist()
            state = {
                int(c)
                for n, c in zip(group.inputs, rest, strict=True)
                if graph.tensors[n].role.value == "optimizer_state"
            }
            choice = joint.options[group.lead].choices[row[group.lead]]
            if isinstance(choice, Along):
                assert len(state) == 1
                assert state != {REPLICATED}
                both += rest[0] == REPLICATED
    assert both
