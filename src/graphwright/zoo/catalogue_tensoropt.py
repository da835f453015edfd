"""Recipes of TensorOpt's experiments (section 5, table 1), one function each.

Table 1 has four figures for a model, and no sizes:

    model        weights   batch   peak on one GPU   |  here: weights   kept for backward   sum
    RNN            108      256          126         |         107.3          17.1         124.4
    WideResNet       7.3    256           83         |           7.1          76.5          83.6
    Transformer      9.7    256           74         |           9.8          49.1          58.9

Its VGG-16 of 0.52 shows that weights are float32 in units of 2^30 bytes. Data parallelism takes 109
for the RNN on 16 GPUs (section 5.1), which is 108 and a sixteenth of 126 - 108: so a step's memory
is one copy of the weights and what the forward pass keeps, and the optimizer keeps nothing. The
sizes below fit the weights, and but for the Transformer, whose dropout is left out here, the
memory too; training is with plain SGD. VGG-16 is `vgg16`.
"""

from functools import partial

from graphwright.zoo import catalogue_sequences as sequences
from graphwright.zoo.catalogue_images import SMALL_WRESNET
from graphwright.zoo.recipe import Recipe, images, next_tokens, sgd
from graphwright.zoo.resnet import STAGES, ResNet
from graphwright.zoo.rnn import RNN
from graphwright.zoo.workload import classification, token_prediction

BATCH = 256
SGD = sgd(0.01)


def rnn() -> Recipe:
    """LSTMs as cited (Sak et al., 2014), with that paper's 20 steps of backpropagation.

    Four layers of 29 x 1024 over 10,000 words have 107.3 GiB of weights, and keep 17.1 GiB (18).
    """
    return Recipe(
        name="tensoropt-rnn",
        family="rnn",
        source="TensorOpt, table 1 (108 GB of weights; layers and hidden size chosen to fit)",
        batch_size=BATCH,
        description="4 LSTM layers of 29696, 10,000 words, unrolled for 20 steps",
        full=(
            partial(RNN, layers=4, hidden=29696, vocabulary=10000, embedding=29696),
            next_tokens(20, vocabulary=10000),
        ),
        small=(
            partial(RNN, layers=2, hidden=16, vocabulary=11, embedding=16),
            next_tokens(3, vocabulary=11),
        ),
        loss_fn=token_prediction,
        optimizer=SGD,
    )


def wresnet() -> Recipe:
    """All channel counts of ResNet-50 times 9 have 7.1 GiB; the images' side fits the memory."""
    return Recipe(
        name="tensoropt-wresnet",
        family="wresnet",
        source="TensorOpt, table 1 (7.3 GB of weights; width and image size chosen to fit)",
        batch_size=BATCH,
        description="ResNet-50 with all channel counts times 9, 144x144 images",
        full=(partial(ResNet, STAGES[50], width=9), images(144, classes=1000)),
        small=(SMALL_WRESNET, images(32, classes=10)),
        loss_fn=classification,
        optimizer=SGD,
    )


def transformer() -> Recipe:
    """The base model of the cited paper (Vaswani et al., 2017), its hidden size made 3840."""
    source = "TensorOpt, table 1 (9.7 GB of weights; hidden size chosen to fit)"
    return sequences.transformer("tensoropt-transformer", 3840, 60, BATCH, source, SGD)
