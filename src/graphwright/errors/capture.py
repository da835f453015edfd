"""What capture refuses."""

from graphwright.errors.base import GraphwrightError


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
