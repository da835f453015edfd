"""Products, convolutions, poolings, norms and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from graphwright.capture.onnx.operators.table import OPERATORS, Call, Operator, operator

# -- products --------------------------------------------------------------------------------------


@operator("MatMul")
def matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """By a matrix, it is a linear map of the last dim."""
    if a.dim() > 2 and b.dim() == 2:
        return F.linear(a, b.t())
    return torch.matmul(a, b)


@operator("Gemm")
def gemm(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    a = a.t() if call.whole("transA") else a
    columns = b.shape[0] if call.whole("transB") else b.shape[1]
    if alpha == 1 and (c is None or (beta == 1 and c.shape == (columns,))):
        return F.linear(a, b if call.whole("transB") else b.t(), c)
    made = alpha * (a @ (b.t() if call.whole("transB") else b))
    return made if c is None else made + beta * c


@operator("Einsum")
def einsum(call: Call, *each: Tensor) -> Tensor:
    return torch.einsum(call.text("equation", ""), *each)


# -- convolutions and poolings ---------------------------------------------------------------------


def _window(call: Call, x: Tensor, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and paddings (first those at the beginning) of a sliding window."""
    space = len(kernel)
    strides = call.ints("strides") or [1] * space
    dilations = call.ints("dilations") or [1] * space
    auto = call.text("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return strides, dilations, call.ints("pads") or [0] * 2 * space
    before, after = [], []
    for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        whole = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        less, more = whole // 2, whole - whole // 2
        before.append(less if auto == "SAME_UPPER" else more)
        after.append(more if auto == "SAME_UPPER" else less)
    return strides, dilations, before + after


def _padded(x: Tensor, pads: list[int], value: float = 0.0) -> tuple[Tensor, list[int]]:
    """The tensor and what its kernel has to pad: what differs on both sides is padded here."""
    space = len(pads) // 2
    before, after = pads[:space], pads[space:]
    if before == after:
        return x, before
    sides = [n for side in zip(before[::-1], after[::-1], strict=True) for n in side]
    return F.pad(x, sides, value=value), [0] * space


@operator("Conv")
def conv(call: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations, pads = _window(call, x, w.shape[2:])
    x, padding = _padded(x, pads)
    groups = call.whole("group", 1)
    kernels: list[Callable[..., Tensor]] = [F.conv1d, F.conv2d, F.conv3d]
    return kernels[w.dim() - 3](x, w, bias, strides, padding, dilations, groups)


@operator("ConvTranspose")
def conv_transpose(call: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    if call.text("auto_pad", "NOTSET") != "NOTSET" or call.ints("output_shape"):
        raise NotImplementedError("auto_pad or output_shape")
    space = w.dim() - 2
    strides, dilations, pads = _window(call, x, w.shape[2:])
    if pads[:space] != pads[space:]:
        raise NotImplementedError("other padding at the end")
    more = call.ints("output_padding") or [0] * space
    kernels: list[Callable[..., Tensor]] = [
        F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
    ]  # fmt: skip
    groups = call.whole("group", 1)
    return kernels[space - 1](x, w, bias, strides, pads[:space], more, groups, dilations)


@operator("MaxPool")
def max_pool(call: Call, x: Tensor) -> Tensor:
    kernel = call.ints("kernel_shape")
    if call.num_outputs > 1:
        raise NotImplementedError("the places of the maxima")
    strides, dilations, pads = _window(call, x, kernel)
    if "SAME" in call.text("auto_pad", "NOTSET") and dilations != [1] * len(kernel):
        raise NotImplementedError("dilations with auto_pad")
    given, lowest = x, -torch.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    if any(2 * p > k for p, k in zip(pads, kernel * 2, strict=True)):
        sides = zip(pads[: len(kernel)][::-1], pads[len(kernel) :][::-1], strict=True)
        x, padding = F.pad(x, [n for side in sides for n in side], value=lowest), [0] * len(kernel)
    else:
        x, padding = _padded(x, pads, lowest)
    pools: list[Callable[..., Tensor]] = [F.max_pool1d, F.max_pool2d, F.max_pool3d]
    pool, ceil = pools[len(kernel) - 1], bool(call.whole("ceil_mode"))
    if ceil and x is not given:
        raise NotImplementedError("ceil_mode with such padding")
    return pool(x, kernel, strides, padding, dilations, ceil)


@operator("AveragePool")
def average_pool(call: Call, x: Tensor) -> Tensor:
    """Where zeros around it are not counted and differ on both sides, ones are pooled too."""
    kernel = call.ints("kernel_shape")
    strides, dilations, pads = _window(call, x, kernel)
    if dilations != [1] * len(kernel):
        raise NotImplementedError("dilations")
    pools: list[Callable[..., Tensor]] = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]
    pool, ceil = pools[len(kernel) - 1], bool(call.whole("ceil_mode"))
    counts = bool(call.whole("count_include_pad"))
    padded, padding = _padded(x, pads)
    if padded is x and all(2 * p <= k for p, k in zip(padding, kernel, strict=True)):
        return pool(x, kernel, strides, padding, ceil, counts)
    if padded is x or ceil:
        raise NotImplementedError("ceil_mode with such padding")
    made = pool(padded, kernel, strides)
    if counts:
        return made
    ones, _ = _padded(torch.ones_like(x), pads)
    return made / pool(ones, kernel, strides)


@operator("GlobalAveragePool")
def global_average_pool(call: Call, x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(call: Call, x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.dim())), keepdim=True)


# -- norms -----------------------------------------------------------------------------------------


@operator("BatchNormalization")
def batch_norm(
    call: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    if call.num_outputs > 1 or call.whole("training_mode"):
        raise NotImplementedError("statistics of the batch")
    eps = call.number("epsilon", 1e-5)
    return F.batch_norm(x, mean, variance, scale, bias, training=False, eps=eps)


@operator("InstanceNormalization")
def instance_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=call.number("epsilon", 1e-5))


@operator("GroupNormalization")
def group_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Before version 21, there is a factor for each group."""
    groups = call.whole("num_groups")
    if call.opset < 21:
        each = x.shape[1] // groups
        scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return F.group_norm(x, groups, scale, bias, call.number("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_norm(call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    shape = x.shape[call.whole("axis", -1) :]
    if call.num_outputs > 1 or scale.shape != shape or not (bias is None or bias.shape == shape):
        raise NotImplementedError("statistics, or factors that are spread")
    return F.layer_norm(x, shape, scale, bias, call.number("epsilon", 1e-5))


@operator("RMSNormalization")
def rms_norm(call: Call, x: Tensor, scale: Tensor) -> Tensor:
    shape = x.shape[call.whole("axis", -1) :]
    if scale.shape != shape:
        raise NotImplementedError("factors that are spread")
    made: Tensor = F.rms_norm(x, list(shape), scale, call.number("epsilon", 1e-5))
    return made


@operator("LpNormalization")
def lp_norm(call: Call, x: Tensor) -> Tensor:
    """What has no length stays as it is."""
    length: Tensor = x.norm(call.whole("p", 2), call.whole("axis", -1), keepdim=True)
    return x / torch.where(length == 0, torch.ones_like(length), length)


@operator("LRN")
def local_response_norm(call: Call, x: Tensor) -> Tensor:
    alpha, beta = call.number("alpha", 1e-4), call.number("beta", 0.75)
    return F.local_response_norm(x, call.whole("size"), alpha, beta, call.number("bias", 1.0))


def _along(call: Call, x: Tensor, kernel: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Along an axis; before version 13, along it and all that follow."""
    if call.opset >= 13:
        return kernel(x, call.whole("axis", -1))
    axis = call.whole("axis", 1) % x.dim()
    if axis == x.dim() - 1:
        return kernel(x, axis)
    return kernel(x.reshape(*x.shape[:axis], -1), axis).reshape(x.shape)


@operator("Softmax")
def softmax(call: Call, x: Tensor) -> Tensor:
    return _along(call, x, F.softmax)


@operator("LogSoftmax")
def log_softmax(call: Call, x: Tensor) -> Tensor:
    return _along(call, x, F.log_softmax)


# -- reductions ------------------------------------------------------------------------------------


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % max(x.dim(), 1) for axis in axes), reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


_REDUCTIONS: dict[str, Callable[[Tensor, list[int], bool], Tensor]] = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keep, dtype=x.dtype),
    "ReduceProd": _product,
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keep),
    "ReduceMin": lambda x, axes, keep: x.amin(axes, keep),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keep, dtype=x.dtype),
    "ReduceL2": lambda x, axes, keep: (x * x).sum(axes, keep).sqrt().to(x.dtype),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, keep, dtype=x.dtype),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keep).log().to(x.dtype),
    "ReduceLogSumExp": lambda x, axes, keep: x.logsumexp(axes, keep).to(x.dtype),
}


def _reduction(reduce: Callable[[Tensor, list[int], bool], Tensor]) -> Operator:
    def kernel(call: Call, x: Tensor, axes: list[int] | None = None) -> Tensor:
        """Axes are an attribute before version 18, for sums before 13."""
        axes = call.ints("axes") or axes
        if not axes:
            if call.whole("noop_with_empty_axes"):  # each element is reduced alone
                return reduce(x.unsqueeze(0), [0], False)
            axes = list(range(max(x.dim(), 1)))
        return reduce(x, axes, bool(call.whole("keepdims", 1)))

    return Operator(kernel=kernel, static=frozenset((1,)), optional=frozenset())


OPERATORS.update({name: _reduction(reduce) for name, reduce in _REDUCTIONS.items()})


def _place(call: Call, x: Tensor, kernel: Callable[..., Tensor]) -> Tensor:
    if call.whole("select_last_index"):
        raise NotImplementedError("the last of equal ones")
    return kernel(x, call.whole("axis"), keepdim=bool(call.whole("keepdims", 1)))


@operator("ArgMax")
def argmax(call: Call, x: Tensor) -> Tensor:
    return _place(call, x, torch.argmax)


@operator("ArgMin")
def argmin(call: Call, x: Tensor) -> Tensor:
    return _place(call, x, torch.argmin)


@operator("TopK", static=(1,))
def top_k(call: Call, x: Tensor, k: list[int] | None = None) -> tuple[Tensor, Tensor]:
    """Of equal ones, the first."""
    count, axis = k[0] if k else call.whole("k"), call.whole("axis", -1)
    made = x.sort(dim=axis, descending=bool(call.whole("largest", 1)), stable=True)
    return made.values.narrow(axis, 0, count), made.indices.narrow(axis, 0, count)


@operator("CumSum", static=(1,))
def cumulative_sum(call: Call, x: Tensor, axis: int | list[int]) -> Tensor:
    if call.whole("exclusive") or call.whole("reverse"):
        raise NotImplementedError("exclusive or reversed sums")
    return x.cumsum(axis[0] if isinstance(axis, list) else axis, dtype=x.dtype)
