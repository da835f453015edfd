"""Operators of our own, where ATen bundles several results into one kernel.

`aten.convolution_backward` returns three gradients at once, so neither its cost nor its splits can
be said for one of them. Here each is an operator:

    graphwright.convolution_grad_input     sum over co, d of g[b, co, (y+p-d*dil)/s] w[co, ci, d]
    graphwright.convolution_grad_weight    sum over b, o of g[b, co, o] x[b, ci, o*s + d*dil - p]
    graphwright.layer_norm_grad_input      the gradient of a layer norm by what it normalises
    graphwright.max_pool                   the largest of each window, and its place in the window
    graphwright.max_pool_grad_input        the gradient of that
    graphwright.fft, fft_to_real           Fourier transforms of complex numbers, given as pairs

ATen's maximum over windows tells a place in the plane, which is another one in a part of the plane;
a place in the window is the same in both, so that these two split in space.

`convolution_grad_input` also accepts sizes that do not belong together: positions of `grad_output`
out of range count as zero. A part of an image can then run with a halo of its neighbour's rows,
where the input size and the padding are the part's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.aten.operators import aten
from graphwright.ir import Attr

Ints = list[int]

NAMESPACE = "graphwright"

_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]

_CONV_ARGS = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups"
)
_WINDOW_ARGS = "SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation"

_SCHEMAS = (
    "convolution_grad_input(Tensor grad_output, Tensor weight, SymInt[] input_size, "
    f"{_CONV_ARGS}) -> Tensor",
    "convolution_grad_weight(Tensor grad_output, Tensor input, SymInt[] weight_size, "
    f"{_CONV_ARGS}) -> Tensor",
    "layer_norm_grad_input(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, "
    "Tensor? weight, SymInt[] normalized_shape) -> Tensor",
    f"max_pool(Tensor input, {_WINDOW_ARGS}, bool ceil_mode) -> (Tensor, Tensor)",
    "max_pool_grad_input(Tensor grad_output, Tensor places, SymInt[] input_size, "
    f"{_WINDOW_ARGS}) -> Tensor",
    "fft(Tensor pairs, SymInt[] dim, int normalization, bool forward) -> Tensor",
    "fft_to_real(Tensor pairs, SymInt[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
    "Tensor running_var, bool training, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, "
    "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
)


def convolution_grad_input(
    grad_output: Tensor, weight: Tensor, input_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution with respect to its input, of shape `input_size`."""
    if transposed:  # an ordinary convolution of the gradient; an output padding may leave rows over
        full = aten.convolution(
            grad_output, weight, None, stride, padding, dilation, False, [0] * len(stride), groups
        )
        return full[tuple(slice(size) for size in input_size)]
    if _sizes_agree(grad_output, weight, input_size, stride, padding, dilation):
        probe = grad_output.new_empty([1]).expand(input_size)  # the kernel reads only its shape
        return aten.convolution_backward(
            grad_output, probe, weight, None, stride, padding, dilation, transposed, output_padding,
            groups, [True, False, False],
        )[0]  # fmt: skip
    rank = len(input_size) - 2
    full = aten.convolution(
        grad_output, weight, None, stride, [0] * rank, dilation, True, [0] * rank, groups
    )
    for axis in range(rank):
        full = _window(full, 2 + axis, padding[axis], input_size[2 + axis])
    return full


def convolution_grad_weight(
    grad_output: Tensor, input: Tensor, weight_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution with respect to its weight, of shape `weight_size`."""
    if transposed:  # the sides trade places, and the gradient is read over the windows' reach only
        for axis, kernel in enumerate(weight_size[2:]):
            reach = (input.shape[2 + axis] - 1) * stride[axis] + dilation[axis] * (kernel - 1) + 1
            grad_output = _window(grad_output, 2 + axis, -padding[axis], reach)
        zeros = [0] * len(stride)
        grad_output, input, transposed = input, grad_output, False
        padding, output_padding = zeros, zeros
    probe = grad_output.new_empty([1]).expand(weight_size)
    return aten.convolution_backward(
        grad_output, input, probe, None, stride, padding, dilation, transposed, output_padding,
        groups, [False, True, False],
    )[1]  # fmt: skip


def layer_norm_grad_input(
    grad_output: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, normalized_shape: Ints,
) -> Tensor:  # fmt: skip
    """Return the gradient of a layer norm with respect to its input."""
    return aten.native_layer_norm_backward(
        grad_output, input, normalized_shape, mean, rstd, weight, None, [True, False, False]
    )[0].contiguous()  # as it is; on fake tensors it can be otherwise


def max_pool(
    input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the largest element of each window, and its place there, counted row by row."""
    largest, at = _pool(len(kernel_size))(input, kernel_size, stride, padding, dilation, ceil_mode)
    sizes = list(input.shape[-len(kernel_size) :])
    at = at - _window_starts(at, sizes, stride, padding)
    reach = [gap * (kernel - 1) for kernel, gap in zip(kernel_size, dilation, strict=True)]
    if any(far >= size for far, size in zip(reach[1:], sizes[1:], strict=True)):
        return largest, _places_in_wide_windows(at, input, kernel_size, stride, padding, dilation)
    last = 0
    for size, far in zip(sizes, reach, strict=True):
        last = last * size + far
    taps = _taps(at.device, sizes, kernel_size, dilation)
    places = torch.zeros(last + 1, dtype=torch.int64, device=at.device)
    places[taps] = torch.arange(len(taps), device=at.device)
    return largest, places.take(at)


def max_pool_grad_input(
    grad_output: Tensor, places: Tensor, input_size: Ints, kernel_size: Ints,
    stride: Ints, padding: Ints, dilation: Ints,
) -> Tensor:  # fmt: skip
    """Return the gradient of `max_pool` by its input; what falls outside of it is left out."""
    rank = len(kernel_size)
    covered = [
        (n - 1) * step + gap * (kernel - 1) + 1
        for n, kernel, step, gap in zip(
            grad_output.shape[-rank:], kernel_size, stride, dilation, strict=True
        )
    ]
    zeros = [0] * rank
    taps = _taps(places.device, covered, kernel_size, dilation)
    at = taps[places]
    at += _window_starts(places, covered, stride, zeros)
    probe = grad_output.new_empty([1]).expand([*grad_output.shape[:-rank], *covered])
    full: Tensor = _pool(rank, "_backward")(
        grad_output, probe, kernel_size, stride, zeros, dilation, False, at
    )
    del at  # as large as what follows
    for axis in range(rank):
        full = _window(full, full.dim() - rank + axis, padding[axis], input_size[axis - rank])
    return full


def fft(pairs: Tensor, dim: Ints, normalization: int, forward: bool) -> Tensor:
    """Return the Fourier transform of pairs, as pairs."""
    values = torch.view_as_complex(pairs.contiguous())
    return torch.view_as_real(aten._fft_c2c(values, dim, normalization, forward)).contiguous()


def fft_to_real(pairs: Tensor, dim: Ints, normalization: int, last_dim_size: int) -> Tensor:
    """Return the inverse transform of half of what a real tensor's transform is."""
    values = torch.view_as_complex(pairs.contiguous())
    return aten._fft_c2r(values, dim, normalization, last_dim_size).contiguous()


def _pool(rank: int, suffix: str = "") -> Any:
    return getattr(aten, f"max_pool{rank}d_with_indices{suffix}")


def _taps(device: torch.device, sizes: Ints, kernel_size: Ints, dilation: Ints) -> Tensor:
    """Return how far each place in a window is from its start, in a plane counted row by row.

    Made on the device: a CUDA graph could not record a copy.
    """
    taps = torch.zeros(1, dtype=torch.int64, device=device)
    for size, kernel, gap in zip(sizes, kernel_size, dilation, strict=True):
        taps = (taps[:, None] * size + torch.arange(kernel, device=device) * gap).flatten()
    return taps


def _window_starts(like: Tensor, sizes: Ints, stride: Ints, padding: Ints) -> Tensor:
    """Return where in a plane each window starts."""
    rank = len(sizes)
    starts = torch.zeros((), dtype=torch.int64, device=like.device)
    for axis in range(rank):
        rows = torch.arange(like.shape[axis - rank], device=like.device) * stride[axis]
        shape = [-1 if d == axis else 1 for d in range(rank)]
        starts = starts * sizes[axis] + (rows - padding[axis]).view(shape)
    return starts


def _places_in_wide_windows(
    distance: Tensor, input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
) -> Tensor:  # fmt: skip
    """Return places from distances where windows are wider than the plane: not a table lookup."""
    rank = len(kernel_size)
    at = distance + _window_starts(distance, list(input.shape[-rank:]), stride, padding)
    places, factor = torch.zeros_like(at), 1
    for axis in reversed(range(rank)):
        row, at = at % input.shape[axis - rank], at // input.shape[axis - rank]
        zeros = [0] * rank
        steps = [stride[axis] if d == axis else 0 for d in range(rank)]
        starts = _window_starts(at, [1] * rank, steps, zeros)
        places += factor * ((row - starts + padding[axis]) // dilation[axis])
        factor *= kernel_size[axis]
    return places


def _sizes_agree(
    grad_output: Tensor, weight: Tensor, input_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints,
) -> bool:  # fmt: skip
    """Say whether a convolution of such an input would give an output of `grad_output`'s size."""
    return min(padding) >= 0 and all(
        grad_output.shape[2 + axis]
        == (size + 2 * padding[axis] - dilation[axis] * (weight.shape[2 + axis] - 1) - 1)
        // stride[axis]
        + 1
        for axis, size in enumerate(input_size[2:])
    )


def _window(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return `x[start : start + length]` along `dim`, with zeros where `x` has nothing."""
    low, high = max(start, 0), min(start + length, x.shape[dim])
    if low >= high:
        return x.new_zeros([*x.shape[:dim], length, *x.shape[dim + 1 :]])
    kept = x.narrow(dim, low, high - low)
    before, after = low - start, start + length - high
    if before == 0 and after == 0:
        return kept
    pads = [0, 0] * (x.dim() - dim - 1) + [before, after]
    return torch.nn.functional.pad(kept, pads)


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return what PyTorch's operator for it does, from cuDNN where that may run."""
    if not training or not _takes_cudnn(x, weight, bias, eps):
        return aten._native_batch_norm_legit_functional.default(
            x, weight, bias, running_mean, running_var, training, momentum, eps
        )  # type: ignore[return-value]
    running = running_mean.clone(), running_var.clone()
    made = aten.cudnn_batch_norm.default(x, weight, bias, *running, True, momentum, eps)
    return (*made[:3], *running)


def batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, train: bool,
    eps: float, output_mask: list[bool],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return what `aten.native_batch_norm_backward` does, from cuDNN where that may run."""
    if not train or not all(output_mask) or not _takes_cudnn(x, weight, weight, eps):
        return aten.native_batch_norm_backward.default(
            grad, x, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
            output_mask,
        )  # type: ignore[return-value]  # fmt: skip
    nothing = torch.empty(0, dtype=torch.uint8, device=x.device)  # what cuDNN needs for NHWC alone
    return aten.cudnn_batch_norm_backward.default(
        x, grad.contiguous(), weight, None, None, save_mean, save_invstd, eps, nothing
    )  # type: ignore[return-value]


_LEAST_EPS = 1e-5


def _takes_cudnn(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> bool:
    """Whether cuDNN normalises such a batch: real float32 images with their channels first."""
    return (
        x.is_cuda
        and type(x) is Tensor
        and x.dtype == torch.float32
        and x.dim() > 3
        and x.is_contiguous()
        and weight is not None
        and bias is not None
        and weight.dtype == bias.dtype == torch.float32
        and eps >= _LEAST_EPS
        and torch.backends.cudnn.enabled
    )


_ON_GPU = {
    aten._native_batch_norm_legit_functional.default: "batch_norm",
    aten.native_batch_norm_backward.default: "batch_norm_backward",
}


def on_device(
    overload: torch._ops.OpOverload, attrs: Mapping[str, Attr], device: torch.device
) -> torch._ops.OpOverload:
    """The operator that runs in the place of PyTorch's on a device: one that chooses a kernel."""
    name = _ON_GPU.get(overload) if device.type == "cuda" else None
    asked = attrs.get("output_mask", ())
    if name is None or (isinstance(asked, tuple) and not all(asked)):
        return overload
    return getattr(torch.ops.graphwright, name).default  # type: ignore[no-any-return]


def _register() -> None:
    for schema in _SCHEMAS:
        _LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    for kernel in (
        convolution_grad_input,
        convolution_grad_weight,
        layer_norm_grad_input,
        max_pool,
        max_pool_grad_input,
        fft,
        fft_to_real,
    ):
        name = kernel.__name__
        _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        # On fake tensors too: Inductor relies on the strides of the results.
        torch.library.register_fake(f"{NAMESPACE}::{name}", kernel, lib=_LIBRARY)
    for chosen in (batch_norm, batch_norm_backward):  # a compiler sees PyTorch's operator inside
        _LIBRARY.impl(chosen.__name__, chosen, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


_register()
