"""Find the processes of one world: read what the launcher says, reach the store, call the roll.

    RANK=1  WORLD_SIZE=4  LOCAL_RANK=1  MASTER_ADDR=127.0.0.1  MASTER_PORT=29500
      |
      v
    read_variables    refuses what is missing or contradicts itself, before anything starts
      |
      v               rank 0, or the launcher --- store at MASTER_ADDR:MASTER_PORT --- other ranks
    open_store        processes of `gw.launch`: a file in a folder that only their user can enter
      |
      v               "rank 1": "gloo process 4711 on here"
    call_roll         every rank writes its name and what it can use; all wait for all

The roll call reports, instead of a silent wait, two processes of one rank, two opinions about the
size of the world, and ranks that never come. Because the ranks agree on the backend, a machine
without GPUs among others with them does not deadlock.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from graphwright.errors import AddressInUse, InvalidWorld, WorkersMissing

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Backend = Literal["gloo", "nccl"]

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
STORE = "GRAPHWRIGHT_STORE"
"""The file through which processes of `gw.launch` find each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """torchrun's variables, checked."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str
    port: int
    hosted: bool
    """The launcher hosts the store; otherwise rank 0 does."""
    file: Path | None = None
    """The store of `gw.launch`; nothing listens at address and port then."""


def read_variables(environ: Mapping[str, str]) -> Variables | None:
    """Check torchrun's variables; None if none of them says which rank this is."""
    if not any(name in environ for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        return None
    missing = [name for name in NAMES if not environ.get(name)]
    if missing:
        there = ", ".join(f"{name}={environ[name]}" for name in NAMES if environ.get(name))
        raise InvalidWorld(
            f"{' and '.join(missing)} not set, beside {there or 'empty variables'}; torchrun sets "
            "all of them. Unset all of them to run in one process"
        )
    rank, size, local_rank, port = (
        _number(environ, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    local_size = _number(environ, "LOCAL_WORLD_SIZE") if environ.get("LOCAL_WORLD_SIZE") else None
    rules = [
        (size >= 1, f"WORLD_SIZE={size} is not a number of processes"),
        (0 <= rank < size,
         f"RANK={rank} is not one of the ranks 0 to {size - 1} of WORLD_SIZE={size}"),
        (0 <= local_rank <= rank, f"LOCAL_RANK={local_rank} is not between 0 and RANK={rank}"),
        (local_size is None or local_rank < local_size <= size,
         f"LOCAL_WORLD_SIZE={local_size} is not above LOCAL_RANK={local_rank} "
         f"and within WORLD_SIZE={size}"),
        (1 <= port <= 65535, f"MASTER_PORT={port} is not a port; ports are 1 to 65535"),
    ]  # fmt: skip
    for holds, message in rules:
        if not holds:
            raise InvalidWorld(f"{message}; start the script with torchrun or gw.launch")
    return Variables(
        rank=rank,
        size=size,
        local_rank=local_rank,
        local_size=local_rank + 1 if local_size is None else local_size,
        address=environ["MASTER_ADDR"],
        port=port,
        hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        file=Path(environ[STORE]) if environ.get(STORE) else None,
    )


def name_loopback() -> str | None:
    """The network interface that reaches this machine alone."""
    return next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)


def listen(address: str, port: int) -> socket.socket:
    """A listening socket: on loopback alone if that is the address, otherwise on all interfaces."""
    here = is_loopback(address)
    dual = not here and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in address else socket.AF_INET
    try:
        return socket.create_server(
            (address if here else "", port), family=family, backlog=512, dualstack_ipv6=dual
        )
    except OSError as error:
        raise AddressInUse(
            f"rank 0 cannot listen at {address}:{port} (MASTER_ADDR and MASTER_PORT): "
            f"{os.strerror(error.errno or 0)}; choose another MASTER_PORT, or end the program that "
            "holds it"
        ) from error


def _number(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise InvalidWorld(f"{name}={environ[name]!r} is not a whole number") from None


def is_loopback(address: str) -> bool:
    """Whether an address reaches this machine alone."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


def open_store(variables: Variables, deadline: float) -> Store:
    """Host the store, on rank 0 without a launcher that does; otherwise find it."""
    if variables.file is not None:
        return _open_file(variables.file, timedelta(seconds=max(1.0, deadline - time.monotonic())))
    address, port = variables.address, variables.port
    hosts = variables.rank == 0 and not variables.hosted
    listener = listen(address, port).detach() if hosts else None
    if listener is None:
        _await_store(variables, deadline)
    timeout = timedelta(seconds=max(1.0, deadline - time.monotonic()))
    try:
        return torch.distributed.TCPStore(
            address, port, None, hosts, timeout, wait_for_workers=False, master_listen_fd=listener
        )
    except RuntimeError as error:
        raise InvalidWorld(
            f"what listens at {address}:{port} (MASTER_ADDR and MASTER_PORT) does not answer as "
            f"rank 0: {error}"
        ) from error


def _open_file(path: Path, timeout: timedelta) -> Store:
    """The store in a file, if nobody but this user can have written it."""
    try:
        folder = path.parent.stat()
    except OSError as error:
        raise InvalidWorld(f"{STORE}={path}: {error.strerror}; start with gw.launch") from error
    if folder.st_uid != os.getuid() or folder.st_mode & 0o077:
        raise InvalidWorld(
            f"{STORE}={path}: other users can enter {path.parent}, so another process could pose "
            "as a rank; start with gw.launch, which makes a folder of its own"
        )
    store = torch.distributed.FileStore(str(path), -1)
    store.set_timeout(timeout)
    return store


def use_store_for_env() -> None:
    """Let `torch.distributed.init_process_group()` find the file of `gw.launch`, too."""
    if not torch.distributed.is_available():
        return

    def find(url: str, timeout: timedelta, **options: object) -> Iterator[tuple[Store, int, int]]:
        variables = read_variables(os.environ)
        assert variables is not None and variables.file is not None
        yield _open_file(variables.file, timeout), variables.rank, variables.size

    module: Any = import_module("torch.distributed.rendezvous")
    module._rendezvous_handlers["env"] = find


def _await_store(variables: Variables, deadline: float) -> None:
    address, port = variables.address, variables.port
    while True:
        try:
            with socket.create_connection((address, port), timeout=5):
                return
        except socket.gaierror as error:
            raise InvalidWorld(
                f"MASTER_ADDR={address} is not a machine: {error.strerror}"
            ) from error
        except OSError as error:
            if time.monotonic() > deadline:
                host = "the launcher" if variables.hosted else "rank 0"
                raise WorkersMissing(
                    f"rank {variables.rank} of {variables.size} cannot reach {host} at "
                    f"{address}:{port}: {error}; check that it runs, and that MASTER_ADDR and "
                    "MASTER_PORT are its own",
                    ranks=() if variables.hosted else (0,),
                ) from error
            time.sleep(0.1)


def call_roll(store: Store, variables: Variables, wish: Backend, deadline: float) -> Backend:
    """Wait until every rank has said what it can use; the backend that all can use."""
    rank, size = variables.rank, variables.size
    agreed = int(store.compare_set("size", "", str(size)))
    if agreed != size:
        raise InvalidWorld(
            f"rank {rank} has WORLD_SIZE={size}, and a rank that came before has {agreed}; give "
            "all ranks the same"
        )
    name = f"{wish} process {os.getpid()} on {socket.gethostname()}"
    holder = store.compare_set(f"rank {rank}", "", name).decode()
    if holder != name:
        there = holder.partition(" ")[2]
        raise InvalidWorld(
            f"two processes have RANK={rank}: this one and {there}; give each rank once"
        )
    keys = [f"rank {other}" for other in range(size)]
    while not store.check(keys):
        if time.monotonic() > deadline:
            missing = tuple(r for r in range(size) if not store.check([keys[r]]))
            raise WorkersMissing(
                f"rank {rank} of {size} waited in vain for rank {', '.join(map(str, missing))}; "
                "check that they were started, and read their own output",
                ranks=missing,
            )
        time.sleep(0.02)
    wishes = {store.get(key).split()[0] for key in keys}
    return "nccl" if wishes == {b"nccl"} else "gloo"
