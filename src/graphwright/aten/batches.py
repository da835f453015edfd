"""The example batch: which tensors a step is given, under which names.

inputs=x                inputs.0                   model(x)
inputs=(x, y)           inputs.0, inputs.1         model(x, y)
inputs={"a": x}         inputs.a                   model(a=x), any mapping
inputs=Sample(a=x)      inputs.a                   model(Sample(a=x)), a dataclass or named tuple
targets=t               targets.0                  loss_fn(output, t)
nested                  inputs.0.1, inputs.a.b     passed as it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import torch

from graphwright.errors import InvalidBatch

Plain = bool | int | float | str
"""What a batch may hold beside tensors and is part of the graph."""
BatchDim = int | Mapping[str, int | None]
"""The dim of samples in all tensors of a batch, or by name (0 for others; None: it has none)."""


def split_batch(batch: Any, *, has_targets: bool) -> tuple[Any, Any]:
    """Return inputs and targets of a training batch."""
    if batch is None:
        raise InvalidBatch(
            "a training step needs an example batch: gw.capture(model, loss_fn, batch=(inputs, "
            "targets)); for inference give inputs=..."
        )
    if not has_targets:
        return batch, ()
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InvalidBatch(
            f"batch has to be (inputs, targets), not {_describe(batch)}; without loss_fn, batch is "
            "the model's inputs"
        )
    return batch[0], batch[1]


def named_tensors(prefix: str, tree: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of inputs or targets with their names."""
    alone = isinstance(tree, (torch.Tensor, list))
    yield from _walk(f"{prefix}.0" if alone else prefix, tree)


def _walk(path: str, tree: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(tree, torch.Tensor):
        yield path, tree
    for key, value in _parts(tree):
        yield from _walk(f"{path}.{key}", value)


def _parts(tree: Any) -> list[tuple[Any, Any]]:
    """What a container holds, by key; nothing for all that is no container."""
    if isinstance(tree, Mapping):
        return list(tree.items())
    if _is_named_tuple(tree):
        return list(zip(tree._fields, tree, strict=True))
    if isinstance(tree, (tuple, list)):
        return list(enumerate(tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return [(field.name, getattr(tree, field.name, None)) for field in fields(tree)]
    return []


def _is_named_tuple(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def named_arguments(inputs: Any, targets: Any) -> dict[str, Plain]:
    """The numbers, flags and words beside the tensors of a batch, by name."""
    return {**dict(_arguments("inputs", inputs)), **dict(_arguments("targets", targets))}


def _arguments(path: str, tree: Any) -> Iterator[tuple[str, Plain]]:
    if isinstance(tree, Plain) and not isinstance(tree, Enum):
        yield path, tree
    for key, value in _parts(tree):
        yield from _arguments(f"{path}.{key}", value)


def refuse_arrays(path: str, tree: Any) -> None:
    """Raise where a batch holds an array of NumPy, which would be taken for a plain argument."""
    if type(tree).__module__ == "numpy" and hasattr(tree, "shape"):
        raise InvalidBatch(
            f"{path} is a NumPy {type(tree).__name__} of {tree.dtype}; convert it with "
            "torch.from_numpy"
        )
    for key, value in _parts(tree):
        refuse_arrays(f"{path}.{key}", value)


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """Return the same structure with each tensor replaced."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    before = _parts(tree)
    parts = {key: map_tensors(function, value) for key, value in before}
    return tree if all(parts[key] is value for key, value in before) else _rebuilt(tree, parts)


def _rebuilt(tree: Any, parts: dict[Any, Any]) -> Any:
    """A container of the same type that holds other parts."""
    if type(tree) is dict:
        return parts
    if isinstance(tree, (tuple, list)):
        make = getattr(tree, "_make", type(tree))  # a named tuple's way
        return make(parts.values())
    try:
        made = copy(tree)
        if isinstance(tree, Mapping):
            for key, value in parts.items():
                made[key] = value
        else:
            for key, value in parts.items():
                object.__setattr__(made, key, value)
    except Exception:  # a mapping that cannot be written
        return parts
    return made


def map_named(function: Callable[[str, torch.Tensor], torch.Tensor], prefix: str, tree: Any) -> Any:
    """Return the same structure with each tensor replaced, by name; one there twice has two."""
    names = (name for name, _ in named_tensors(prefix, tree))
    return map_tensors(lambda tensor: function(next(names), tensor), tree)


def call(model: Callable[..., Any], inputs: Any) -> Any:
    """Call the model as the form of its inputs says."""
    if isinstance(inputs, tuple) and not _is_named_tuple(inputs):
        return model(*inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(inputs)


def own_loss(output: Any) -> Any:
    """The loss that a model returns by itself: alone, or as the `loss` of what it returns."""
    if isinstance(output, Mapping):
        return output.get("loss", output)
    return output if isinstance(output, torch.Tensor) else getattr(output, "loss", output)


def _describe(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
