"""Connections that are watched, and errors that name who is lost."""

import socket

import pytest

from graphwright.errors import GraphwrightError, InvalidWorld
from graphwright.run.processes.lost import (
    LOST_SECONDS,
    VARIABLE,
    RankLost,
    lost_seconds,
    naming_lost_ranks,
    watching_connections,
)

CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.7]:4711. Check the logs."
TIMED_OUT = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1000ms for recv operation to complete"


def connect(listening: socket.socket) -> tuple[socket.socket, socket.socket]:
    calling = socket.create_connection(listening.getsockname())
    return calling, listening.accept()[0]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux watches connections")
def test_connections_of_the_block_are_watched_and_no_others(monkeypatch):
    monkeypatch.setenv(VARIABLE, "8")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        before = connect(listening)
        with watching_connections():
            within = connect(listening)
        for ends, watched in ((before, False), (within, True)):
            for end in ends:
                with end:
                    assert bool(end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is watched
                    limit = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    assert limit == (8000 if watched else 0)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e9"])
def test_times_that_are_none(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidWorld, match=f"{VARIABLE}='{text}' is not a number of seconds"):
        lost_seconds()


def test_the_time_without_a_word(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert lost_seconds() == LOST_SECONDS


def test_a_broken_connection_is_named():
    with (
        pytest.raises(RankLost, match=r"rank 3 has lost the connection to the ranks at 10\.0\.0\.7 in step 5") as caught,
        naming_lost_ranks(3, "in step 5"),
    ):  # fmt: skip
        raise RuntimeError(CLOSED)
    assert caught.value.address == "10.0.0.7"
    assert isinstance(caught.value, GraphwrightError)
    assert "Check the logs" not in str(caught.value)


@pytest.mark.parametrize("text", [TIMED_OUT, "a kernel failed"])
def test_other_errors_stay_what_they_are(text):
    with pytest.raises(RuntimeError) as caught, naming_lost_ranks(0, "in step 1"):
        raise RuntimeError(text)
    assert type(caught.value) is RuntimeError
