"""Models that join dense and sparse features: DLRM and Candle Uno (FlexFlow, section 3.7.3).

    DLRM   26 embedding tables of 64 and a bottom network 13-512-512-64, concatenated,
           top network 1024-1024-1024-1
    Uno    three bottom networks 1000-1000-1000, concatenated, top network 1000-1000-1000-1

Uno's networks read a cell's RNA (942 values) and two features of a drug (5270 and 2048). DLRM's
tables have the sizes of the Criteo Kaggle data, 3 to 1.76 million rows.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

CRITEO_TABLES = (
    *(1396, 550, 1761917, 507795, 290, 21, 11948, 608, 3, 58176, 5237, 1497287, 3127),
    *(26, 12153, 1068715, 10, 4836, 2085, 4, 1312273, 17, 15, 110946, 91, 72655),
)
CRITEO_DENSE = 13
UNO_FEATURES = (942, 5270, 2048)


def tower(sizes: Sequence[int], *, last_relu: bool) -> nn.Sequential:
    """Linear layers with ReLU between them and, optionally, after the last."""
    layers: list[nn.Module] = []
    for inner, outer in itertools.pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))


class DLRM(nn.Module):
    """Click scores from `dense[batch, feature]` and `sparse[batch, table]` row numbers."""

    def __init__(
        self, *, tables: Sequence[int], size: int, bottom: Sequence[int], top: Sequence[int]
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, size) for rows in tables)
        self.bottom = tower(bottom, last_relu=True)
        joined = bottom[-1] + size * len(tables)
        self.top = tower([joined, *top], last_relu=False)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        rows = [table(sparse[:, index]) for index, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(dense), *rows], dim=1)).squeeze(1)


class CandleUno(nn.Module):
    """A drug's effect on a cell from one feature vector per bottom network."""

    def __init__(self, *, features: Sequence[int], size: int) -> None:
        super().__init__()
        self.bottoms = nn.ModuleList(
            tower([feature, size, size, size], last_relu=True) for feature in features
        )
        self.top = tower([size * len(features), size, size, size, 1], last_relu=False)

    def forward(self, *features: Tensor) -> Tensor:
        encoded = [bottom(feature) for bottom, feature in zip(self.bottoms, features, strict=True)]
        return self.top(torch.cat(encoded, dim=1)).squeeze(1)
