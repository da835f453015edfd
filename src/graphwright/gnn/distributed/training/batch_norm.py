"""Batch normalisation over the vertices of all workers.

    mean = sum over workers of sum x / n        var = sum over workers of sum (x - mean)^2 / n

Two sums with gradients give each worker the statistics of the whole graph, and running averages
that are the same on all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphwright.gnn.distributed.training.halo import HaloExchange
from graphwright.gnn.storage import NotDistributable


class WholeBatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` whose rows are spread over workers; made of one by `share_statistics`."""

    halo: HaloExchange

    def forward(self, input: Tensor) -> Tensor:
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        if input.dim() != 2:
            raise NotDistributable(
                f"batch normalisation takes rows of {self.num_features} numbers. Got shape "
                f"{list(input.shape)}; flatten it first"
            )
        count = self.halo.links.sum([input.new_tensor(float(len(input)))])[0]
        mean = self.halo.sum(input.sum(0)) / count
        centred = input - mean
        variance = self.halo.sum((centred * centred).sum(0)) / count
        if self.training and self.running_mean is not None:
            self._remember(mean.detach(), variance.detach(), count)
        out = centred * torch.rsqrt(variance + self.eps)
        return out * self.weight + self.bias if self.affine else out

    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:
            share = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance * count / (count - 1).clamp(min=1), share)


def share_statistics(model: nn.Module, halo: HaloExchange) -> None:
    """Let the batch normalisations of a model see the vertices of all workers."""
    for name, module in model.named_modules():
        if type(module) is nn.BatchNorm1d:
            module.__class__ = WholeBatchNorm
        if isinstance(module, WholeBatchNorm):
            module.halo = halo
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise NotDistributable(
                f"{name} is a {type(module).__name__}, which would see one worker's vertices "
                "alone; use nn.BatchNorm1d, or nn.LayerNorm"
            )


def restore_statistics(model: nn.Module) -> None:
    """Undo `share_statistics`."""
    for module in model.modules():
        if isinstance(module, WholeBatchNorm):
            del module.halo
            module.__class__ = nn.BatchNorm1d  # type: ignore[assignment]
