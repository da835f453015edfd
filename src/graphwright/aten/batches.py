"""The example batch: which tensors a step is given, under which names.

inputs=x                inputs.0                   model(x)
inputs=(x, y)           inputs.0, inputs.1         model(x, y)
inputs={"a": x}         inputs.a                   model(a=x)
targets=t               targets.0                  loss_fn(output, t)
nested                  inputs.0.1, inputs.a.b     passed as it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from graphwright.errors import InvalidBatch

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
    if isinstance(tree, torch.Tensor):
        yield f"{prefix}.0", tree
    elif isinstance(tree, list):
        yield from _walk(f"{prefix}.0", tree)
    else:
        yield from _walk(prefix, tree)


def _walk(path: str, tree: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _walk(f"{path}.{key}", value)
    elif isinstance(tree, (tuple, list)):
        for index, value in enumerate(tree):
            yield from _walk(f"{path}.{index}", value)


def refuse_arrays(path: str, tree: Any) -> None:
    """Raise where a batch holds an array of NumPy, which would be taken for a plain argument."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            refuse_arrays(f"{path}.{key}", value)
    elif isinstance(tree, (tuple, list)):
        for index, value in enumerate(tree):
            refuse_arrays(f"{path}.{index}", value)
    elif type(tree).__module__ == "numpy" and hasattr(tree, "shape"):
        raise InvalidBatch(
            f"{path} is a NumPy {type(tree).__name__} of {tree.dtype}; convert it with "
            "torch.from_numpy"
        )


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """Return the same structure with each tensor replaced."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tensors(function, value) for value in tree)
    return tree


def map_named(function: Callable[[str, torch.Tensor], torch.Tensor], prefix: str, tree: Any) -> Any:
    """Return the same structure with each tensor replaced, by name; one there twice has two."""
    names = (name for name, _ in named_tensors(prefix, tree))
    return map_tensors(lambda tensor: function(next(names), tensor), tree)


def call(model: Callable[..., Any], inputs: Any) -> Any:
    """Call the model as the form of its inputs says."""
    if isinstance(inputs, tuple):
        return model(*inputs)
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(inputs)


def _describe(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
