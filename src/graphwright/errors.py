"""All exceptions that Graphwright raises. A class's docstring is its help page.

A help page says what happened and what to try. A message names the place (an operator, a tensor,
a source line, a file), the values and the next step.
"""


class GraphwrightError(Exception):
    """Base class of every exception that Graphwright raises deliberately."""


class InvalidGraph(GraphwrightError):
    """A graph breaks a rule that every stage relies on.

    `rule` names the rule (`graphwright.ir.verify` lists them), `node` the operator or tensor at
    fault. Graphs from `capture`, `parse_text`, `load` and `GraphBuilder.build` are always valid, so
    an invalid one was edited by hand or by a pass. Run `verify` after each pass to identify it, and
    print the lines around the node with `to_text`.
    """

    def __init__(self, message: str, *, rule: str = "", node: str | None = None) -> None:
        super().__init__(message)
        self.rule, self.node = rule, node


class GraphSyntaxError(GraphwrightError):
    """The text form of a graph could not be parsed.

    `line` and `column` (both from 1) say where; the message shows that line. Without the closing
    `end` the file is truncated. Compare with the output of `to_text`, or write the graph again.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class GraphFormatError(GraphwrightError):
    """The JSON form of a graph is damaged, is not a graph, or has an unknown schema version.

    The message gives the place inside the document (`nodes[3].outputs[0].type`). If the file is
    damaged, save the graph again from the model. A newer schema version needs a newer Graphwright.
    """


class GraphFileError(GraphwrightError):
    """A file could not be read or written: missing, no permission, disk full, unknown suffix.

    A failed write leaves the previous file, if any, unchanged. Check the path and its folder; the
    name of a graph file must end in `.json` or `.json.gz`.
    """


class UnknownModel(GraphwrightError):
    """The zoo has no model of that name.

    Names are fixed ("vgg16") or contain numbers ("wresnet-152-10", "rnn-8-8k"). The message lists
    the closest ones, `zoo.names()` all of them. Name a model of your own `file.py:function`.
    """


class UnknownPass(GraphwrightError):
    """A graph pass has no such name or option.

    A plan and a saved graph name the passes that made them; a pass of your own has to be imported
    before such a file is used. The message lists the passes that there are.
    """


class InvalidWorkload(GraphwrightError):
    """A zoo model was requested with an invalid batch size or device.

    The batch size is an integer of at least 1, the device a PyTorch one: "meta", "cpu", "cuda:0".
    """


class DescriptionError(GraphwrightError):
    """An operator description is invalid: wrong arity, unknown extent, bad index.

    The message names the operator and the index. If a reduced index never indexes a tensor dim by
    itself, give its extent with ``over=``. The output lambda takes one argument per output dim.
    """


class NonAffineIndex(DescriptionError):
    """An index expression multiplies or divides by an index variable, so its range is unknown.

    The indices involved have no split, with this message as the reason; the others split as usual.
    An index may be multiplied by strides, sizes and attributes, but not by another index.
    """


class UnknownOperator(GraphwrightError):
    """The operator has no description.

    In a graph such an operator is opaque: it runs whole on every device, and capture reports it.
    Use the full name of an overload: ``aten.add.Tensor``. ``graphwright describe --list`` lists
    all described operators; add one with ``@graphwright.describe("namespace.name")``.
    """


class MisalignedSplit(GraphwrightError):
    """The operator cannot be cut at these positions, or not into this many parts.

    Reshapes and grouped operators split only at multiples of their quantum (the size of a head, the
    channels of a group). `Split.parts` chooses balanced, aligned cuts.
    """


class WrongDescription(GraphwrightError):
    """A description disagrees with the kernel, in its values or in one of its splits.

    The message contains a call that shows it; see also ``graphwright describe OPERATOR``.
    """


class CaptureError(GraphwrightError):
    """A model's training or inference step could not be captured as a graph.

    If a line of the model stopped the capture, the message names it. First check that
    ``loss_fn(model(inputs), targets)`` runs eagerly with tensors of these shapes, then read the
    help of the specific error type. `cause` is the underlying exception, if any.
    """

    cause: BaseException | None = None


class ModelFailed(CaptureError):
    """The model or the loss raised an exception on tensors of these shapes and dtypes.

    Capture runs them on tensors without values. What raises there in most cases raises eagerly too:
    shapes that do not fit, a missing argument. If it does run eagerly, the line that the message
    names looks at something that such tensors do not have: their device, their memory, their class.
    """


class DataDependentControlFlow(CaptureError):
    """The model's Python code reads a tensor's value: ``if x.sum() > 0``, ``range(int(n))``.

    A graph is one fixed list of operators, and capture runs without values. Use ``torch.where`` or
    a mask to branch, avoid ``x.item()``, and take loop counts from the configuration. In code of a
    library, choose an option of the model that does without: no layer drop, batched experts.
    """


class DynamicShapeOperator(CaptureError):
    """The shape of an operator's result depends on values: ``nonzero``, ``unique``, ``x[mask]``.

    Use a form with a fixed shape: ``torch.where(mask, x, 0)`` for ``x[mask]``, ``topk`` for a
    selection, padded instead of packed sequences, batched experts in a mixture of experts.
    """


class GraphBreak(CaptureError):
    """The model leaves PyTorch in the middle of the step: ``.numpy()``, ``data_ptr()``, C code.

    Use torch operators there, or register that part with ``torch.library.custom_op``.
    """


class MutatedGlobal(CaptureError):
    """The step writes to a tensor that is neither a parameter nor a buffer of the model.

    The write would be lost before the next step. Register the tensor with ``register_buffer``; if
    it is only scratch space, create it from the step's own tensors (``torch.zeros_like(x)``).
    """


class ComplexInput(CaptureError):
    """The step reads or computes a complex tensor, which Graphwright cannot analyse.

    Use two real tensors instead (``torch.view_as_real``).
    """


class UnsupportedModel(CaptureError):
    """Capture does not support this kind of model; the message names the obstacle.

    Capture supports ordinary eager ``nn.Module`` code on dense tensors: no sparse or lazy
    parameters, script modules or packed sequences.
    """


class UnsupportedOptimizer(CaptureError):
    """The optimizer's update cannot be expressed as a graph.

    An optimizer must compute only with tensors, one parameter at a time, as SGD, momentum, Adam,
    AdamW, Adagrad and RMSprop do. L-BFGS calls the model repeatedly; SparseAdam needs sparse grads.
    """


class NoTrainingStep(CaptureError):
    """There is nothing to train: the loss is not a floating-point scalar, or nothing needs a grad.

    Make ``loss_fn`` return a scalar (``.mean()``), check ``requires_grad`` and ``torch.no_grad``,
    or capture inference with ``gw.capture(model, inputs=...)``.
    """


class InvalidBatch(CaptureError):
    """The example batch does not have the structure that capture expects.

    Training: ``batch=(inputs, targets)``, or only the model's inputs if there is no ``loss_fn``.
    Inference: ``inputs=...``. Inputs are a tensor, a tuple (positional arguments) or a dict
    (keyword arguments), and contain at least one tensor.
    """


class InvalidAccumulation(CaptureError):
    """The batch cannot be divided into this many micro-batches.

    ``accumulate=K`` divides every tensor of the batch along its batch dim into K equal parts: all
    need the same number of samples, a multiple of K. Use ``batch_dim=1`` if samples lie along dim
    1, and ``batch_dim={"inputs.mask": None}`` if every micro-batch reads the whole of a tensor.
    """


class InvalidClipping(CaptureError):
    """``clip_norm`` must be a positive number, as in ``torch.nn.utils.clip_grad_norm_``.

    It bounds the joint norm of all gradients. Omit it or pass None for no clipping.
    """


class InvalidAutocast(CaptureError):
    """``autocast`` is not a dtype for mixed precision.

    Pass ``torch.bfloat16`` or ``torch.float16``; parameters, optimizer state and the operators that
    autocast excludes stay in float32. Omit it or pass None to compute in the model's dtypes.
    """


class InvalidLossFunction(CaptureError):
    """``loss_fn`` cannot be called as a loss: it is a class, a name or a number.

    Pass a function of (output, targets) such as ``torch.nn.functional.cross_entropy``, or an
    instance of a loss module: ``torch.nn.CrossEntropyLoss()``, with the parentheses.
    """


class MismatchedTypes(CaptureError):
    """An operator received tensors whose dtypes or memory layout eager PyTorch rejects.

    Examples: a matrix product of float64 and float32, an integer tensor multiplied in place by a
    fraction, an in-place write to an expanded tensor. Convert with ``.to(dtype)``, ``x.float()``
    for a float32 model, use the out-of-place form, or ``.clone()`` the expanded tensor first.
    """


class ReplayError(GraphwrightError):
    """A graph could not be run: an input is missing or mistyped, or PyTorch lacks an operator.

    ``capture.bind`` makes the inputs of a captured graph from model, batch and optimizer.
    """


class InvalidModelName(GraphwrightError):
    """The model is neither a zoo model nor ``file.py:function``, or the file failed.

    The function takes no arguments and returns (model, loss_fn, batch), (model, loss_fn, batch,
    optimizer class) or a ``graphwright.zoo.Workload``. The message shows exceptions of the file.
    """


class InvalidCall(GraphwrightError):
    """An operator was called with a missing, unknown or unsuitable tensor or attribute.

    The message names the argument and shows the operator's schema. Attributes with a default and
    trailing optional tensors may be omitted; tensors follow the order of PyTorch's schema.
    """


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


class InvalidCluster(GraphwrightError):
    """A cluster's figures are missing, impossible or unknown.

    The message names the file, the table, the key and the value. Bandwidths are in bytes per second
    ("450GB/s") or bits per second ("100Gb/s"), sizes in bytes ("80GB", "16GiB"), times in seconds
    ("4us"), rates in operations per second ("67T"). To start from a similar preset, write it to a
    file and edit that: ``graphwright.machine.save(cluster("dgx-h100"), "mine.toml")``.
    """


class UnknownCluster(GraphwrightError):
    """The name is neither a preset nor a TOML file.

    The message lists the presets and the closest one. "dgx-h100:4" is four times the outermost
    level, "local:4" four processes on this machine; a path must lead to a TOML file.
    """


class ClusterFileError(GraphwrightError):
    """A cluster file could not be read or written: missing, no permission, disk full.

    A failed write leaves the previous file, if any, unchanged. Check the path and its folder.
    """


class StoreError(GraphwrightError):
    """The store of measured costs is unusable: not a store, not writable, damaged, or locked.

    The message gives its path. Set ``GRAPHWRIGHT_COSTS`` to the path of another store. If the store
    is damaged, you can delete it and measure again.
    """


class MeasuredTableError(StoreError):
    """A table of measured times, as a preset ships it, cannot be read or written.

    The message names the table and the field or row. ``graphwright calibrate ... -o
    NAME.measured.json`` writes one from the store of measured costs; `graphwright.machine.measured`
    shows its form.
    """


class StoreVersionMismatch(StoreError):
    """The store of measured costs has the format of another version of Graphwright.

    Stores are not converted between versions. Use the version that wrote it, set
    ``GRAPHWRIGHT_COSTS`` to a new path, or delete the file and measure again.
    """


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


class InvalidMeasurement(GraphwrightError):
    """A measurement is impossible: a time of 0, a size that is no power of 2, an unknown device.

    Times are positive and in seconds. Collectives are measured at sizes of 1, 2, 4, 8, ... bytes,
    with one span for every level of the cluster. Calibration runs on the devices of this machine:
    "cpu", "local:4" (one of four processes), "cuda" or "cuda:1".
    """


class InvalidShard(GraphwrightError):
    """A process reports a shard of a tensor that it cannot hold.

    The shard must have the shape of its box and the dtype of the tensor, and the shards of all
    processes must cover the tensor. Reduce partial terms before saving. The message names the
    tensor and both shapes.
    """


class CheckpointError(GraphwrightError):
    """Base class of all errors in saving and loading checkpoints."""


class CheckpointNotSaved(CheckpointError):
    """A checkpoint could not be saved: disk full, no permission, no shared folder, a dead process.

    No part of it is visible, and the previous checkpoint is intact: `former` is its path, or None.
    Free some space, or choose another folder that all processes can write to, and save again.
    """

    def __init__(self, message: str, *, former: str | None = None) -> None:
        super().__init__(message)
        self.former = former


class InvalidCheckpoint(CheckpointError):
    """The folder is not a checkpoint, is damaged or incomplete, or has an unknown format version.

    A checkpoint is a folder with `graphwright.json` and one `.distcp` file per writing process:
    copy them all. ``latest(directory)`` returns the newest complete one. A newer format version
    needs a newer Graphwright. `partly_loaded`: some tensors have its values, others do not, so a
    step has to load another one before it goes on.
    """

    def __init__(self, message: str, *, partly_loaded: bool = False) -> None:
        super().__init__(message)
        self.partly_loaded = partly_loaded


class CheckpointMismatch(CheckpointError):
    """A checkpoint does not contain the tensors that the step needs. Nothing was loaded.

    `missing` are names that it lacks, `extra` names that the step does not have, `mismatched` names
    whose shape or dtype differs. Load it into the model and the optimizer that wrote it; the plan
    and the number of processes may differ.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
        mismatched: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.missing, self.extra, self.mismatched = missing, extra, mismatched


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
    """

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
