"""Every exception that a user can meet. A class's docstring is its help page: what happened, what to try.

Messages name the place (an operator, a tensor, a source line, a file), the values, and the next step.
"""


class GraphwrightError(Exception):
    """Base of everything Graphwright raises on purpose; catch it to catch them all."""


class InvalidGraph(GraphwrightError):
    """A graph breaks a rule that every stage relies on.

    `rule` names the rule (the table is in `graphwright.ir.verify`), `node` the operator or tensor
    at fault. A graph from `capture`, `parse_text`, `load` or `GraphBuilder.build` is always valid,
    so one met later was changed by hand or by a pass. Run `verify` after each pass to find which
    one, and print the lines around the node with `to_text`.
    """

    def __init__(self, message: str, *, rule: str = "", node: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.node = node


class GraphSyntaxError(GraphwrightError):
    """A graph's text form could not be read.

    `line` and `column` (both from 1) are where reading stopped; the message shows that line. A file
    that was cut off lacks its closing `end`. Compare the line with what `to_text` prints, or write
    the graph again from where it came.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class GraphFormatError(GraphwrightError):
    """A graph's JSON form is damaged, is something else, or has a schema version we do not know.

    The message gives the place inside the document (`nodes[3].outputs[0].type`). A damaged file has
    to be saved again from the model; a newer schema version needs a newer Graphwright.
    """


class GraphFileError(GraphwrightError):
    """A file could not be read or written: missing, not permitted, disk full, unknown suffix.

    Nothing is left half-written: the old file, where there was one, is as it was. Check the path
    and its folder; the suffix of a graph's file has to be `.json` or `.json.gz`.
    """


class UnknownModel(GraphwrightError):
    """The zoo has no model of that name.

    Names are fixed ("vgg16", "bert-base") or hold numbers ("wresnet-152-10", "rnn-8-8k"); the
    message lists the closest ones and `zoo.names()` lists them all. A model of your own needs no
    entry: name it `file.py:function`.
    """


class InvalidWorkload(GraphwrightError):
    """A zoo model was asked for with a batch size or a device that cannot be.

    A batch size is a whole number from 1 upwards; a device is one that PyTorch knows: "meta",
    "cpu", "cuda:0".
    """


class DescriptionError(GraphwrightError):
    """A description of an operator is not valid: wrong arity, an unknown extent, a bad index.

    The message names the operator and the index. Give a reduced index its extent with ``over=`` when it never
    indexes a tensor dim by itself, and make the lambda's arguments match the rank of the output.
    """


class NonAffineIndex(DescriptionError):
    """An index expression multiplies two index variables or divides by one, so its range cannot be analysed.

    The operator is still described: the indices concerned have no split, with this message as the reason, and the
    others split as usual. Strides, sizes and attributes may multiply an index; another index may not.
    """


class UnknownOperator(GraphwrightError):
    """The operator has no description.

    Inside a graph such an operator is opaque: it runs whole on every device, and each capture reports it. Overloads go by their
    full names: ``aten.add.Tensor``. ``graphwright describe --list`` lists what is described; to describe another, use
    ``@graphwright.describe("namespace.name")``.
    """


class MisalignedSplit(GraphwrightError):
    """The operator cannot be cut at these positions, or not into so many parts.

    Reshapes and grouped operators split only at multiples of their quantum (a head's size, a group's channels).
    Use `Split.parts`, which chooses balanced cuts that are aligned.
    """


class WrongDescription(GraphwrightError):
    """A description says something else than the kernel computes, for values or for a split.

    The message holds the call that shows it. Read the description again with ``graphwright describe OPERATOR``.
    """


class CaptureError(GraphwrightError):
    """A model's step could not be turned into a graph.

    The message names the line of the model that stopped the capture, where there is one. First make sure that
    ``loss_fn(model(inputs), targets)`` runs eagerly with tensors of these shapes; then read the help of the
    error's own type. `cause` is the exception underneath, where there was one.
    """

    cause: BaseException | None = None


class DataDependentControlFlow(CaptureError):
    """The model's Python code reads a tensor's value: ``if x.sum() > 0``, ``x.item()``, ``range(int(n))``.

    A graph is one fixed list of operators, and capture runs without values. Use ``torch.where`` or a mask in place
    of a branch, keep numbers in tensors, and fix loop counts by the configuration.
    """


class DynamicShapeOperator(CaptureError):
    """An operator's result has a shape that depends on values: ``nonzero``, ``unique``, ``x[mask]``, packed sequences.

    Use a form with a fixed shape: ``torch.where(mask, x, 0)`` for ``x[mask]``, ``topk`` for a selection, padding for
    sequences.
    """


class GraphBreak(CaptureError):
    """The model leaves PyTorch in the middle of the step: ``.numpy()``, ``data_ptr()``, foreign code.

    Express that part in torch operators, or register it as one operator with ``torch.library.custom_op``.
    """


class MutatedGlobal(CaptureError):
    """The step writes to a tensor that is neither a parameter nor a buffer of the model.

    Nothing would carry that write to the next step. Register the tensor with ``register_buffer``; if it is only
    scratch space, make it from the step's own tensors (``torch.zeros_like(x)``).
    """


class ComplexInput(CaptureError):
    """A complex tensor takes part in the step, given or computed.

    Complex arithmetic is outside of what Graphwright analyses. Use two real tensors (``torch.view_as_real``).
    """


class UnsupportedModel(CaptureError):
    """The model is not of a kind that can be captured: sparse or lazy parameters, script modules, packed sequences.

    The message says which. Ordinary eager ``nn.Module`` code on dense tensors is what capture understands.
    """


class UnsupportedOptimizer(CaptureError):
    """The optimizer's update cannot be written as a graph.

    Supported is every optimizer that computes with tensors alone, parameter by parameter: SGD, momentum, Adam, AdamW,
    Adagrad, RMSprop and their like. L-BFGS calls the model several times a step; SparseAdam needs sparse gradients.
    """


class NoTrainingStep(CaptureError):
    """There is nothing to train: the loss is not one floating-point number, or no parameter requires a gradient.

    Let ``loss_fn`` return one number (``.mean()``), check ``requires_grad`` and ``torch.no_grad``, or capture inference
    with ``gw.capture(model, inputs=...)``.
    """


class InvalidBatch(CaptureError):
    """The example batch has not the form that capture expects.

    Training: ``batch=(inputs, targets)``; without a ``loss_fn``, ``batch`` is the model's inputs. Inference:
    ``inputs=...``. Inputs are a tensor, a tuple (positional arguments) or a dict (keyword arguments), with at least one
    tensor among them.
    """


class InvalidAccumulation(CaptureError):
    """The batch cannot be cut into so many micro-batches.

    ``accumulate=K`` cuts every tensor of the batch along its batch dim into K equal parts, so K has to divide the number of
    samples, which has to be the same for all of them. ``batch_dim=1`` is for batches whose samples lie along dim 1;
    ``batch_dim={"inputs.mask": None}`` lets every micro-batch read all of a tensor that has no batch dim.
    """


class InvalidClipping(CaptureError):
    """``clip_norm`` is no bound of a norm: it has to be a number above zero, as for ``torch.nn.utils.clip_grad_norm_``.

    It bounds the norm of all gradients together; leave it out, or give None, for no clipping.
    """


class InvalidAutocast(CaptureError):
    """``autocast`` is no dtype that mixed precision computes in.

    Give ``torch.bfloat16`` or ``torch.float16``; parameters, optimizer state and what autocast considers delicate stay in
    float32. Leave it out, or give None, to compute in the dtypes of the model.
    """


class InvalidLossFunction(CaptureError):
    """What was given as ``loss_fn`` cannot be called as a loss: a class, a name, a number.

    Give a function of (output, targets), or an instance of a loss module: ``torch.nn.CrossEntropyLoss()``, with the
    parentheses, or ``torch.nn.functional.cross_entropy``.
    """


class MismatchedTypes(CaptureError):
    """An operator is given tensors whose dtypes, or whose memory, eager PyTorch refuses.

    A matrix product of float64 and float32, an integer tensor multiplied in place by a fraction, an in-place write to
    an expanded tensor. Convert with ``.to(dtype)`` (``x.float()`` for an input of a float32 model), use the form that
    is not in place, or ``.clone()`` the expanded tensor first.
    """


class ReplayError(GraphwrightError):
    """A graph could not be run: an input is missing or of another type, or an operator is not in this PyTorch.

    ``capture.bind`` makes all inputs of a captured graph from the model, the batch and the optimizer.
    """


class InvalidModelName(GraphwrightError):
    """The command line was given a model that is neither of the zoo nor ``file.py:function``, or the file failed.

    The function takes no arguments and returns (model, loss_fn, batch), (model, loss_fn, batch, optimizer class) or a
    ``graphwright.zoo.Workload``. What the file itself raised is shown with its line.
    """


class InvalidCall(GraphwrightError):
    """An operator was given a call that it does not take: a tensor or an attribute is missing, unknown or unfit.

    The message names it and shows the operator's schema. Attributes with a default may be left out, and so may optional
    tensors at the end; tensors are PyTorch's own, in the order of the schema.
    """


# Simulation of task graphs


class InvalidTaskGraph(GraphwrightError):
    """A task graph breaks a rule that the simulation relies on; the message names the task and the rule.

    Durations are not negative, keys increase, edges lead from a task to a later one (so there is no cycle), resources
    exist, and every piece of memory is made by some task. Task graphs that Graphwright expands from a plan are valid, so this one was made
    or changed by hand.
    """


# machine: clusters and the store of measured costs


class InvalidCluster(GraphwrightError):
    """A cluster's figures are missing, impossible or unknown.

    The message names the file, the table, the key and the value. Bandwidths are bytes a second ("450GB/s") or bits
    ("100Gb/s"), sizes bytes ("80GB", "16GiB"), times seconds ("4us"), rates operations a second ("67T"). Start from a
    preset that is close: ``graphwright.machine.save(cluster("dgx-h100"), "mine.toml")`` writes one to change.
    """


class UnknownCluster(GraphwrightError):
    """No preset has that name, and it is not a TOML file either.

    The message lists the presets and the closest one. Append a count for more of the outermost level ("dgx-h100:4"),
    use "local:4" for four processes on this machine, or give the path of a TOML file of your own.
    """


class ClusterFileError(GraphwrightError):
    """A cluster's file could not be read or written: missing, not permitted, disk full.

    Nothing is left half-written: the old file, where there was one, is as it was. Check the path and its folder.
    """


class StoreError(GraphwrightError):
    """The store of measured costs cannot be used: not a store, not writable, damaged, or busy for too long.

    The message gives its path. Set ``GRAPHWRIGHT_COSTS`` to another path to use another store; a damaged one can be
    deleted, at the price of measuring again.
    """


class StoreVersionMismatch(StoreError):
    """The store of measured costs was written by a Graphwright whose tables have another form.

    Measurements are never guessed across versions. Use the version that wrote it, set ``GRAPHWRIGHT_COSTS`` to a new
    path, or delete the file and measure again.
    """


# -- plans --------------------------------------------------------------------------------------------


class InvalidStrategy(GraphwrightError):
    """A strategy cannot be followed: it names a split that the operator does not have, or too many parts, or a wrong mesh.

    ``graphwright describe OPERATOR`` lists the splits of an operator; ``gw.splits`` those of one call. A strategy has one
    choice for every axis of its mesh: an index, "-" to replicate, "+0,1" to pass terms on.
    """


class UnknownDevice(InvalidStrategy):
    """A strategy places an operator on a device that the cluster does not have.

    Devices are numbered from 0; `Cluster.num_devices` says how many there are.
    """


class PlanMismatch(GraphwrightError):
    """A plan does not fit what it is used with: another graph, another cluster, or a node that it does not know.

    Make the plan anew for this graph and cluster. The graph's content hash is in the plan.
    """


class PlanFormatError(GraphwrightError):
    """A file is not a plan, or one of another version.

    Plans are JSON, written by `Plan.save`; the message names the field.
    """


class DoesNotFit(GraphwrightError):
    """No plan needs as little memory as there is.

    `limit` is what was asked for and `needed` what the smallest plan needs, in bytes on one device; `largest` names the tensors that take
    the most, where they are known. Use more devices, a smaller batch or a smaller model.
    """

    def __init__(
        self, message: str, *, limit: int = 0, needed: int = 0, largest: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.needed = needed
        self.largest = largest


class NothingFound(GraphwrightError):
    """A search ended without any answer: its time was over before the first one, or there is none to find.

    Allow more time, or use a search that always has an answer, such as the frontier.
    """


class InvalidOption(GraphwrightError):
    """An option of a search has a value that it cannot have, or there is no such option; or a step is told what its graph says already.

    The message lists what there is; `graphwright plan --help` and the docstrings of `gw.plan` and `gw.compile` explain each.
    """


class InvalidLimit(GraphwrightError):
    """A limit on memory is not a size.

    Write bytes as a whole number, or "14.5GB", "16GiB"; kB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.
    """


# Measured costs


class InvalidMeasurement(GraphwrightError):
    """A measurement cannot be: no time at all, a size that is no power of two, a collective or a device that there is not.

    Times are seconds above 0; collectives are measured at sizes of 1, 2, 4, 8, ... bytes, with one span for every level of
    the cluster. Calibration runs on the devices of this machine: "cpu", "local:4" (one of four processes), "cuda" or "cuda:1".
    """


# Checkpoints


class InvalidShard(GraphwrightError):
    """A process says that it holds a part of a tensor that it cannot hold.

    The local tensor has the shape of its box and the dtype of the whole; terms that are still to be added up (Partial) have to
    be, before they are saved; the pieces of all processes together make the whole tensor. The message names the tensor and
    both shapes.
    """


class CheckpointError(GraphwrightError):
    """A checkpoint could not be saved or loaded; each reason is a type of its own. Catch this one to catch them all."""


class CheckpointNotSaved(CheckpointError):
    """A checkpoint could not be written: disk full, not permitted, no common folder, or a process died.

    Nothing of it can be seen, and the one before is as it was: `former` is its path, or None where there was none. Free some room or
    give another folder that all processes can write to, and save again.
    """

    def __init__(self, message: str, *, former: str | None = None) -> None:
        super().__init__(message)
        self.former = former


class InvalidCheckpoint(CheckpointError):
    """What should be loaded is no checkpoint, is damaged or half copied, or was written in a form that we do not know.

    A checkpoint is a folder with `graphwright.json` and one `.distcp` file for every process that wrote it: copy all of them.
    ``latest(directory)`` finds the newest complete one. A newer version needs a newer Graphwright.
    """


class CheckpointMismatch(CheckpointError):
    """A checkpoint holds other tensors than are to be filled.

    `missing` are names that it lacks, `extra` names that nothing asks for, `mismatched` names whose shape or dtype is another.
    Nothing was changed. Load it into the model and the optimizer that wrote it; the plan and the number of processes may differ.
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
        self.missing = missing
        self.extra = extra
        self.mismatched = mismatched


# run: worlds of processes


class InvalidWorld(GraphwrightError):
    """The processes that should work together cannot be joined.

    torchrun gives every process RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; the message names the variable
    that is missing, cannot be, or differs between processes. Start the script with ``torchrun --nproc-per-node=N``, or call
    ``gw.launch(N)(function)``; without any of these variables a process is a world of one. A world that has been joined
    stays until ``leave()``.
    """


class AddressInUse(InvalidWorld):
    """MASTER_PORT on this machine belongs to another program, often to an earlier run that has not ended.

    Choose another port (``torchrun --standalone`` and ``gw.launch`` find a free one), or end the program that holds it.
    """


class WorkersMissing(InvalidWorld):
    """Not every process of the world came within the time for joining.

    `ranks` are those that are missing, where that is known. See whether they were started, whether they failed before they
    joined (their own output says so), and whether they can reach MASTER_ADDR at MASTER_PORT.
    """

    def __init__(self, message: str, *, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class InvalidLaunch(GraphwrightError):
    """Processes cannot be started like this: a number of workers, of threads or of seconds that cannot be, or from a worker.

    A script that calls ``gw.launch`` does so under ``if __name__ == "__main__":``, because each worker imports the script
    anew. A worker cannot launch workers: it has its own part of the world already, ``world()``.
    """


class NotSendable(GraphwrightError):
    """A function, an argument or a result cannot go from one process to another.

    Workers are new processes: they import the function by its module and name. Define it with ``def`` at the top level of
    a file, not as a lambda, not inside another function, not in an interactive session; give what it needs as arguments.
    Arguments and results are values that Python can pickle: tensors, numbers, containers of those.
    """


class WorkerFailed(GraphwrightError):
    """A worker raised an exception, or its process ended, or the run took too long; all other workers were ended too.

    `rank` is the worker that failed first, `traceback` its own traceback where it left one, `exit_code` what its process
    ended with where it ended by itself (-9: killed by signal 9, as the system does when memory runs out). What other workers
    said comes last in the message: most often only that this one was lost.
    """

    def __init__(
        self, message: str, *, rank: int = -1, traceback: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.traceback = traceback
        self.exit_code = exit_code


class WorkerTimedOut(WorkerFailed):
    """The workers had not all finished when the time given to ``gw.launch`` was over.

    `traceback` is where the worker was at that moment, innermost call first. A worker that waits in a collective waits for
    another one: look for the rank that is not there. Give a longer ``timeout`` if the work only needs more time.
    """


# run: training steps


class BatchMismatch(GraphwrightError):
    """A batch is not the one that the step was planned for: other tensors, shapes or dtypes, or none at all.

    A plan is for one batch size. Give ``step(batch)`` the whole batch as it was captured, or this rank's part of it
    (``step.part_of(batch)`` shows which); drop or fill up a last, smaller batch (``DataLoader(drop_last=True)``).
    """


class StepNotBegun(GraphwrightError, AttributeError):
    """A step that was made without an example begins with its first batch, and has nothing to show or to load before.

    Give ``gw.compile`` an example of the whole batch (``batch=...``) or the graph that was planned (``graph=...``): the step is
    then ready at once, so that it can load a checkpoint, or say which part of the data this rank reads.
    """


class InvalidLoader(GraphwrightError):
    """A dataset cannot be read in parts: it has no length or no indices, is smaller than a batch, or the batch size is not the plan's.

    ``shard_loader`` gives every rank its part of each batch, so all ranks have to agree on the order of the samples. That takes
    a dataset with ``__len__`` and ``__getitem__``; for a stream, let each rank read what ``step.part_of`` says.
    """


class NoInitialValue(GraphwrightError):
    """A parameter, buffer or state has no value that training could start from.

    A module on the meta device is made part by part by the `reset_parameters` of its submodules; a parameter that belongs to a
    module without one has to come from a checkpoint or from a module with values.
    """


class RanksDiffer(GraphwrightError):
    """The ranks were given different things where they need the same.

    All of them start from the same values (seed torch alike before making the model, or load a checkpoint), have the same learning rates (step the
    scheduler everywhere), and, where a batch is given whole, the same batch. They compare before the first call, the second, the fourth and so on.
    """


class StepLost(GraphwrightError):
    """An earlier step failed halfway: some parameters were updated already, others not.

    Load the last checkpoint with ``step.load(directory)``, or make the step anew.
    """
