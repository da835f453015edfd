"""Plans, task graphs and programs, and the options of searches."""

from graphwright.errors.base import GraphwrightError


class InvalidTaskGraph(GraphwrightError):
    """A task graph breaks a rule that the simulation relies on; the message names task and rule.

    Durations are not negative, keys increase, edges lead from a task to a later one (so there is no
    cycle), resources exist, and some task makes every piece of memory. Task graphs that Graphwright
    expands from a plan are valid, so this one was made or edited by hand.
    """


class InvalidProgram(GraphwrightError):
    """A program breaks a rule, or the programs of several ranks do not fit together.

    `rule` names the rule (the table is in `plans.programs.verify_program`), `rank` the program.
    What `lower` makes is always valid, so this one was changed by hand or by a pass. Print the
    program (``print(lower(graph, plan).program(rank))``) and look around the instruction.
    """

    def __init__(self, message: str, *, rule: str = "", rank: int | None = None) -> None:
        super().__init__(message)
        self.rule, self.rank = rule, rank


class InvalidStrategy(GraphwrightError):
    """A strategy cannot be applied: it names an unknown split, too many parts or a wrong mesh.

    ``graphwright describe OPERATOR`` lists the splits of an operator, ``gw.splits`` those of one
    call. A strategy has one choice for every axis of its mesh: an index to split, "-" to replicate,
    "+0,1" to pass partial terms through.
    """


class UnknownDevice(InvalidStrategy):
    """A strategy places an operator on a device that the cluster does not have.

    Devices are numbered from 0 to `Cluster.num_devices` - 1.
    """


class PlanMismatch(GraphwrightError):
    """A plan is for another graph or another cluster, or refers to an unknown node.

    Make a new plan for this graph and cluster. A plan contains the content hash of its graph.
    """


class PlanFormatError(GraphwrightError):
    """A file is not a plan, or has another format version.

    Plans are JSON files written by `Plan.save`; the message names the field at fault.
    """


class DoesNotFit(GraphwrightError):
    """Every plan needs more memory than the limit allows.

    `limit` is the limit and `needed` the need of the smallest plan, in bytes per device; `largest`
    names the largest tensors, if known. Use more devices, a smaller batch or a smaller model.
    """

    def __init__(
        self, message: str, *, limit: int = 0, needed: int = 0, largest: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.limit, self.needed, self.largest = limit, needed, largest


class NothingFound(GraphwrightError):
    """A search ended without a result: it ran out of time, or there is no solution.

    Allow more time, or use a search that always has a result, such as the frontier.
    """


class InvalidOption(GraphwrightError):
    """An option has an invalid value, does not exist, or repeats what the graph already fixes.

    The message lists the valid values; `graphwright plan --help` and the docstrings of `gw.plan`
    and `gw.compile` explain each option.
    """


class InvalidLimit(GraphwrightError):
    """A memory limit is not a size.

    Pass an integer number of bytes or a string: "14.5GB", "16GiB". kB, MB and GB are powers of
    1000; KiB, MiB and GiB are powers of 1024.
    """


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
