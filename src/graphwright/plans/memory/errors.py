"""What can be wrong with a memory plan, or with the memory that one is asked for."""

from graphwright.errors import GraphwrightError


class InvalidMemoryPlan(GraphwrightError):
    """A memory plan does not compute what its graph says, or leaves its memory.

    Plans from ``gw.swap`` are always valid for their graph, so an invalid one was edited, damaged,
    or made for another graph. The message names the action at fault; plan again with ``gw.swap``.
    """


class MemoryTooSmall(GraphwrightError):
    """No order of swaps lets a graph run in so little memory.

    What one operator reads and makes has to be on the device at once; the message names the
    operator that needs most and how much that is. Give more memory, capture a smaller batch
    (``accumulate=K`` keeps the mathematics), or split the operator over several devices with
    ``gw.plan``. The same error names the host where its memory cannot take what is swapped out.
    """
