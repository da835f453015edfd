"""PyTorch: fused kernels on every device, with gradients (`kernels.fused`)."""

from __future__ import annotations

from torch import Tensor

from graphwright.gnn.kernels.fused import extreme_message as extreme_message
from graphwright.gnn.kernels.fused import sum_messages as sum_messages
from graphwright.gnn.kernels.softmax import fused_softmax as edge_softmax  # noqa: F401


def scale(values: Tensor, factors: Tensor) -> Tensor:
    """Rows times numbers."""
    return values * factors.to(values.dtype).reshape(-1, *[1] * (values.dim() - 1))
