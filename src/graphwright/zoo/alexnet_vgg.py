"""Convolutions followed by large linear layers: AlexNet and VGG-16/19.

AlexNet is the one-tower form ("one weird trick", Krizhevsky 2014), 61.1 million weights, nearly all
in three linear layers; VGG (Simonyan and Zisserman, 2015) has 3x3 convolutions only. Both have
`dropout` in the classifier, 0.5 in the papers, 0 by default, so that a step is repeatable.
"""

from collections.abc import Sequence

from torch import Tensor, nn

VGG_STAGES = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
VGG_CHANNELS = (64, 128, 256, 512, 512)


def classifier(inputs: int, hidden: int, classes: int, dropout: float) -> nn.Sequential:
    """Two hidden linear layers and the output."""
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


class AlexNet(nn.Module):
    """Five convolutions, three linear layers; for images of 224 (`side` 6) or 64 (`side` 1)."""

    def __init__(
        self,
        *,
        channels: Sequence[int] = (64, 192, 384, 256, 256),
        side: int = 6,
        hidden: int = 4096,
        classes: int = 1000,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        a, b, c, d, e = channels
        self.features = nn.Sequential(
            nn.Conv2d(3, a, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(a, b, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(b, c, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c, d, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(d, e, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.classifier = classifier(e * side * side, hidden, classes, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


class VGG(nn.Module):
    """Stages of `blocks[s]` 3x3 convolutions of `channels[s]` and a pooling, then linear layers."""

    def __init__(
        self,
        blocks: Sequence[int],
        *,
        channels: Sequence[int] = VGG_CHANNELS,
        side: int = 7,
        hidden: int = 4096,
        classes: int = 1000,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        inputs = 3
        for count, outputs in zip(blocks, channels, strict=True):
            for _ in range(count):
                self.features.append(nn.Conv2d(inputs, outputs, 3, padding=1))
                self.features.append(nn.ReLU())
                inputs = outputs
            self.features.append(nn.MaxPool2d(2))
        self.classifier = classifier(inputs * side * side, hidden, classes, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))
