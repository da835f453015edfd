"""Two hosts that a network alone connects: links are measured by torchrun's processes, and training is exactly that of one device."""

import json

import pytest

import graphwright as gw
from _hosts import Wire, two_hosts, why_not
from graphwright import zoo
from graphwright.errors import InvalidMeasurement
from graphwright.machine import Store, cluster, hosts, save
from graphwright.run import measure_joined
from graphwright.simulate.communication import load_handling, load_tables, signature
from limits import HANG

REASON = why_not()
needs_hosts = pytest.mark.skipif(REASON is not None, reason=f"no two hosts here: {REASON}")

SCRIPT = """
import sys
from graphwright.machine import Store, load
from graphwright.run.links.collectives import GroupLinks
from graphwright.run.measure.links import measure_links, world_groups
from graphwright.run.processes import world

on = load(sys.argv[1])
sizes = (2**10, 2**20)
measure_links(on, world(), GroupLinks(world_groups(on)), store=Store(sys.argv[2]), sizes=sizes, repeats=1, sweeps=1)
"""


@needs_hosts
def test_links_are_measured_and_training_is_exact(tmp_path):
    on = hosts(2, cluster("local:1"), bandwidth=12.5e6, latency=1e-4)
    save(on, tmp_path / "two.toml")
    gw.plan(zoo.load("lenet", small=True).capture(), on, objective="memory").save(tmp_path / "plan.json")  # fmt: skip
    (tmp_path / "measure.py").write_text(SCRIPT)
    store = tmp_path / "costs.sqlite"
    with two_hosts(Wire(rate=1e8), tmp_path) as made:
        made.torchrun([str(tmp_path / "measure.py"), str(tmp_path / "two.toml"), str(store)], seconds=HANG)  # fmt: skip
        said = made.torchrun(["-m", "graphwright", "run", "lenet", "--small", "--plan", str(tmp_path / "plan.json"), "--check", "--json"], seconds=HANG)  # fmt: skip
    gathered = load_tables(Store(store), on)["all_gather", signature((2, 1), 1)]
    assert gathered.time(2**20) > 2**19 / 12.5e6 * 0.7  # half of it goes over the wire
    each, per_byte = load_handling(Store(store), on)
    assert 1e-5 < each < 0.1 and 0 <= per_byte < 1e-6
    check = json.loads(said[said.index("{") :])["check"]
    assert check["agrees"] and check["dtype"] == "float64"
    assert max(check["differences"].values()) < 1e-10


def test_torchrun_has_to_start_a_process_for_each_device():
    on = hosts(2, cluster("local:2"), bandwidth=1e9, latency=1e-4)
    with pytest.raises(InvalidMeasurement, match="hosts has 4 devices, but torchrun has started 1"):
        measure_joined(on)
