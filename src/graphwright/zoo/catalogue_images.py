"""Recipes of the image models and the plain perceptron, one function each."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from graphwright.zoo.alexnet_vgg import VGG, VGG_STAGES, AlexNet
from graphwright.zoo.inception import inception_v3, inception_v4
from graphwright.zoo.mlp_lenet import MLP, LeNet
from graphwright.zoo.nasnet import NasNet
from graphwright.zoo.recipe import Recipe, Variant, images, small, vectors
from graphwright.zoo.resnet import STAGES, ResNet
from graphwright.zoo.workload import Entry, classification

MOMENTUM = {"lr": 0.01, "momentum": 0.9}
ADAGRAD = {"lr": 0.01}


def image_classifier(
    entry: Entry,
    *,
    full: Callable[[], nn.Module],
    small_model: Callable[[], nn.Module],
    size: int = 224,
    small_size: int = 64,
    adagrad: bool = False,
) -> Recipe:
    """ImageNet's 1000 classes, or 10 in the small variant; SGD with momentum, or Adagrad."""
    return Recipe(
        entry=entry,
        full=Variant(build=full, batch=images(size, classes=1000)),
        small=small(small_model, images(small_size, classes=10)),
        loss_fn=classification,
        optimizer=torch.optim.Adagrad if adagrad else torch.optim.SGD,
        optimizer_options=ADAGRAD if adagrad else MOMENTUM,
    )


def mlp() -> Recipe:
    return Recipe(
        entry=Entry(
            name="mlp",
            family="mlp",
            source="Tofu, figure 5 (its sizes are ours)",
            batch_size=512,
            description="four linear layers of 8192 with ReLU between them",
        ),
        full=Variant(
            build=partial(MLP, [8192] * 5),
            batch=vectors(8192, classes=8192),
        ),
        small=small(partial(MLP, [12, 16, 16, 6]), vectors(12, classes=6)),
        loss_fn=classification,
        optimizer=torch.optim.SGD,
        optimizer_options=MOMENTUM,
    )


def lenet() -> Recipe:
    return Recipe(
        entry=Entry(
            name="lenet",
            family="lenet",
            source="LeCun et al. 1998, section II.B",
            batch_size=256,
            description="LeNet-5 on 28x28 digits",
        ),
        full=Variant(build=LeNet, batch=images(28, classes=10, channels=1)),
        small=small(partial(LeNet, channels=(2, 3)), images(28, classes=10, channels=1)),
        loss_fn=classification,
        optimizer=torch.optim.SGD,
        optimizer_options=MOMENTUM,
    )


def alexnet() -> Recipe:
    return image_classifier(
        Entry(
            name="alexnet",
            family="alexnet",
            source="FlexFlow, section 3.7.1 and table 3.3; Krizhevsky 2014",
            batch_size=256,
            description="five convolutions and three linear layers on 224x224 images",
        ),
        full=AlexNet,
        small_model=partial(AlexNet, channels=(4, 6, 8, 6, 6), side=1, hidden=16, classes=10),
    )


def vgg(depth: int) -> Recipe:
    return image_classifier(
        Entry(
            name=f"vgg{depth}",
            family="vgg",
            source="TensorOpt, table 1; Simonyan and Zisserman 2015, table 1",
            batch_size=256,
            description=f"VGG of {depth} layers on 224x224 images, without batch normalisation",
        ),
        full=partial(VGG, VGG_STAGES[depth]),
        small_model=partial(
            VGG, (1, 1, 2, 1, 1), channels=(4, 4, 8, 8, 8), side=1, hidden=16, classes=10
        ),
        small_size=32,
    )


def resnet(depth: int, source: str) -> Recipe:
    return image_classifier(
        Entry(
            name=f"resnet{depth}",
            family="resnet",
            source=source,
            batch_size=64,
            description=f"bottleneck residual network of {depth} layers on 224x224 images",
        ),
        full=partial(ResNet, STAGES[depth]),
        small_model=partial(ResNet, (1, 1, 1, 1), base=4, classes=10),
    )


def resnext() -> Recipe:
    return image_classifier(
        Entry(
            name="resnext50",
            family="resnet",
            source="TASO, section 2.9.1; Xie et al. 2017, table 1",
            batch_size=64,
            description="ResNeXt-50 (32x4d): grouped 3x3 convolutions in the bottlenecks",
        ),
        full=partial(ResNet, STAGES[50], groups=32, group_width=4),
        small_model=partial(ResNet, (1, 1, 1, 1), base=4, groups=4, group_width=2, classes=10),
    )


# Tofu, sections 7.2 and 7.3: the batch that fits eight GPUs of 12 GB. Others are not given.
WRESNET_BATCHES = {(50, 4): 128, (152, 4): 32, (152, 10): 8}


def wresnet(depth: str, width: str) -> Recipe | None:
    layers, scale = int(depth), int(width)
    if layers not in STAGES or scale < 1:
        return None
    return image_classifier(
        Entry(
            name=f"wresnet-{layers}-{scale}",
            family="wresnet",
            source="Tofu, section 7.1 and table 2; SwapAdvisor, section 5.1 (batches up to 64)",
            batch_size=WRESNET_BATCHES.get((layers, scale), 32),
            description=f"ResNet-{layers} with all channel counts times {scale}, 224x224 images",
        ),
        full=partial(ResNet, STAGES[layers], width=scale),
        small_model=partial(ResNet, (1, 1, 1, 1), width=2, base=4, classes=10),
        adagrad=True,
    )


def inception3() -> Recipe:
    return image_classifier(
        Entry(
            name="inception-v3",
            family="inception",
            source="FlexFlow, section 3.7.1 and table 3.3; Szegedy et al. 2015, table 1",
            batch_size=64,
            description="Inception-v3 on 299x299 images, without the auxiliary classifier",
        ),
        full=inception_v3,
        small_model=partial(inception_v3, cells=1, divide=24, classes=10),
        size=299,
        small_size=75,
    )


def inception4(scale: str = "1") -> Recipe | None:
    wide = int(scale)
    if wide < 1:
        return None
    return image_classifier(
        Entry(
            name="inception-v4" if wide == 1 else f"inception-{wide}",
            family="inception",
            source="SwapAdvisor, section 5.1 and table 5.1; Szegedy et al. 2016, figures 3 to 9",
            batch_size=64,
            description=f"Inception-v4 with all channel counts times {wide}, 299x299 images",
        ),
        full=partial(inception_v4, scale=wide),
        small_model=partial(inception_v4, scale=2, cells=1, divide=48, classes=10),
        size=299,
        small_size=75,
        adagrad=True,
    )


def nasnet(repeats: str) -> Recipe | None:
    r = int(repeats)
    if r < 1:
        return None
    return image_classifier(
        Entry(
            name=f"nasnet-{r}",
            family="nasnet",
            source="SwapAdvisor, section 5.1 and table 5.1; Zoph et al. 2018, figure 4",
            batch_size=64,
            description=f"NASNet-A ({r} @ 4032): {3 * r} normal cells, 331x331 images",
        ),
        full=partial(NasNet, repeats=r, filters=168),
        small_model=partial(NasNet, repeats=1, filters=8, stem=6, classes=10),
        size=331,
        small_size=32,
        adagrad=True,
    )


def nasnet_a(name: str, repeats: int, filters: int, stem: int, size: int) -> Recipe:
    return image_classifier(
        Entry(
            name=name,
            family="nasnet",
            source="TASO, section 2.9.1; Zoph et al. 2018, table 2",
            batch_size=64,
            description=f"NASNet-A ({repeats} @ {24 * filters}) on {size}x{size} images",
        ),
        full=partial(NasNet, repeats=repeats, filters=filters, stem=stem),
        small_model=partial(NasNet, repeats=1, filters=8, stem=6, classes=10),
        size=size,
        small_size=32,
    )
