"""Run passes of a model with a limit on what the device holds: the rest waits on the host.

    cache = DeviceCache(memory=2**30, device=device)
    cache.lend(features)                  the cache may take them off the device from now on
    with cache.run("train"):
        loss = model(g, x)...backward()

PyTorch tells a dispatch mode of every operator before it runs, forwards and backwards, and kernels
of this package of themselves (`kernels.choice`). So the cache brings what an operator reads, and
makes room for what it makes. The first pass of a name is recorded (`passes`); from the second on
what stays was chosen for the calls of the first. A pass that does something else is recorded anew
from there on.

What the pass makes and what was lent is managed, except integers (indices, which are also read by
other means) and tensors of less than a thousandth of the memory or 256 KiB: their bytes are
counted. `fixed` bytes are taken by others meanwhile: parameters, optimizer state, the graph itself.
Memory that an operator takes for itself while it runs comes on top.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from graphwright.gnn.distributed.cache.passes import CACHING, Call, Pass
from graphwright.gnn.distributed.cache.slots import Slot
from graphwright.gnn.storage import DGLError
from graphwright.plans import MemoryTooSmall

SMALL, MOST_SMALL = 1000, 1 << 18


class DeviceCache(TorchDispatchMode):
    """The device's memory, and which storages are in it."""

    def __init__(
        self, *, memory: int, device: torch.device, caching: str = "least", fixed: int = 0
    ) -> None:
        super().__init__()
        if caching not in CACHING:
            raise DGLError(f"there is no caching {caching!r}; it is one of {', '.join(CACHING)}")
        self.memory, self.caching, self.fixed = memory, caching, fixed
        self.device = torch.empty(0, device=device).device  # with its number, as tensors have it
        self.small = min(memory // SMALL, MOST_SMALL)
        self.passes: dict[str, Pass] = {}
        self.bytes_in = self.bytes_out = self.held = self.peak = 0
        self._slots: dict[int, Slot] = {}
        self._by_address: dict[int, Slot] = {}
        self._hosts: dict[tuple[str, int], Tensor] = {}
        self._beside: list[tuple[StorageWeakRef, int]] = []
        self._lent = 0
        self._name = ""
        self._pass = Pass()
        self._following: Pass | None = None

    def lend(self, tensors: Iterable[Tensor]) -> None:
        """Manage tensors that last: nobody changes them, or reads them but in passes.

        What was lent before is no longer managed; all that was recorded is forgotten.
        """
        self.passes.clear()
        self._hosts.clear()
        self._slots.clear()
        self._by_address.clear()
        self.held, self._name = 0, ""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.nbytes() < max(1, self.small) or storage._cdata in self._by_address:
                continue
            slot = self._take(tensor)
            slot.copy_out(self._host(slot))
            self._free(slot)
        self._lent = len(self._slots)

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        """A pass: those of one name do the same."""
        known = self.passes.get(name)
        self._name, self._pass, self._following = name, Pass(lent=self._lent), known
        self._pass.sizes = {s: self._slots[s].nbytes for s in range(self._lent)}
        self.bytes_in = self.bytes_out = self.peak = 0
        self._beside.clear()
        if known is not None and known.chosen is None:
            known.choose(self.room(known), self.caching)
        if known is not None and known.chosen is not None:
            for slot in list(self._slots.values()):
                if slot.is_here and slot.number not in known.chosen.residents:
                    self._leave(slot)
            self._bring([self._slots[s] for s in known.chosen.residents])
        with self:
            yield
        self._end()

    def room(self, known: Pass) -> int:
        """Bytes that the managed storages of a pass may take."""
        room = self.memory - self.fixed - known.beside
        if room <= 0:
            raise MemoryTooSmall(
                f"{self.memory:,} bytes of memory are taken by parameters, optimizer and graph "
                f"({self.fixed:,}) and by small tensors ({known.beside:,}); give it more memory, "
                "or cut the graph into more parts"
            )
        return room

    def _end(self) -> None:
        """What somebody still holds is no longer managed, and back on the device."""
        kept = []
        for slot in [slot for slot in self._slots.values() if slot.number >= self._lent]:
            if not slot.is_gone:
                kept.append(slot.number)
                self._bring([slot])
            self._forget(slot)
        if self._following is None:
            self._pass.kept = frozenset(kept)
            self.passes[self._name] = self._pass
        elif len(self._pass.calls) < len(self._following.calls):
            del self.passes[self._name]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        return self._call(str(func), lambda: func(*args, **kwargs), args, kwargs, _changed(func))

    def run_kernel(self, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Run a kernel as one operator: what it computes inside is its own affair.

        On a CPU it works on copies, since memory that NumPy has seen is never given back.
        """

        def whole() -> Any:
            on_cpu = self.device.type == "cpu"
            made = function(*map(_copied, args) if on_cpu else args)
            return tuple(map(_resizable, made)) if isinstance(made, tuple) else _resizable(made)

        with _disable_current_modes():
            return self._call(name, whole, args, {}, ())

    def _call(
        self, name: str, function: Callable[[], Any], args: Sequence[Any],
        kwargs: Mapping[str, Any], changed: Sequence[Any],
    ) -> Any:  # fmt: skip
        self._sweep()
        reads = self._managed(tree_leaves((args, kwargs)))
        writes = tuple(slot.number for slot in self._managed(_given(changed, args, kwargs)))
        at = len(self._pass.calls)
        numbers = tuple(slot.number for slot in reads)
        for slot in self._leaving(at, name, numbers, writes):
            self._leave(slot)
        self._bring(reads)
        begin = time.perf_counter()
        result = function()
        seconds = time.perf_counter() - begin
        made = self._made(result)
        for number in writes:
            self._slots[number].on_host = False
        call = Call(name, numbers, writes, tuple(slot.number for slot in made), seconds)
        self._pass.calls.append(call)
        if self._following is not None and call != self._following.calls[at]:
            self._following = None
        self.peak = max(self.peak, self.held)
        return result

    def _leaving(
        self, at: int, name: str, reads: tuple[int, ...], writes: tuple[int, ...]
    ) -> list[Slot]:
        """Who makes room for a call: by the choice, or all where nothing was chosen for it."""
        known = self._following
        if known is None or at >= len(known.calls):
            self._following = None
        else:
            call = known.calls[at]
            if (call.name, call.reads, call.writes) != (name, reads, writes):
                self._following = None
        here = [s for s in self._slots.values() if s.is_here and s.number not in reads]
        if known is None or self._following is None:
            return here
        assert known.chosen is not None
        leaving = [self._slots[s] for s in known.chosen.leaves[at] if s in self._slots]
        coming = sum(self._slots[s].nbytes for s in reads if not self._slots[s].is_here)
        held = self.held + coming + sum(known.sizes[s] for s in known.calls[at].makes)
        held -= sum(slot.nbytes for slot in leaving)
        for slot in here:  # what somebody holds without reading it again was not counted
            if held > self.room(known) and known.last.get(slot.number, at) < at:
                leaving.append(slot)
                held -= slot.nbytes
        return leaving

    # -- storages ---------------------------------------------------------------------------------

    def _managed(self, values: Iterable[Any]) -> list[Slot]:
        """The managed storages among some arguments, each once."""
        found: dict[int, Slot] = {}
        for value in values:
            if isinstance(value, Tensor) and value.device == self.device:
                slot = self._by_address.get(value.untyped_storage()._cdata)
                if slot is not None:
                    found[slot.number] = slot
        return list(found.values())

    def _made(self, result: Any) -> list[Slot]:
        """The storages that a call has made."""
        made: list[Slot] = []
        for value in tree_leaves(result):
            if not isinstance(value, Tensor) or value.device != self.device:
                continue
            storage = value.untyped_storage()
            if storage._cdata in self._by_address or not storage.nbytes():
                continue
            is_large = storage.nbytes() >= max(1, self.small)
            if not is_large or not value.is_floating_point() or not storage.resizable():
                self._notice(value)
                continue
            slot = self._take(value)
            self._pass.sizes[slot.number] = slot.nbytes
            made.append(slot)
        return made

    def _take(self, tensor: Tensor) -> Slot:
        storage = tensor.untyped_storage()
        number = self._next_number()
        slot = Slot(number, storage.nbytes(), StorageWeakRef(storage), tensor.device)
        self._slots[number] = self._by_address[storage._cdata] = slot
        self.held += slot.nbytes
        return slot

    def _next_number(self) -> int:
        return len(self._pass.sizes) if self._name else len(self._slots)

    def _notice(self, tensor: Tensor) -> None:
        """A small tensor: it stays, and its bytes are counted."""
        storage = tensor.untyped_storage()
        if storage._cdata not in {ref.cdata for ref, _ in self._beside}:
            self._beside.append((StorageWeakRef(storage), storage.nbytes()))
        self._beside = [each for each in self._beside if not each[0].expired()]
        total = sum(nbytes for _, nbytes in self._beside)
        self._pass.beside = max(self._pass.beside, total)

    def _sweep(self) -> None:
        """Forget what nobody uses any more."""
        for slot in [slot for slot in self._slots.values() if slot.is_gone]:
            self._forget(slot)

    def _forget(self, slot: Slot) -> None:
        if slot.is_here:
            self.held -= slot.nbytes
        del self._slots[slot.number]
        del self._by_address[slot.ref.cdata]

    def _leave(self, slot: Slot) -> None:
        if slot.is_gone:
            self._forget(slot)
        elif slot.is_here:
            if not slot.on_host:
                slot.copy_out(self._host(slot))
                self.bytes_out += slot.nbytes
            self._free(slot)

    def _free(self, slot: Slot) -> None:
        if slot.is_here:
            slot.free()
            self.held -= slot.nbytes

    def _bring(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.is_here:
                continue
            slot.copy_in(self._host(slot))
            self.held += slot.nbytes
            self.bytes_in += slot.nbytes

    def _host(self, slot: Slot) -> Tensor:
        """The buffer of a storage; those of one number and pass take turns in it."""
        key = ("" if slot.number < self._lent or not self._name else self._name, slot.number)
        buffer = self._hosts.get(key)
        if buffer is None or len(buffer) != slot.nbytes:
            buffer = self._hosts[key] = slot.host_buffer()
        return buffer


def _changed(func: Any) -> list[tuple[int, str]]:
    """Which arguments an operator changes in place."""
    return [
        (place, argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _given(
    places: Sequence[tuple[int, str]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    found = [args[at] if at < len(args) else kwargs.get(name) for at, name in places]
    return tree_leaves(found)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _resizable(made: Any) -> Any:
    """A result whose memory can be given back; NumPy's cannot."""
    if isinstance(made, Tensor) and not made.untyped_storage().resizable():
        return made.clone()
    return made
