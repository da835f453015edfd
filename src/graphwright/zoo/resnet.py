"""Bottleneck residual networks: ResNet-50/101/152, wide ResNet and ResNeXt, from one class.

A bottleneck block in stage s (0 to 3), with base 64 and widening scalar W:

    x -- 1x1, 64 W 2^s -- 3x3, 64 W 2^s (stride, groups) -- 1x1, 256 W 2^s --(+)-- ReLU
     \\______________ identity, or 1x1 where the shape changes _____________/

W multiplies every channel count, the stem's and the residual path's too, so each convolution is
widened both in and out and the weights grow with W squared (Tofu, section 7.1). The "wide_resnet"
of other libraries widens only the inner convolution. With 4-byte weights, their
gradients and one history tensor, 3 x weights comes to 65.0 GiB for depth 152 and W = 10: Tofu's
Table 2 (65.1) is in units of 2^30 bytes; its twelve wide ResNets all come out within 2.5%.
TensorOpt's (table 1) has 7.3 GB of weights and no sizes given: depth 50 and W = 9 come nearest.

The stride is on the 3x3 convolution. ResNeXt (Xie et al., 2017) has grouped 3x3 convolutions, with
`groups` of `group_width` channels in stage 0.
"""

from torch import Tensor, nn

STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions, each normalised, added to the (projected) input."""

    def __init__(self, inputs: int, inner: int, outputs: int, *, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """`blocks[s]` bottlenecks in stage s; the stem has `base` times `width` channels."""

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        *,
        width: int = 1,
        groups: int = 1,
        group_width: int | None = None,
        base: int = 64,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        channels = base * width
        inner = channels if group_width is None else groups * group_width
        self.conv1 = nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        inputs, outputs = channels, channels * EXPANSION
        stages: list[nn.Sequential] = []
        for stage, count in enumerate(blocks):
            layer = nn.Sequential()
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                block = Bottleneck(inputs, inner, outputs, stride=stride, groups=groups)
                layer.append(block)
                inputs = outputs
            stages.append(layer)
            inner, outputs = inner * 2, outputs * 2
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))
