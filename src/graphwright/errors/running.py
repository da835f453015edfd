"""Processes that run a plan."""

from graphwright.errors.base import GraphwrightError


class InvalidWorld(GraphwrightError):
    """The processes cannot form a process group.

    torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in every process; the
    message names the variable that is missing, invalid or inconsistent between processes. Start the
    script with ``torchrun --nproc-per-node=N``, or call ``gw.launch(N)(function)``. A process
    without these variables is a world of one. A process stays in its world until ``leave()``.
    """


class AddressInUse(InvalidWorld):
    """Another program, often an earlier run that is still alive, uses MASTER_PORT.

    Stop it, or choose another port (``torchrun --standalone`` and ``gw.launch`` pick a free one).
    """


class WorkersMissing(InvalidWorld):
    """The rendezvous timed out before every process joined.

    `ranks` are the missing ranks, if known. Check that they were started, that they did not fail
    before joining (see their own output), and that they can reach MASTER_ADDR at MASTER_PORT.
    """

    def __init__(self, message: str, *, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class InvalidLaunch(GraphwrightError):
    """Workers cannot be launched: invalid number of workers, threads or seconds, or nested launch.

    Call ``gw.launch`` under ``if __name__ == "__main__":``, because each worker imports the script
    again. A worker cannot launch workers: it already belongs to a world, ``world()``.
    """


class NotSendable(GraphwrightError):
    """A function, an argument or a result cannot be sent to another process.

    Workers are new processes, which import the function by its module and name. Define it with
    ``def`` at the top level of a file (no lambda, nested function or interactive session), and pass
    what it needs as arguments. Arguments and results must be picklable.
    """


class WorkerFailed(GraphwrightError):
    """A worker raised an exception or died, or the run timed out; the other workers were stopped.

    `rank` is the worker that failed first, `traceback` its traceback, if any, `exit_code` the exit
    code of its process if it exited by itself (-9: killed by signal 9, typically out of memory).
    The message ends with the errors of the other workers, which usually just lost this one.
    `error` is the exception itself if Graphwright raised it, None if other code did.
    """

    error: GraphwrightError | None = None

    def __init__(
        self, message: str, *, rank: int = -1, traceback: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.rank, self.traceback, self.exit_code = rank, traceback, exit_code


class WorkerTimedOut(WorkerFailed):
    """The workers did not finish within the ``timeout`` of ``gw.launch``.

    `traceback` shows where the worker was at that moment, innermost call first. A worker that waits
    in a collective waits for another one: look for the rank that has not arrived. If the work is
    merely slow, increase ``timeout``.
    """


class BatchMismatch(GraphwrightError):
    """The tensors, shapes or dtypes of a batch differ from the batch of the plan.

    A plan is for one batch size. Give ``step(batch)`` the whole batch, with the structure that was
    captured, or this rank's shard (``step.part_of(batch)`` returns it). Drop or pad a smaller last
    batch (``DataLoader(drop_last=True)``).
    """


class ModelChanged(GraphwrightError):
    """The model or the optimizer of a step loaded other values after the step was made.

    A step has values of its own, so `load_state_dict` of the model or the optimizer, or another
    `requires_grad`, would change nothing. Load values before ``gw.compile``; a checkpoint of a step
    is loaded with ``step.load``. Compile anew to train other parameters.
    """


class StepNotBegun(GraphwrightError, AttributeError):
    """A step compiled without an example batch is not ready before its first batch.

    Pass ``gw.compile`` an example of the whole batch (``batch=...``) or the planned graph
    (``graph=...``): the step can then load a checkpoint and shard the data at once.
    """


class InvalidLoader(GraphwrightError):
    """A dataset cannot be sharded: it lacks a length or indices, or the batch size does not fit.

    All ranks must agree on the order of the samples, so ``shard_loader`` needs a dataset with
    ``__len__`` and ``__getitem__``, of at least one batch, and the batch size of the plan. For a
    stream, let each rank read what ``step.part_of`` returns.
    """


class NoInitialValue(GraphwrightError):
    """A parameter, buffer or optimizer state has no initial value.

    A module on the meta device is initialised one submodule at a time by `reset_parameters`. Where
    a module has no such method, load its parameters from a checkpoint or pass a module with values.
    """


class RanksDiffer(GraphwrightError):
    """The ranks received different values where all need the same.

    All must start from the same parameters (seed torch equally before making the model, or load a
    checkpoint), use the same learning rates (step the scheduler everywhere) and, if each gets the
    whole batch, the same batch. They compare before calls 1, 2, 4, 8 and so on.
    """


class StepLost(GraphwrightError):
    """An earlier step failed halfway: some parameters were updated, others were not.

    Load the last checkpoint with ``step.load(directory)``, or compile the step again.
    """


class InvalidShard(GraphwrightError):
    """A process reports a shard of a tensor that it cannot hold.

    The shard must have the shape of its box and the dtype of the tensor, and the shards of all
    processes must cover the tensor. Reduce partial terms before saving. The message names the
    tensor and both shapes.
    """
