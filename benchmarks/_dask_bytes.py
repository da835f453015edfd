"""Count what the workers of a Dask cluster receive from each other, by both of its ways.

An ordinary dependency is in a worker's log of incoming transfers; shards of a P2P rechunk go past that, so they are
counted where they are sent. What the client sends or fetches is in neither.
"""

from __future__ import annotations

from typing import Any

from distributed import Client


def install(client: Client) -> None:
    """Begin to count."""
    client.run(_install)


def received(client: Client) -> int:
    """Bytes received from other workers since `install`, by all workers together."""
    return sum(client.run(_received).values())


def _install(dask_worker: Any) -> None:
    from dask.sizeof import sizeof
    from distributed.shuffle._core import ShuffleRun

    dask_worker.transfer_incoming_log.clear()
    if hasattr(ShuffleRun, "bytes_sent_to_others"):
        return
    ShuffleRun.bytes_sent_to_others = 0
    send = ShuffleRun.send

    async def counted(self: Any, address: str, shards: list[Any]) -> Any:
        if address != self.local_address:
            ShuffleRun.bytes_sent_to_others += sum(sizeof(shard) for _, shard in shards)
        return await send(self, address, shards)

    ShuffleRun.send = counted


def _received(dask_worker: Any) -> int:
    from distributed.shuffle._core import ShuffleRun

    ordinary = sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)
    return int(ordinary + getattr(ShuffleRun, "bytes_sent_to_others", 0))
