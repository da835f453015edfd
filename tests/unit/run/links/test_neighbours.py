"""Messages and reductions between ranks that read each other's memory: here threads of one process, each with its own sockets."""

import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations

import pytest
import torch

from graphwright.run.links.messages import combine_terms
from graphwright.run.links.neighbours import CHUNK, SMALL, Neighbour, Neighbours
from graphwright.run.links.reductions import reduce
from graphwright.run.processes import notices
from limits import HANG

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory of other processes is read on Linux only"
)

LARGE = SMALL  # elements of four or eight bytes: more than fits into an offer


@pytest.fixture
def connect():
    made = []

    def connect(count, *groups, timeout=HANG):
        ends = [{} for _ in range(count)]
        for a, b in combinations(range(count), 2):
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ends[a][b] = Neighbour(pid=os.getpid(), socket=one)
            ends[b][a] = Neighbour(pid=os.getpid(), socket=other)
        groups = groups or (tuple(range(count)),)
        made.extend(Neighbours(rank, ends[rank], groups, timeout) for rank in range(count))
        return made[-count:]

    yield connect
    for each in made:
        each.close()


def at_once(ranks, work):
    """Call work(neighbours) for all ranks, each in a thread."""
    with ThreadPoolExecutor(len(ranks)) as pool:
        return [f.result(HANG) for f in [pool.submit(work, rank) for rank in ranks]]


@pytest.mark.parametrize("size", [1, 5, SMALL // 4, SMALL // 4 + 1, 100_000])
def test_parcels_arrive(connect, size):
    def work(rank):
        got = torch.empty(size)
        sent = torch.arange(size) + float(rank.rank)
        for message in rank.post(3, {1 - rank.rank: sent}, {1 - rank.rank: got}):
            message.wait()
        return torch.equal(got, torch.arange(size) + float(1 - rank.rank))

    assert at_once(connect(2), work) == [True, True]


def test_a_long_wait_names_the_rank_that_does_not_come(connect, monkeypatch, capsys):
    monkeypatch.setattr(notices, "NOTICE_SECONDS", 0.05)
    first, _ = connect(2, timeout=0.3)
    (message,) = first.post(1, {}, {1: torch.empty(3)})
    with pytest.raises(RuntimeError, match="timed out"):
        message.wait()
    told = capsys.readouterr().err
    assert "rank 0 has waited" in told and "for rank 1 (" in told and told.count("\n") == 1


def test_whoever_is_late_finds_what_was_sent(connect):
    first, second = connect(2)
    sent = torch.randn(LARGE)
    (message,) = first.post(1, {1: sent}, {})
    assert not message.done  # its memory is still needed
    got = torch.empty(LARGE)
    second.post(0, {}, {})  # looks, and finds an offer that nobody expects yet
    for each in second.post(1, {}, {0: got}):
        each.wait()
    message.wait()
    assert torch.equal(got, sent) and message.parcel is None


def test_messages_of_a_tag_keep_their_order_and_tags_do_not_mix(connect):
    first, second = connect(2)
    for tag, value in ((1, 10.0), (2, 20.0), (1, 11.0), (2, 21.0)):
        first.post(tag, {1: torch.tensor([value])}, {})
    got = {}
    for tag, number in ((2, 0), (2, 1), (1, 0), (1, 1)):
        got[tag, number] = torch.empty(1)
        for each in second.post(tag, {}, {0: got[tag, number]}):
            each.wait()
    assert {k: float(v) for k, v in got.items()} == {(1, 0): 10, (1, 1): 11, (2, 0): 20, (2, 1): 21}


def test_ranks_may_wait_in_different_orders(connect):
    def work(rank):
        other, begun = 1 - rank.rank, {}
        for tag in (1, 2):
            parcel = torch.full((LARGE,), float(tag))
            begun[tag] = rank.post(tag, {other: parcel}, {other: torch.empty(LARGE)})
        for tag in (1, 2) if rank.rank else (2, 1):
            for message in begun[tag]:
                message.wait()
        return True

    assert at_once(connect(2), work) == [True, True]


def test_more_messages_than_a_socket_holds_wait_for_room(connect):
    first, second = connect(2)
    count = 2000
    sent = [first.post(1, {1: torch.full((SMALL // 8,), float(n))}, {})[0] for n in range(count)]
    assert first.others[1].unsent and sent[0].done and not sent[-1].done
    got = [torch.empty(SMALL // 8) for _ in range(count)]

    def receive(rank):
        if rank is second:
            for place in got:
                for each in second.post(1, {}, {0: place}):
                    each.wait()
        else:
            for each in first.post(2, {}, {1: torch.empty(1)}):
                each.wait()  # who waits for something else sends what is left, too
        if rank is second:
            second.post(2, {0: torch.ones(1)}, {})

    at_once([first, second], receive)
    assert [float(place[-1]) for place in got] == list(range(count))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 7, SMALL // 8, 3000, CHUNK // 2 + 1])
def test_sums_are_sums_and_the_same_everywhere(connect, count, size):
    terms = torch.randn(count, size, dtype=torch.float64)
    given = [term.clone() for term in terms]

    def work(rank):
        value = given[rank.rank]
        reduce(rank, tuple(range(count)), value, partial(combine_terms, "sum")).wait()
        return value

    found = at_once(connect(count), work)
    torch.testing.assert_close(found[0], terms.sum(0))
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize(
    ("reducer", "dtype"),
    [("max", torch.float32), ("min", torch.int64), ("prod", torch.float32), ("any", torch.bool)],
)
@pytest.mark.parametrize("size", [3, 20_000])
def test_other_reducers(connect, reducer, dtype, size):
    terms = torch.randint(0, 2 if dtype is torch.bool else 5, (3, size)).to(dtype)
    expected = terms[0].clone()
    for term in terms[1:]:
        combine_terms(reducer, expected, term)
    given = [term.clone() for term in terms]

    def work(rank):
        reduce(rank, (0, 1, 2), given[rank.rank], partial(combine_terms, reducer)).wait()
        return torch.equal(given[rank.rank], expected)

    assert at_once(connect(3), work) == [True] * 3


def test_many_reductions_of_several_groups_at_once(connect):
    groups = ((0, 1), (1, 2), (0, 1, 2))

    def work(rank):
        begun = []
        for number in range(20):
            for group in groups:
                if rank.rank in group:
                    value = torch.full((4000,), float(number + rank.rank))
                    work = reduce(rank, group, value, partial(combine_terms, "sum"))
                    begun.append((group, number, value, work))
        for group, number, value, work in begun if rank.rank == 1 else reversed(begun):
            work.wait()
            assert set(value.tolist()) == {float(sum(number + r for r in group))}
        return not rank.expected and not rank.arrived and not rank.offered and not rank.running

    assert at_once(connect(3, *groups), work) == [True] * 3


def test_who_leaves_is_named(connect):
    first, second = connect(2)
    begun = first.post(1, {}, {1: torch.empty(4)})
    second.close()
    with pytest.raises(RuntimeError, match="closed by peer: rank 1 is gone"):
        begun[0].wait()


def test_who_leaves_after_its_part_does_no_harm(connect):
    first, second = connect(2)
    second.post(1, {0: torch.tensor([7.0])}, {})
    second.close()
    got = torch.empty(1)
    for message in first.post(1, {}, {1: got}):
        message.wait()
    assert float(got) == 7.0


def test_a_sender_that_is_gone_before_it_was_read(connect):
    first, second = connect(2)
    (message,) = first.post(1, {1: torch.ones(LARGE)}, {})
    second.close()
    with pytest.raises(RuntimeError, match="rank 1 is gone"):
        message.wait()


def test_a_process_that_ends_while_it_is_read(connect):
    first, second = connect(2)
    second.others[0].pid = 2**22 + 1  # no process has this number
    first.post(1, {1: torch.ones(LARGE)}, {})
    with pytest.raises(RuntimeError, match="closed by peer: rank 0 is gone"):
        second.post(1, {}, {0: torch.empty(LARGE)})


def test_waiting_ends(connect):
    first, _ = connect(2, timeout=0.2)
    with pytest.raises(RuntimeError, match=r"timed out after 0 s: rank 0 waits for ranks \[1\]"):
        first.post(1, {}, {1: torch.empty(4)})[0].wait()


def test_waiting_may_take_months(connect):
    first, second = connect(2, timeout=1e7)
    (message,) = first.post(1, {}, {1: torch.empty(4)})
    sending = threading.Timer(0.2, second.post, (1, {0: torch.ones(4)}, {}))
    sending.start()
    message.wait()
    sending.join()
    assert message.done


def test_sizes_have_to_agree(connect):
    first, second = connect(2)
    first.post(1, {1: torch.ones(3)}, {})
    with pytest.raises(RuntimeError, match="rank 0 sent 12 bytes, and 16 were expected"):
        second.post(1, {}, {0: torch.empty(4)})[0].wait()


def test_no_thread_is_left(connect):
    before = threading.active_count()
    connect(3)
    assert threading.active_count() == before
