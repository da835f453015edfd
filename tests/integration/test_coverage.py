"""Every operator of every zoo training graph is described, and the batch splits at every one of them."""

import warnings
from functools import cache

import pytest

from graphwright import zoo
from graphwright.describe import node_splits, properties, sample_dims, types_of
from graphwright.ir import Graph
from graphwright.report import graph_coverage


def families() -> list[str]:
    """One model of each distinct small configuration."""
    seen: dict[str, str] = {}
    for entry in zoo.entries():
        seen.setdefault(entry.family + entry.name.split("-")[0], entry.name)
    return sorted(seen.values())


@cache
def captured(name: str) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return zoo.load(name, small=True).capture()


@pytest.mark.parametrize("name", families())
def test_every_operator_is_described_and_none_is_opaque(name):
    found = graph_coverage(name, captured(name))
    assert found.undescribed == ()
    assert found.opaque == {}


@pytest.mark.parametrize("name", families())
def test_the_batch_splits_at_every_operator(name):
    graph = captured(name)
    samples = sample_dims(graph)
    for node in graph.nodes:
        if not any(samples[n] for n in node.inputs if n is not None):
            continue
        if properties(node.op, node.attrs, types_of(graph, node)).random:
            continue  # drawn whole on every device
        assert any(
            dim in samples[node.inputs[arg]]
            for split in node_splits(graph, node)
            for arg, dim in split.cut_dims
        ), node
