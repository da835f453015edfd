"""Recipes of the image models and the plain perceptron, one function each."""

from collections.abc import Callable
from functools import partial

from torch import nn

from graphwright.zoo.alexnet_vgg import VGG, VGG_STAGES, AlexNet
from graphwright.zoo.inception import inception_v3, inception_v4
from graphwright.zoo.mlp_lenet import MLP, LeNet
from graphwright.zoo.nasnet import NasNet
from graphwright.zoo.recipe import ADAGRAD, MOMENTUM, Optimizer, Recipe, images, vectors
from graphwright.zoo.resnet import STAGES, ResNet
from graphwright.zoo.workload import classification


def imagenet(
    model: Callable[[], nn.Module],
    small: Callable[[], nn.Module],
    *,
    size: int = 224,
    small_size: int = 64,
    batch_size: int = 64,
    optimizer: Optimizer = MOMENTUM,
    **facts: str,
) -> Recipe:
    """A classifier of ImageNet's 1000 classes, or 10 in the small variant."""
    return Recipe(
        full=(model, images(size, classes=1000)),
        small=(small, images(small_size, classes=10)),
        loss_fn=classification,
        batch_size=batch_size,
        optimizer=optimizer,
        **facts,
    )


def mlp() -> Recipe:
    return Recipe(
        name="mlp",
        source="Tofu, figure 5 (its sizes are ours)",
        batch_size=512,
        description="four linear layers of 8192 with ReLU between them",
        full=(partial(MLP, [8192] * 5), vectors(8192, classes=8192)),
        small=(partial(MLP, [12, 16, 16, 6]), vectors(12, classes=6)),
        loss_fn=classification,
        optimizer=MOMENTUM,
    )


def lenet() -> Recipe:
    digits = images(28, classes=10, channels=1)
    return Recipe(
        name="lenet",
        source="LeCun et al. 1998, section II.B",
        batch_size=256,
        description="LeNet-5 on 28x28 digits",
        full=(LeNet, digits),
        small=(partial(LeNet, channels=(2, 3)), digits),
        loss_fn=classification,
        optimizer=MOMENTUM,
    )


def alexnet() -> Recipe:
    return imagenet(
        AlexNet,
        partial(AlexNet, channels=(4, 6, 8, 6, 6), side=1, hidden=16, classes=10),
        name="alexnet",
        source="FlexFlow, section 3.7.1 and table 3.3; Krizhevsky 2014",
        batch_size=256,
        description="five convolutions and three linear layers on 224x224 images",
    )


def vgg(depth: int) -> Recipe:
    channels = (4, 4, 8, 8, 8)
    return imagenet(
        partial(VGG, VGG_STAGES[depth]),
        partial(VGG, (1, 1, 2, 1, 1), channels=channels, side=1, hidden=16, classes=10),
        name=f"vgg{depth}",
        family="vgg",
        source="TensorOpt, table 1; Simonyan and Zisserman 2015, table 1",
        batch_size=256,
        description=f"VGG of {depth} layers on 224x224 images, without batch normalisation",
        small_size=32,
    )


def resnet(depth: int, source: str) -> Recipe:
    return imagenet(
        partial(ResNet, STAGES[depth]),
        partial(ResNet, (1, 1, 1, 1), base=4, classes=10),
        name=f"resnet{depth}",
        family="resnet",
        source=source,
        description=f"bottleneck residual network of {depth} layers on 224x224 images",
    )


def resnext() -> Recipe:
    return imagenet(
        partial(ResNet, STAGES[50], groups=32, group_width=4),
        partial(ResNet, (1, 1, 1, 1), base=4, groups=4, group_width=2, classes=10),
        name="resnext50",
        family="resnet",
        source="TASO, section 2.9.1; Xie et al. 2017, table 1",
        description="ResNeXt-50 (32x4d): grouped 3x3 convolutions in the bottlenecks",
    )


# Tofu, sections 7.2 and 7.3: the batch that fits eight GPUs of 12 GB. Others are not given.
WRESNET_BATCHES = {(50, 4): 128, (152, 4): 32, (152, 10): 8}
SMALL_WRESNET = partial(ResNet, (1, 1, 1, 1), width=2, base=4, classes=10)


def wresnet(depth: int, width: int) -> Recipe | None:
    if depth not in STAGES:
        return None
    return imagenet(
        partial(ResNet, STAGES[depth], width=width),
        SMALL_WRESNET,
        name=f"wresnet-{depth}-{width}",
        family="wresnet",
        source="Tofu, section 7.1 and table 2; SwapAdvisor, section 5.1 (batches up to 64)",
        batch_size=WRESNET_BATCHES.get((depth, width), 32),
        description=f"ResNet-{depth} with all channel counts times {width}, 224x224 images",
        optimizer=ADAGRAD,
    )


def inception3() -> Recipe:
    return imagenet(
        inception_v3,
        partial(inception_v3, cells=1, divide=24, classes=10),
        name="inception-v3",
        family="inception",
        source="FlexFlow, section 3.7.1 and table 3.3; Szegedy et al. 2015, table 1",
        description="Inception-v3 on 299x299 images, without the auxiliary classifier",
        size=299,
        small_size=75,
    )


def inception4(scale: int = 1) -> Recipe:
    return imagenet(
        partial(inception_v4, scale=scale),
        partial(inception_v4, scale=2, cells=1, divide=48, classes=10),
        name="inception-v4" if scale == 1 else f"inception-{scale}",
        family="inception",
        source="SwapAdvisor, section 5.1 and table 5.1; Szegedy et al. 2016, figures 3 to 9",
        description=f"Inception-v4 with all channel counts times {scale}, 299x299 images",
        size=299,
        small_size=75,
        optimizer=ADAGRAD,
    )


SMALL_NASNET = partial(NasNet, repeats=1, filters=8, stem=6, classes=10)


def nasnet(repeats: int) -> Recipe:
    return imagenet(
        partial(NasNet, repeats=repeats, filters=168),
        SMALL_NASNET,
        name=f"nasnet-{repeats}",
        family="nasnet",
        source="SwapAdvisor, section 5.1 and table 5.1; Zoph et al. 2018, figure 4",
        description=f"NASNet-A ({repeats} @ 4032): {3 * repeats} normal cells, 331x331 images",
        size=331,
        small_size=32,
        optimizer=ADAGRAD,
    )


def nasnet_a(name: str, repeats: int, filters: int, stem: int, size: int) -> Recipe:
    return imagenet(
        partial(NasNet, repeats=repeats, filters=filters, stem=stem),
        SMALL_NASNET,
        name=name,
        family="nasnet",
        source="TASO, section 2.9.1; Zoph et al. 2018, table 2",
        description=f"NASNet-A ({repeats} @ {24 * filters}) on {size}x{size} images",
        size=size,
        small_size=32,
    )
