"""Autocast: which parts of a step it reaches, and on which device.

    forward, loss       under `autocast=...`, the autocast that surrounds the capture, and what the
                        model itself switches on and off
    backward, update    in the dtypes that the forward pass left, as eager code outside the context
    replay, run         never: a graph has its casts as operators

A graph has no devices, so `torch.autocast("cuda")` in a model's code means the same as
`torch.autocast("cpu")` while it is captured: the operators that the CPU's autocast runs in lower
precision are cast, whatever machine captures the model and whichever runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from graphwright.errors import InvalidAutocast

_DEVICES = ("cpu", "cuda", "xpu", "mtia")


def check_autocast(dtype: object, option: str = "autocast") -> None:
    """Raise unless this is a dtype that mixed precision computes in, or None."""
    if dtype not in (None, torch.bfloat16, torch.float16):
        raise InvalidAutocast(
            f"{option} has to be torch.bfloat16 or torch.float16, the dtype to compute in, not "
            f"{dtype!r}"
        )


def surrounding() -> torch.dtype | None:
    """The dtype of the autocast that is on where this is called."""
    for device in _DEVICES:
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    return None


@contextmanager
def without_autocast() -> Iterator[None]:
    """Compute in the dtypes that are given."""
    with ExitStack() as stack:
        for device in _DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def casting(dtype: torch.dtype | None) -> Iterator[None]:
    """Run a forward pass under autocast; what the model switches on reaches fake CPU tensors."""
    with _on_any_device():
        try:
            if dtype is None:
                yield
            else:
                with torch.autocast("cpu", dtype=dtype):
                    yield
        finally:
            torch.clear_autocast_cache()  # it holds weights that were cast, of this pass


@contextmanager
def _on_any_device() -> Iterator[None]:
    make, enter, leave = (
        torch.autocast.__init__,
        torch.autocast.__enter__,
        torch.autocast.__exit__,
    )
    devices: list[str] = []

    def make_on_cpu(
        self: torch.autocast,
        device_type: str,
        dtype: torch.dtype | None = None,
        *args: Any,
        **rest: Any,
    ) -> None:
        make(self, "cpu", dtype or torch.get_autocast_dtype(device_type), *args, **rest)

    def enter_on_cpu(self: torch.autocast) -> object:
        devices.append(self.device)
        self.device = "cpu"
        return enter(self)  # type: ignore[no-untyped-call]

    def leave_cpu(self: torch.autocast, *error: Any) -> object:
        try:
            return leave(self, *error)
        finally:
            self.device = devices.pop()

    with (
        mock.patch.object(torch.autocast, "__init__", make_on_cpu),
        mock.patch.object(torch.autocast, "__enter__", enter_on_cpu),
        mock.patch.object(torch.autocast, "__exit__", leave_cpu),
    ):
        yield
