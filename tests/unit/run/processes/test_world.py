"""Worlds of processes: torchrun's variables, the roll call, and what needs no second process."""

import socket
import time

import pytest
import torch
import torch.distributed as dist

from graphwright.errors import AddressInUse, InvalidWorld, WorkersMissing
from graphwright.run.processes.rendezvous import call_roll, is_loopback, listen, read_variables
from graphwright.run.processes.world import World, leave, world
from limits import HANG

SET = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in SET:
        monkeypatch.delenv(name, raising=False)
    yield
    leave()


def test_variables_are_read():
    found = read_variables(SET)
    assert (found.rank, found.size, found.local_rank, found.local_size) == (5, 8, 1, 4)
    assert (found.address, found.port, found.hosted) == ("10.0.0.1", 29500, False)
    assert read_variables(SET | {"TORCHELASTIC_USE_AGENT_STORE": "True"}).hosted
    without = {name: value for name, value in SET.items() if name != "LOCAL_WORLD_SIZE"}
    assert read_variables(without).local_size == 2  # as many as are known to be there


def test_an_address_alone_is_no_world():
    assert read_variables({}) is None
    assert read_variables({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}) is None


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
@pytest.mark.parametrize("empty", [False, True])
def test_every_variable_is_needed(name, empty):
    given = {**SET, name: ""} if empty else {k: v for k, v in SET.items() if k != name}
    with pytest.raises(InvalidWorld, match=f"^{name} not set, beside .*=") as caught:
        read_variables(given)
    assert "torchrun sets all of them" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "8"}, "RANK=8 is not one of the ranks 0 to 7 of WORLD_SIZE=8"),
        ({"RANK": "-1"}, "RANK=-1 is not one of"),
        ({"RANK": "one"}, "RANK='one' is not a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 is not a number of processes"),
        ({"LOCAL_RANK": "6"}, "LOCAL_RANK=6 is not between 0 and RANK=5"),
        ({"LOCAL_RANK": "4"}, "LOCAL_WORLD_SIZE=4 is not above LOCAL_RANK=4"),
        ({"LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 is not above LOCAL_RANK=1 and within WORLD_SIZE=8"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT=0 is not a port"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is not a port"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT='http' is not a whole number"),
    ],
)  # fmt: skip
def test_variables_that_contradict_each_other(changed, message):
    with pytest.raises(InvalidWorld) as caught:
        read_variables(SET | changed)
    assert message in str(caught.value)


def test_bad_variables_stop_before_anything_starts(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(InvalidWorld, match="WORLD_SIZE and LOCAL_RANK and MASTER_ADDR"):
        world()
    assert not dist.is_initialized()


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback(address):
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "example.org", "::", "0.0.0.0"])
def test_not_loopback(address):
    assert not is_loopback(address)


def test_loopback_listens_on_loopback_and_others_everywhere():
    with listen("127.0.0.1", 0) as here, listen("10.0.0.1", 0) as everywhere:
        assert here.getsockname()[0] == "127.0.0.1"
        assert everywhere.getsockname()[0] in ("::", "0.0.0.0")
        socket.create_connection(("127.0.0.1", everywhere.getsockname()[1])).close()


def test_a_port_in_use():
    with listen("127.0.0.1", 0) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"127\.0\.0\.1:{port} .*in use; choose another"):
            listen("127.0.0.1", port)


def test_rank_0_says_that_its_port_is_in_use(monkeypatch):
    with listen("127.0.0.1", 0) as holder:
        port = str(holder.getsockname()[1])
        given = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
        for name, value in (given | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(AddressInUse, match=port):
            world()
    assert not dist.is_initialized()


def ranks(size, **changed):
    given = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": "1"}
    return [read_variables(SET | given | {"RANK": str(r)} | changed) for r in range(size)]


def test_the_roll_ends_when_all_are_there_and_all_can_use_the_backend():
    for wishes, agreed in (
        (("nccl", "nccl"), "nccl"),
        (("nccl", "gloo"), "gloo"),
        (("gloo", "gloo"), "gloo"),
    ):
        store = dist.HashStore()
        store.set("rank 1", f"{wishes[1]} process 1 on there")
        assert call_roll(store, ranks(2)[0], wishes[0], time.monotonic() + HANG) == agreed


def test_the_roll_names_who_is_missing():
    store = dist.HashStore()
    store.set("rank 1", "gloo process 1 on there")
    with pytest.raises(WorkersMissing, match="rank 0 of 4 waited in vain for rank 2, 3") as caught:
        call_roll(store, ranks(4)[0], "gloo", time.monotonic() + 0.1)
    assert caught.value.ranks == (2, 3)


def test_the_roll_refuses_a_rank_that_is_there_twice():
    store = dist.HashStore()
    store.set("rank 0", "gloo process 77 on there")
    with pytest.raises(InvalidWorld, match=r"two processes have RANK=0.*process 77 on there"):
        call_roll(store, ranks(2)[0], "gloo", time.monotonic() + HANG)


def test_the_roll_refuses_two_sizes():
    store = dist.HashStore()
    store.set("size", "3")
    with pytest.raises(InvalidWorld, match="rank 0 has WORLD_SIZE=2, and a rank that came before has 3"):  # fmt: skip
        call_roll(store, ranks(2)[0], "gloo", time.monotonic() + HANG)


def test_without_variables_a_world_of_one():
    found = world(device="cpu")
    assert found == World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), backend=None)
    assert not dist.is_initialized()
    leave()


def test_a_group_that_is_there_is_used():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    found = world()
    assert found == World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), backend="gloo")
    with pytest.raises(InvalidWorld, match="uses cpu over gloo, and cuda was asked for; call leave"):  # fmt: skip
        world(device="cuda")
    leave()
    assert not dist.is_initialized()
    assert world(device="cpu").backend is None


def test_options_that_cannot_be():
    with pytest.raises(InvalidWorld, match="there is no device 'tpu'"):
        world(device="tpu")
    with pytest.raises(InvalidWorld, match="timeout=0 leaves no time"):
        world(timeout=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(monkeypatch):
    with pytest.raises(InvalidWorld, match="PyTorch sees no GPU"):
        world(device="cuda")
    for name, value in (SET | {"RANK": "0", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidWorld, match="rank 0 has no GPU of its own: PyTorch sees 0 for 4"):
        world(device="cuda")
