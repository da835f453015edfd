"""The table of names: fixed names, patterns with numbers, and the published numbers.

Batch sizes are those of the cited experiments. Tofu and SwapAdvisor count three tensors per weight
(weight, gradient, history), so their models train with Adagrad; other convolutional networks with
SGD and momentum, attention models with Adam or AdamW.
"""

from collections.abc import Callable

from graphwright.zoo import catalogue_features as features
from graphwright.zoo import catalogue_images as images
from graphwright.zoo import catalogue_sequences as sequences
from graphwright.zoo import catalogue_tensoropt as tensoropt
from graphwright.zoo.recipe import Recipe
from graphwright.zoo.resnet import STAGES

_RECIPES = (
    images.mlp(),
    images.lenet(),
    images.alexnet(),
    images.vgg(16),
    images.vgg(19),
    images.resnet(50, "TASO, section 2.9.1; He et al. 2016, table 1"),
    images.resnet(101, "FlexFlow, section 3.7.1 and table 3.3; He et al. 2016, table 1"),
    images.resnet(152, "SwapAdvisor, section 5.1 (inference); He et al. 2016, table 1"),
    images.resnext(),
    images.inception3(),
    images.nasnet_a("nasnet-a-mobile", 4, 44, 32, 224),
    images.nasnet_a("nasnet-a-large", 6, 168, 96, 331),
    sequences.rnntc(),
    sequences.rnnlm(),
    sequences.nmt(),
    sequences.nasrnn(),
    sequences.transformer("transformer", 512, 8, 64, "Vaswani et al. 2017, table 3 (base)"),
    sequences.bert("bert-base", 12, 768, 12, 0.1),
    sequences.bert("bert-large", 24, 1024, 16, 0.0),
    sequences.gpt("gpt2", 12, 768, 12),
    sequences.gpt("gpt2-medium", 24, 1024, 16),
    sequences.gpt("gpt2-large", 36, 1280, 20),
    sequences.gpt("gpt2-xl", 48, 1600, 25),
    features.dlrm(),
    features.candle_uno(),
    tensoropt.rnn(),
    tensoropt.wresnet(),
    tensoropt.transformer(),
)

FIXED: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}

# A pattern's function gets the matched numbers, from 1 on, and returns None if there is no such
# model.
PATTERNS: tuple[tuple[str, Callable[..., Recipe | None]], ...] = (
    (r"wresnet-(\d+)-(\d+)", images.wresnet),
    (r"inception[-_]?v4", images.inception4),
    (r"inception-(\d+)", images.inception4),
    (r"nasnet-(\d+)", images.nasnet),
    (r"rnn-(\d+)-(\d+k?)", sequences.rnn),
    (r"brnn-(\d+)-(\d+k?)", sequences.brnn),
    (r"transformer-(\d+)", sequences.wide_transformer),
    (r"rnnlm-(\d+)", sequences.rnnlm),
    (r"gpt-(\d+)-(\d+)", sequences.sized_gpt),
    (r"llama-(\d+)b-(\d+)", sequences.llama),
)

PUBLISHED: tuple[str, ...] = (
    *(f"wresnet-{depth}-{width}" for depth in STAGES for width in (4, 6, 8, 10)),
    *(f"rnn-{layers}-{hidden}k" for layers in (6, 8, 10) for hidden in (4, 6, 8)),
    "rnn-4-8k",
    "brnn-4-8k",
    "inception-v4",
    "inception-4",
    "nasnet-25",
    "transformer-2688",
    "transformer-3840",
    "rnnlm-2",
    "llama-8b-4",
)
