"""Updates of many parameters as one kernel: calls that write over memory wait for others like them.

    adam_(w1, g1, ...)                         adam_all_([w1, w2, w3], [g1, g2, g3], ...)
    ...                      becomes           before anyone reads w1, w2 or w3
    adam_(w2, g2, ...)
    adam_(w3, g3, ...)

What they read is held until then, so not more than MOST_BYTES wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from torch import fx
from torch._ops import OpOverload

from graphwright.plans import Call
from graphwright.run.program import overwriting

MOST_BYTES = 1 << 25
"""The most bytes of gradients that wait, or those of one."""
_WIDTH = 4


class Postponed:
    """Calls of operators that write over their arguments, which are emitted together.

    Of calls with equal options and equal arguments that are not lists of tensors, each list is of
    those of all. `values` are the results that nobody may read before `run`.
    """

    def __init__(self, emit: Callable[..., fx.Node]) -> None:
        self.emit = emit
        self.values: set[int] = set()
        self._waiting: dict[object, list[tuple[fx.Node | None, ...]]] = {}
        self._calls: dict[object, tuple[OpOverload, Mapping[str, Any]]] = {}
        self._bytes = 0

    def add(
        self,
        call: Call,
        overload: OpOverload,
        inputs: Sequence[fx.Node | None],
        options: Mapping[str, Any],
    ) -> None:
        """Let a call wait; what it reads is not to be written to by others."""
        for_all = overwriting.find_for_all(overload)
        num_lists = 0
        if for_all is not None:
            num_lists = sum("[]" in _type(a) for a in for_all._schema.arguments)
        nbytes = _WIDTH * prod(stop - start for start, stop in call.box)
        if self._bytes and self._bytes + nbytes > MOST_BYTES:
            self.run()
        if for_all is None:
            self.emit(overload, *inputs, **options)
            return
        shared = tuple(inputs[num_lists:])
        key = (for_all, tuple(sorted(options.items())), shared, call.attrs)
        self._calls[key] = for_all, options
        self._waiting.setdefault(key, []).append(tuple(inputs[:num_lists]))
        self.values.update(call.outputs)
        self._bytes += nbytes

    def run(self) -> None:
        """Emit what waits."""
        for key, rows in self._waiting.items():
            overload, options = self._calls[key]
            shared = key[2]  # type: ignore[index]
            self.emit(overload, *map(list, zip(*rows, strict=True)), *shared, **options)
        self.values.clear()
        self._waiting.clear()
        self._calls.clear()
        self._bytes = 0


def _type(argument: Any) -> str:
    spelled = str(argument.type)
    return "[]" if spelled.startswith("List[") else spelled
