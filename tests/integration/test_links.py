"""Links between real processes, with much under way at once: over sockets, and by reading each other's memory."""

import os
import sys
import time
from subprocess import PIPE, Popen

import pytest
import torch

import graphwright as gw
from graphwright.errors import WorkerTimedOut
from graphwright.ir import TensorType
from graphwright.plans import Collective, Exchange
from graphwright.run import world
from graphwright.run.links import connect
from graphwright.run.links.collectives import GroupLinks
from graphwright.run.links.connect import SWITCH
from graphwright.run.processes import supervisor
from graphwright.run.processes.world import leave
from limits import HANG, all_blocked, mark, run_out
from reshardings import KINDS

BOTH = (0, 1)
COUNT = 100
LARGE = 10_000


def collective(kind, *sizes, group=BOTH, **options):
    shared = {"tensor": "t", "value": 0, "output": 1, "group": group}
    return Collective(kind=KINDS[kind], sizes=sizes, **shared, **options)


def many_at_once(rounds):
    """Begin many different collectives before waiting for any: all results are right, and the heap is whole."""
    here = world()
    links = GroupLinks([BOTH])
    mine = torch.tensor([1.0 + here.rank, 5.0])
    gather, scatter = collective("all_gather", 2, 2), collective("reduce_scatter", 1, 1)
    total = collective("all_reduce")
    for _ in range(rounds):
        what = (gather, scatter, total)
        begun = [links.collect(each, mine) for _ in range(COUNT) for each in what]
        found = [each.wait().tolist() for each in begun]
        assert found[::3] == [[1.0, 5.0, 2.0, 5.0]] * COUNT
        assert found[1::3] == [[3.0] if here.rank == 0 else [10.0]] * COUNT
        assert found[2::3] == [[3.0, 10.0]] * COUNT
    links.close()
    return links.near is not None


@pytest.mark.parametrize("near", [True, False])
def test_many_collectives_under_way_at_once(near, monkeypatch):
    monkeypatch.setenv(SWITCH, str(int(near)))
    expected = near and sys.platform.startswith("linux")
    assert gw.launch(2, timeout=HANG)(many_at_once, 100) == [expected] * 2


def extremes():
    """NaN of any rank is in every maximum and minimum, of every dtype, whatever the way."""
    here = world()
    links = GroupLinks([BOTH])
    nan, inf = torch.nan, torch.inf
    terms = ([nan, 1.0, 2.0, -inf, 5.0], [3.0, nan, -1.0, -inf, inf])
    expected = {"max": [nan, nan, 2.0, -inf, inf], "min": [nan, nan, -1.0, -inf, 5.0]}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for reducer, whole in expected.items():
            mine, want = (torch.tensor(v, dtype=dtype) for v in (terms[here.rank], whole))
            total = links.collect(collective("all_reduce", reducer=reducer), mine.clone()).wait()
            torch.testing.assert_close(total, want, equal_nan=True, rtol=0, atol=0)
            parts = collective("reduce_scatter", 2, 3, reducer=reducer)
            own = links.collect(parts, mine.clone()).wait()
            torch.testing.assert_close(
                own, want.split([2, 3])[here.rank], equal_nan=True, rtol=0, atol=0
            )
    links.close()
    return links.near is not None


@pytest.mark.parametrize("near", [True, False])
def test_no_maximum_loses_a_nan(near, monkeypatch):
    monkeypatch.setenv(SWITCH, str(int(near)))
    expected = near and sys.platform.startswith("linux")
    assert gw.launch(2, timeout=HANG)(extremes) == [expected] * 2


def one_apart(away):
    """Three ranks, of which one may be elsewhere, so that all talk over sockets: gathers, scattered and whole sums, and messages around."""
    if int(os.environ["RANK"]) == away:
        os.environ[SWITCH] = "0"
    here, everyone = world(), (0, 1, 2)
    links = GroupLinks([everyone, (0, 1), (1, 2)])
    assert (links.near is not None) == (away < 0 and sys.platform.startswith("linux"))
    value = torch.arange(3.0 * LARGE).reshape(3, LARGE) + here.rank
    whole = torch.arange(3.0 * LARGE).reshape(3, LARGE)
    for group in links.names:
        count, number = len(group), group.index(here.rank)
        found = links.collect(collective("all_gather", *(3,) * count, group=group), value).wait()
        assert torch.equal(found, torch.cat([whole + rank for rank in group]))
        total = sum(whole + rank for rank in group)
        found = links.collect(collective("all_reduce", group=group), value).wait()
        assert torch.equal(found, total) and torch.equal(value, whole + here.rank)
        sizes = (LARGE - count + 1, *(1,) * (count - 1))
        scatter = collective("reduce_scatter", *sizes, group=group, dim=1)
        found = links.collect(scatter, value).wait()
        assert torch.equal(found, total.split(sizes, 1)[number])
    right, left = (here.rank + 1) % 3, (here.rank - 1) % 3
    everything = ((0, 3), (0, LARGE))
    around = Exchange(
        tensor="t", tag=4, value=0, output=1, type=TensorType((3, LARGE), "float32"),
        sends=((right, everything),), receives=((left, everything),), own=(),
    )  # fmt: skip
    assert torch.equal(links.exchange(around, value).wait(), whole + left)
    links.close()
    return True


@pytest.mark.parametrize("away", [-1, 0, 2])
def test_ranks_of_several_machines(away):
    assert gw.launch(3, timeout=HANG)(one_apart, away) == [True] * 3


def one_gives_up():
    """A rank begins what the other does not, and both begin anew: nothing of it is taken for what comes later."""
    here, gather = world(), collective("all_gather", 2, 2)
    links = GroupLinks([BOTH])
    if here.rank == 0:
        links.collect(gather, torch.tensor([-1000.0, -1000.0]))
        links.leave()
    links.renew()
    found = []
    for turn in range(3):
        mine = torch.tensor([turn, here.rank])
        found.append(links.collect(gather, mine).wait().tolist())
        found.append(links.collect(collective("all_reduce"), mine).wait().tolist())
    links.close()
    leave()
    links.close()  # once more, and after the world has ended: nothing is left to do
    return found


@pytest.mark.parametrize("near", [True, False])
def test_what_was_given_up_arrives_nowhere(near, monkeypatch):
    monkeypatch.setenv(SWITCH, str(int(near)))
    expected = [each for turn in range(3) for each in ([turn, 0, turn, 1], [2 * turn, 1])]
    assert gw.launch(2, timeout=HANG)(one_gives_up) == [expected] * 2


def one_sleeps(folder):
    here, links = world(), GroupLinks([BOTH])
    mark(folder)
    if here.rank == 1:
        time.sleep(2 * HANG)
    links.collect(collective("all_reduce"), torch.ones(4)).wait()


@pytest.mark.parametrize("near", [True, False])
def test_who_waits_is_not_to_blame(near, monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, str(int(near)))
    run_out(monkeypatch, supervisor, all_blocked(tmp_path, 2))
    with pytest.raises(WorkerTimedOut) as caught:
        gw.launch(2, timeout=HANG)(one_sleeps, str(tmp_path))
    assert caught.value.rank == 1


STRANGER = """
import socket, sys
calling = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
calling.connect("\\0" + sys.argv[1])
calling.send(bytes([99] * 8))
print("here", flush=True)
sys.stdin.read()
"""


def called_by_a_stranger():
    """A process that is none of the ranks calls each of them, before the others do."""
    strangers = []

    def listen(name):
        listening = listen_really(name)
        command = [sys.executable, "-c", STRANGER, name[1:]]
        strangers.append(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
        assert strangers[-1].stdout.readline() == "here\n"
        return listening

    listen_really, connect._listen = connect._listen, listen
    world()
    links = GroupLinks([BOTH])
    total = links.collect(collective("all_reduce"), torch.ones(LARGE)).wait()
    links.close()
    for stranger in strangers:
        stranger.communicate(timeout=HANG)
    return links.near is not None, float(total[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="neighbours are for Linux alone")
def test_strangers_are_let_go():
    assert gw.launch(2, timeout=HANG)(called_by_a_stranger) == [(True, 2.0)] * 2
