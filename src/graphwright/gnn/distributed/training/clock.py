"""How long each layer of a part takes, without the time in which its worker waits for others.

A layer is what is computed between two exchanges of a halo, forward and backward:

    forward     layer 0 | exchange 1 | layer 1 | exchange 2 | layer 2, loss
    backward    layer 0 | exchange 1 | layer 1 | exchange 2 | layer 2

So there is one more layer than there are exchanges, whatever modules the model is made of. With one
thread, time is that of the processor: other programs on the machine do not count.
"""

from __future__ import annotations

import time

import torch


class LayerClock:
    """Seconds of each layer of one pass, and the numbers that each row of its halo has."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self.seconds: list[float] = [0.0]
        self.widths: list[int] = [0]
        self._layer, self._since = 0, 0.0

    def start(self) -> None:
        """A pass begins."""
        self.seconds, self.widths = [0.0], [0]
        self._layer, self._since = 0, self._now()

    def stop(self) -> None:
        """What follows is an exchange, or the end."""
        self.seconds[self._layer] += self._now() - self._since

    def go_on(self, layer: int | None = None) -> None:
        """The exchange is over; what follows belongs to a layer (None: to the same)."""
        self._layer = self._layer if layer is None else layer
        self._since = self._now()

    def add_layer(self, width: int) -> int:
        """The number of a layer that begins with a halo of so many numbers per row."""
        self.seconds.append(0.0)
        self.widths.append(width)
        return len(self.seconds) - 1

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
