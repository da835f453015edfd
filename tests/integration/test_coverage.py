"""Every operator of every zoo training graph is described; those with an opaque part are listed here, with the reason."""

import warnings

import pytest

from graphwright import zoo
from graphwright.capture import capture
from graphwright.report import graph_coverage

OPAQUE: dict[str, str] = {}
"""No operator of the zoo's training graphs needs an opaque function; sorting and factorising would."""


def families() -> list[str]:
    """One model of each distinct small configuration."""
    seen: dict[str, str] = {}
    for entry in zoo.entries():
        seen.setdefault(entry.family + entry.name.split("-")[0], entry.name)
    return sorted(seen.values())


@pytest.mark.parametrize("name", families())
def test_every_operator_is_described(name):
    workload = zoo.load(name, small=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = capture(
            workload.model,
            workload.loss_fn,
            workload.batch,
            optimizer=workload.optimizer,
            optimizer_options=workload.optimizer_options,
        )
    found = graph_coverage(name, graph)
    assert found.undescribed == ()
    assert set(found.opaque) <= set(OPAQUE)
