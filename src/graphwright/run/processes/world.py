"""Join the processes that torchrun, or `launch`, has started: which rank is this, and on what?

    torchrun -----> RANK, WORLD_SIZE, ... ---> world() ---> World(rank=1, size=4, backend="nccl")
    no launcher --------------------------->  world() ---> World(rank=0, size=1, backend=None)

`rendezvous` meets the others and agrees on the backend: NCCL if every rank has a GPU of its own,
otherwise Gloo. A process without torchrun's variables is a world of one, without a process group.
"""

from __future__ import annotations

import atexit
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from graphwright.errors import InvalidWorld
from graphwright.run.processes.lost import watching_connections
from graphwright.run.processes.peers import refuse_strangers
from graphwright.run.processes.rendezvous import (
    Backend,
    Variables,
    call_roll,
    is_loopback,
    name_loopback,
    open_store,
    read_variables,
)

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

JOIN_SECONDS = 300.0
"""How long a rank waits for the others, when joining and in a collective."""

_store: Store | None = None  # kept until the process ends: others may still use it
_joined: tuple[object, World] | None = None  # the group, and its world
_num_joins = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One process among `size`: its rank, its device, its backend (None: there are no others)."""

    rank: int
    size: int
    local_rank: int
    device: torch.device
    backend: Backend | None


def world(*, device: str | None = None, timeout: float = JOIN_SECONDS) -> World:
    """Join the default process group, once; where a group is there already, return its world.

    `device` is "cpu" or "cuda", None for GPUs where every rank has one; `timeout` is in seconds.
    """
    global _joined
    if device not in (None, "cpu", "cuda"):
        raise InvalidWorld(f"there is no device {device!r} to join with; give 'cpu' or 'cuda'")
    if not timeout > 0:
        raise InvalidWorld(f"timeout={timeout} leaves no time to join; give seconds above 0")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        same = _joined is not None and _joined[0] is torch.distributed.group.WORLD
        here = _joined[1] if _joined is not None and same else _existing_world()
        if device is not None and here.device.type != device:
            raise InvalidWorld(
                f"this process is rank {here.rank} of a world that uses {here.device.type} over "
                f"{here.backend}, and {device} was asked for; call leave() on all ranks first"
            )
        return here
    variables = read_variables(os.environ)
    if variables is None:
        if device == "cuda" and not torch.cuda.is_available():
            raise InvalidWorld("device='cuda' was asked for, and PyTorch sees no GPU here")
        place = torch.device("cpu")
        if device == "cuda" or (device is None and torch.cuda.is_available()):
            place = torch.device("cuda", torch.cuda.current_device())
        return World(rank=0, size=1, local_rank=0, device=place, backend=None)
    here = _join(variables, device, timeout)
    _joined = torch.distributed.group.WORLD, here
    # Threads of a group that is still there when the process ends would end it by force.
    atexit.register(leave)
    return here


def leave() -> None:
    """Destroy the default process group, if any; `world` may join again, on all ranks."""
    global _joined
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    _joined = None


def _existing_world() -> World:
    """The world of a group that the program itself has initialised."""
    config = str(torch.distributed.get_backend_config())  # "cuda:nccl", "cpu:gloo,cuda:nccl"
    backend: Backend | None = "nccl" if "nccl" in config else "gloo" if "gloo" in config else None
    if backend is None:
        raise InvalidWorld(f"the process group that is there uses {config}; use gloo or nccl")
    rank = torch.distributed.get_rank()
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", torch.cuda.current_device())
    size = torch.distributed.get_world_size()
    return World(rank=rank, size=size, local_rank=local_rank, device=device, backend=backend)


def _join(variables: Variables, device: str | None, timeout: float) -> World:
    global _store, _num_joins
    if not torch.distributed.is_available():
        raise InvalidWorld(
            "this PyTorch was built without torch.distributed; install another build"
        )
    can = _can_use_nccl(variables)
    if device == "cuda" and not can:
        raise InvalidWorld(
            f"device='cuda' was asked for, and rank {variables.rank} has no GPU of its own: "
            f"PyTorch sees {torch.cuda.device_count()} for {variables.local_size} ranks here"
        )
    deadline = time.monotonic() + timeout
    if _store is None:
        _store = open_store(variables, deadline)
    # Keys of an earlier group are still in the store, so each join has a place of its own.
    store = torch.distributed.PrefixStore(f"graphwright/{_num_joins}", _store)
    _num_joins += 1
    wish: Backend = "nccl" if can and device != "cpu" else "gloo"
    backend = call_roll(store, variables, wish, deadline)
    if backend != wish and device == "cuda":
        raise InvalidWorld("device='cuda' was asked for, and other ranks have no GPU of their own")
    place = torch.device("cpu")
    if backend == "nccl":
        place = torch.device("cuda", variables.local_rank)
        torch.cuda.set_device(place)
    loopback = name_loopback()
    if is_loopback(variables.address) and loopback is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    try:
        with watching_connections():
            torch.distributed.init_process_group(
                backend,
                store=store,
                rank=variables.rank,
                world_size=variables.size,
                timeout=timedelta(seconds=timeout),
                device_id=place if backend == "nccl" else None,
            )
    except RuntimeError as error:
        raise InvalidWorld(
            f"rank {variables.rank} of {variables.size} has met all others, and {backend} cannot "
            f"connect them: {error}"
        ) from error
    if backend == "gloo":
        refuse_strangers()
    rank, size, local_rank = variables.rank, variables.size, variables.local_rank
    return World(rank=rank, size=size, local_rank=local_rank, device=place, backend=backend)


def _can_use_nccl(variables: Variables) -> bool:
    return (
        torch.cuda.is_available()
        and torch.distributed.is_nccl_available()
        and torch.cuda.device_count() >= variables.local_size
    )
