"""What a step takes beyond its parts: calls and transfers are timed in calm moments, one by one.

    a round    compute for w seconds, then a small transfer, which all ranks wait for in turn
    strain     round(w) = (1 + share) w + transfer + delay      two lengths w give share and delay

`share` is what interrupts and shared caches take from whoever computes; `delay` is what a transfer
in the midst of computing waits for: ranks that are not there yet, threads that have to wake up, and
processes that take turns on a core. On a quiet machine with a core for each process both are next
to nothing; elsewhere they are why steps are slower than the sum of their parts. `spread` is how far
rounds are from one another, as a share: no prediction is surer than that.

Rounds come in blocks, of which those count in which other programs had no core (`turns`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import median
from time import perf_counter

import torch

from graphwright.errors import InvalidMeasurement
from graphwright.machine import Cluster, Store, num_cores
from graphwright.run.measure.timing import measure
from graphwright.run.measure.turns import Turns
from graphwright.run.processes import World
from graphwright.simulate import quartiles

SHORT, LONG = 128, 384
"""Sizes of the products between transfers: about 0.05 and 1.5 ms on a core."""
BLOCKS, ROUNDS = 7, 20
"""Rounds are timed in blocks; the median of the blocks counts."""
MOST_SHARE, MOST_DELAY = 0.5, 0.01
"""Beyond this, the moment was not typical of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """Computing takes `share` longer in a step, a transfer `delay` seconds; both are at least 0."""

    share: float = 0.0
    delay: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        for name in ("share", "delay", "spread"):
            value: object = getattr(self, name)
            if not isinstance(value, int | float) or not (isfinite(value) and value >= 0):
                raise InvalidMeasurement(f"a strain has {name} = {value!r}; measure again")


def measure_strain(here: World, transfer: Callable[[], None]) -> Strain:
    """Time rounds of computing and a small transfer; all ranks call this, and get the same."""
    import torch.distributed as dist

    alone = median(_blocks(here, lambda: None, transfer))
    excess, spreads, lengths = [], [], []
    for size in (SHORT, LONG):
        matrix = torch.ones(size, size)

        def compute(matrix: torch.Tensor = matrix) -> None:
            torch.mm(matrix, matrix)

        length = measure(compute, torch.device("cpu"), 0.05).seconds
        low, middle, high = quartiles(_blocks(here, compute, transfer))
        lengths.append(length)
        excess.append(middle - length - alone)
        spreads.append((high - low) / 2 / middle)
    figures = torch.tensor([*lengths, *excess, *spreads], dtype=torch.float64)
    dist.all_reduce(figures, dist.ReduceOp.SUM)
    short, long, little, much, *shares = (figures / here.size).tolist()
    share = min(max(0.0, (much - little) / (long - short)), MOST_SHARE)
    delay = min(max(0.0, little - share * short), MOST_DELAY)
    return Strain(share=share, delay=delay, spread=max(shares))


def _blocks(here: World, compute: Callable[[], None], transfer: Callable[[], None]) -> list[float]:
    """Seconds of a round, by the mean of each block that counts.

    Where processes outnumber the cores, they wait for each other, and that counts.
    """

    def block() -> float:
        began = perf_counter()
        for _ in range(ROUNDS):
            compute()
            transfer()
        return (perf_counter() - began) / ROUNDS

    block()
    turns = Turns[float](BLOCKS)
    while not turns.are_enough:
        turns.take(block)
        if here.size > num_cores() and len(turns.made) == BLOCKS:
            break
    return turns.that_count


def _note(on: Cluster) -> str:
    return f"strain of {on.num_devices} x {on.devices[0].name}, 1"


def save_strain(store: Store, on: Cluster, strain: Strain) -> None:
    """Keep what was measured on a cluster."""
    store.put_note(_note(on), json.dumps(asdict(strain)))


def load_strain(store: Store, on: Cluster) -> Strain:
    """What was measured on a cluster with so many devices of that kind; none if nothing was."""
    text = store.load_note(_note(on))
    try:
        return Strain() if text is None else Strain(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise InvalidMeasurement(
            f"{store.path} has no strain in {_note(on)!r}: {error}; measure again with "
            "`graphwright calibrate --cluster`"
        ) from None
