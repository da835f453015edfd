"""The two smallest models: a multi-layer perceptron and LeNet-5 (LeCun et al., 1998).

LeNet keeps the paper's layer sizes (6 and 16 maps, then 120, 84, 10), with ReLU and max-pooling in
place of scaled tanh and trainable sub-sampling.
"""

import itertools
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Linear layers with ReLU between them: `sizes` runs from the input to the classes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(nn.Linear(inner, outer) for inner, outer in pairs)

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = layer(x if index == 0 else F.relu(x))
        return x


class LeNet(nn.Module):
    """Two convolutions with pooling, then three linear layers, for 1x28x28 images."""

    def __init__(self, *, channels: tuple[int, int] = (6, 16), classes: int = 10) -> None:
        super().__init__()
        first, second = channels
        self.conv1 = nn.Conv2d(1, first, 5, padding=2)
        self.conv2 = nn.Conv2d(first, second, 5)
        self.fc1 = nn.Linear(second * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))
