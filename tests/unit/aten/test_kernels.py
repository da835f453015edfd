"""Our own operators: one gradient each, also for a part of an image with a halo."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import graphwright.capture  # noqa: F401  (registers the operators)
from graphwright.aten import attention

ops = torch.ops.graphwright

CASES = [
    # input, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 4, 9), (6, 4, 3), [2], [1], [1], False, [0], 1),
    ((2, 4, 8, 7), (6, 2, 3, 3), [1, 2], [1, 0], [2, 1], False, [0, 0], 2),
    ((2, 4, 5, 5), (4, 3, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
    ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
]


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_the_bundled_kernel(case: tuple) -> None:
    x_size, w_size, *options = case
    x, w = torch.randn(x_size, dtype=torch.float64), torch.randn(w_size, dtype=torch.float64)
    g = torch.randn_like(torch.ops.aten.convolution(x, w, None, *options))
    wanted = torch.ops.aten.convolution_backward(g, x, w, None, *options, [True, True, False])
    torch.testing.assert_close(ops.convolution_grad_input(g, w, x_size, *options), wanted[0])
    torch.testing.assert_close(ops.convolution_grad_weight(g, x, w_size, *options), wanted[1])
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (g, x, w)]
        assert ops.convolution_grad_input(fakes[0], fakes[2], x_size, *options).shape == x.shape
        assert ops.convolution_grad_weight(fakes[0], fakes[1], w_size, *options).shape == w.shape


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_any_rows_of_the_input_gradient_from_the_rows_that_touch_them(
    stride: int, dilation: int, padding: int
) -> None:
    """Rows [low, high) of the input's gradient need only some rows of the output's gradient."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 14, dtype=torch.float64), torch.randn(4, 3, 3, dtype=torch.float64)
    options = ([stride], [padding], [dilation], False, [0], 1)
    g = torch.randn_like(torch.ops.aten.convolution(x, w, None, *options))
    whole = ops.convolution_grad_input(g, w, list(x.shape), *options)
    reach = dilation * 2
    for low, high in [(0, 5), (5, 10), (10, 14), (3, 4), (0, 14)]:
        first = max(0, -(-(low + padding - reach) // stride))
        last = min(g.shape[2] - 1, (high - 1 + padding) // stride)
        part = g[:, :, first : last + 1]
        own = padding + low - first * stride
        found = ops.convolution_grad_input(
            part, w, [2, 3, high - low], [stride], [own], [dilation], False, [0], 1
        )
        torch.testing.assert_close(found, whole[:, :, low:high])


def test_rows_that_nothing_touches_are_zero() -> None:
    g, w = torch.randn(1, 2, 3), torch.randn(2, 1, 1)
    found = ops.convolution_grad_input(g, w, [1, 1, 4], [1], [10], [1], False, [0], 1)
    assert torch.equal(found, torch.zeros(1, 1, 4))


def test_layer_norm_gradient() -> None:
    x, g = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    weight = torch.randn(4)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [4], weight, None, 1e-5)
    wanted = torch.ops.aten.native_layer_norm_backward(
        g, x, [4], mean, rstd, weight, None, [True, False, False]
    )[0]
    assert torch.equal(ops.layer_norm_grad_input(g, x, mean, rstd, weight, [4]), wanted)


@pytest.mark.parametrize(("causal", "masked"), [(False, False), (True, False), (False, True)])
def test_attention_from_its_definition(causal: bool, masked: bool) -> None:
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(4))
    mask = torch.randn(2, 1, 5, 5, dtype=torch.float64) if masked else None
    options = {"attn_mask": mask, "scale": 0.7}
    aten = torch.ops.aten
    wanted = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, **options)
    found = attention.attention(q, k, v, 0.0, causal, **options)
    torch.testing.assert_close(found, wanted)
    args = (g, q, k, v, *wanted, 0.0, causal)
    torch.testing.assert_close(
        attention.attention_backward(*args, **options),
        aten._scaled_dot_product_flash_attention_for_cpu_backward(*args, **options),
    )


def test_attention_by_its_definition_lets_heads_share_keys() -> None:
    from graphwright.aten.attention import attention, attention_backward

    torch.manual_seed(0)
    query, grad = (torch.randn(2, 6, 5, 8).double() for _ in range(2))
    key, value = (torch.randn(2, 2, 5, 8).double() for _ in range(2))
    native = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, True
    )
    for found, wanted in zip(attention(query, key, value, 0.0, True), native, strict=True):
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-6, atol=1e-6)
    inputs = (grad, query, key, value, *native, 0.0, True)
    wanted = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*inputs)
    for found, gradient in zip(attention_backward(*inputs), wanted, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-6, atol=1e-6)


WINDOWS = [
    # input, kernel, stride, padding, dilation, rounded up
    ((2, 3, 7, 6), [3, 2], [2, 2], [1, 0], [1, 1], False),
    ((3, 7, 6), [2, 3], [1, 2], [0, 1], [2, 1], True),
    ((2, 3, 4, 5, 6), [2, 2, 3], [2, 1, 2], [1, 0, 1], [1, 2, 1], False),
    ((2, 3, 5, 2), [3, 3], [1, 1], [1, 1], [1, 1], False),  # wider than the plane
]


@pytest.mark.parametrize("case", WINDOWS)
def test_a_maximum_tells_its_place_in_the_window(case: tuple) -> None:
    size, kernel, stride, padding, dilation, ceil = case
    rank = len(kernel)
    x = torch.randn(size, dtype=torch.float64)
    pool = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
    backward = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices_backward")
    wanted, indices = pool(x, kernel, stride, padding, dilation, ceil)
    largest, places = ops.max_pool(x, kernel, stride, padding, dilation, ceil)
    torch.testing.assert_close(largest, wanted)
    assert places.min() >= 0
    assert places.max() < torch.tensor(kernel).prod()
    g = torch.randn_like(wanted)
    torch.testing.assert_close(
        ops.max_pool_grad_input(g, places, size, kernel, stride, padding, dilation),
        backward(g, x, kernel, stride, padding, dilation, ceil, indices),
    )


def laid_out(value: torch.Tensor) -> list[torch.Tensor]:
    """The same in memory row by row, channels last, channels first, and as a part of something larger."""
    return [
        value,
        value.movedim(1, -1).contiguous().movedim(-1, 1),
        value.transpose(0, 1).contiguous().transpose(0, 1),
        torch.cat([value, value], -1)[..., : value.shape[-1]],
    ]


def calls(device: str) -> Iterator[tuple[Any, ...]]:
    for x_size, w_size, *options in CASES:
        x, w = torch.randn(x_size, device=device), torch.randn(w_size, device=device)
        g = torch.ops.aten.convolution(x, w, None, *options)
        for a, b in product(laid_out(g), laid_out(w)):
            yield ops.convolution_grad_input, a, b, x_size, *options
            if not options[3]:
                yield ops.convolution_grad_input, a, b, (*x_size[:-1], x_size[-1] + 1), *options
        for a, b in product(laid_out(g), laid_out(x)):
            yield ops.convolution_grad_weight, a, b, w_size, *options
    for size, *windows, ceil in WINDOWS:
        x = torch.randn(size, device=device)
        for a in laid_out(x):
            yield ops.max_pool, a, *windows, ceil
        for a, b in product(*map(laid_out, ops.max_pool(x, *windows, ceil))):
            yield ops.max_pool_grad_input, a, b, size, *windows
    x = torch.randn(4, 3, 7, device=device)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [7], None, None, 1e-5)
    for a, b in product(laid_out(x), laid_out(x)):
        yield ops.layer_norm_grad_input, a, b, mean, rstd, None, [7]


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
def test_results_lie_in_memory_as_fake_tensors_say(device: str) -> None:
    for kernel, *given in calls(device):
        made = kernel(*given)
        with FakeTensorMode() as mode:
            fakes = [mode.from_tensor(g) if isinstance(g, torch.Tensor) else g for g in given]
            said = kernel(*fakes)
        for real, fake in zip(
            *(t if isinstance(t, tuple) else [t] for t in (made, said)), strict=True
        ):
            assert (real.shape, real.stride()) == (fake.shape, fake.stride()), (kernel, given[2:])
