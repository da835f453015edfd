"""All models by name: `load` turns "wresnet-152-10" into a `Workload`.

A name is fixed ("vgg16") or contains numbers ("rnn-8-8k"). It resolves to a `Recipe`: the entry
that describes the model, and two variants, the published one and a small one that trains in
milliseconds on a CPU.

    FIXED[name] -> Recipe                       "VGG-16", "vgg_16" and "vgg16" are one name
    PATTERNS: (regex, function from the matched numbers to a Recipe)

Configurations come from the papers and sections that the entries cite. Where these give no value,
the module of the model says which other source it uses.
"""

import difflib
import re
from collections.abc import Sequence

import torch

from graphwright.errors import InvalidWorkload, UnknownModel
from graphwright.zoo import catalogue_features as features
from graphwright.zoo import catalogue_sequences as sequences
from graphwright.zoo.catalogue import FIXED, PATTERNS, PUBLISHED
from graphwright.zoo.recipe import Recipe
from graphwright.zoo.workload import Entry, RandomTensors, Workload

SEED = 0
SMALL_BATCH = 4
MAX_BATCH_SIZE = 1 << 24
"""Beyond this, sizes of single tensors leave 64 bits."""


def names() -> tuple[str, ...]:
    """The names of the papers' models; patterns such as `rnn-<layers>-<hidden>` allow more."""
    return tuple(sorted((*FIXED, *PUBLISHED)))


def entry(name: str) -> Entry:
    """What a model is, where it comes from and its usual batch size."""
    return _resolve(name).entry


def entries() -> tuple[Entry, ...]:
    """The entries of all `names()`."""
    return tuple(entry(name) for name in names())


def load(
    name: str,
    *,
    batch_size: int | None = None,
    small: bool = False,
    device: str | torch.device = "meta",
) -> Workload:
    """One training step of a model, on a device; on "meta" (the default) nothing is allocated.

    `small` selects a tiny configuration of the same structure. Weights and batch come from a fixed
    seed; the caller's random state does not change.
    """
    return _make(_resolve(name), batch_size, small, device)


def gpt(
    num_layers: int,
    *,
    width: int = 768,
    heads: int | None = None,
    batch_size: int = 8,
    sequence: int = 1024,
    vocabulary: int = 50257,
    device: str | torch.device = "meta",
) -> Workload:
    """A GPT of any size, as one training step; without `heads`, each has 64 channels.

    >>> zoo.gpt(192, width=1024).capture()
    >>> zoo.gpt(96, width=12288, heads=96, batch_size=16, sequence=2048)      # GPT-3
    """
    name = f"gpt-{num_layers}-{width}"
    sizes = {"num_layers": num_layers, "width": width, "sequence": sequence}
    for label, size in (sizes | {"vocabulary": vocabulary}).items():
        if type(size) is not int or size < 1:
            raise InvalidWorkload(f"zoo.gpt: {label}={size!r} is not an integer of at least 1")
    heads = max(1, width // 64) if heads is None else heads
    if type(heads) is not int or heads < 1 or width % heads:
        raise InvalidWorkload(
            f"zoo.gpt: width={width} does not divide into heads={heads!r}; "
            "give a number of heads that divides the width"
        )
    recipe = sequences.gpt(
        name, num_layers, width, heads, length=sequence, vocabulary=vocabulary, source="by sizes"
    )
    return _make(recipe, batch_size, False, device)


def dlrm(
    num_tables: int,
    *,
    rows: int,
    width: int = 64,
    batch_size: int = 256,
    device: str | torch.device = "meta",
) -> Workload:
    """A recommender (DLRM) of any size, as one training step with momentum.

    >>> zoo.dlrm(6, rows=80_000).capture()
    """
    for label, size in {"num_tables": num_tables, "rows": rows, "width": width}.items():
        if type(size) is not int or size < 1:
            raise InvalidWorkload(f"zoo.dlrm: {label}={size!r} is not an integer of at least 1")
    return _make(features.sized_dlrm(num_tables, rows, width), batch_size, False, device)


def _make(
    recipe: Recipe, batch_size: int | None, small: bool, device: str | torch.device
) -> Workload:
    build, make_batch = recipe.small if small else recipe.full
    if batch_size is None:
        batch_size = SMALL_BATCH if small else recipe.batch_size
    place = _check(recipe.name, batch_size, device)
    draw = RandomTensors(device=place, generator=torch.Generator(device="cpu").manual_seed(SEED))
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []), place:
        if place.type != "meta":
            torch.manual_seed(SEED)
        model = build()
    optimizer, options = recipe.optimizer
    return Workload(
        name=recipe.name,
        model=model,
        loss_fn=recipe.loss_fn,
        batch=make_batch(batch_size, draw),
        optimizer=optimizer,
        optimizer_options=dict(options),
    )


def _check(name: str, batch_size: int, device: str | torch.device) -> torch.device:
    if type(batch_size) is not int or not 1 <= batch_size <= MAX_BATCH_SIZE:
        raise InvalidWorkload(
            f"zoo model {name!r}: batch_size={batch_size!r} is not an integer from 1 to "
            f"{MAX_BATCH_SIZE:,}"
        )
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidWorkload(
            f"zoo model {name!r}: device={device!r} is not a PyTorch device; "
            'try "meta", "cpu" or "cuda:0"'
        ) from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InvalidWorkload(
            f"zoo model {name!r}: device={str(device)!r}, but PyTorch finds no CUDA device here; "
            'try "meta" or "cpu"'
        )
    return place


def _resolve(name: str) -> Recipe:
    spelled = name.strip().lower()
    for pattern, make in PATTERNS:
        match = re.fullmatch(pattern, spelled)
        if match:
            numbers = [_number(text) for text in match.groups()]
            recipe = make(*numbers) if all(numbers) else None
            if recipe is not None:
                return recipe
    by_letters = {_letters(known): recipe for known, recipe in FIXED.items()}
    recipe = by_letters.get(_letters(spelled))
    if recipe is None:
        raise UnknownModel(_unknown(name, spelled))
    return recipe


def _number(text: str) -> int:
    return int(text[:-1]) * 1024 if text.endswith("k") else int(text)


def _letters(name: str) -> str:
    return re.sub(r"[-_ ]", "", name)


def _unknown(name: str, spelled: str) -> str:
    close: Sequence[str] = difflib.get_close_matches(spelled, names(), n=4, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "no name is similar."
    return (
        f"the zoo has no model {name!r}: {hint} zoo.names() lists all; other sizes: "
        "wresnet-<50|101|152>-<width>, rnn-<layers>-<hidden>, brnn-<layers>-<hidden> "
        "(hidden as 8k or 1024), nasnet-<R>, inception-<scale>, transformer-<hidden>, "
        "gpt-<layers>-<width>, llama-<8|70>b-<layers>, rnnlm-<steps>"
    )
