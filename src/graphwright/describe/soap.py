"""Classify indices as Sample, Attribute or Parameter, as FlexFlow does (Jia's thesis, section 3.3).

The class of a split along an index is

    Parameter   if it cuts a parameter, or the gradient, state or new value of one
    Sample      else if the index runs over the samples of the batch
    Attribute   else (positions, pixels, channels of an activation)

The sample dims are derived too: they start at the batch dim of the step's inputs (0 by default) and
propagate through every node, since a split relates the dims of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from graphwright.describe.facts import node_splits
from graphwright.describe.splitting import Concat, Split
from graphwright.ir import Graph, Node, Role

Dims = frozenset[int]


class Soap(StrEnum):
    """The class of an index."""

    SAMPLE = "sample"
    ATTRIBUTE = "attribute"
    PARAMETER = "parameter"


def sample_dims(graph: Graph, batch_dim: int | Mapping[str, int] = 0) -> Mapping[str, Dims]:
    """For every tensor, the dims that run over samples.

    `batch_dim` is that dim of the step's inputs, for all or by name: 1 for time-major sequences.
    """
    if isinstance(batch_dim, int):
        return _sample_dims_known(graph, batch_dim)
    return _sample_dims(graph, batch_dim)


@lru_cache(maxsize=8)
def _sample_dims_known(graph: Graph, batch_dim: int) -> Mapping[str, Dims]:
    return _sample_dims(graph, batch_dim)


def _sample_dims(graph: Graph, batch_dim: int | Mapping[str, int]) -> Mapping[str, Dims]:
    samples: dict[str, Dims] = {name: frozenset() for name in graph.tensors}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        dim = batch_dim if isinstance(batch_dim, int) else batch_dim.get(name, 0)
        if tensor.role is Role.INPUT and dim < tensor.type.rank:
            samples[name] = frozenset({dim})
    for node in graph.nodes:
        for split in node_splits(graph, node):
            if _cuts(split, node, samples):
                for name, join in zip(node.outputs, split.joins, strict=True):
                    if isinstance(join, Concat):
                        samples[name] |= {join.dim}
    return MappingProxyType(samples)


def soap(split: Split, node: Node, graph: Graph, samples: Mapping[str, Dims]) -> Soap:
    """The class of the index that `split` cuts; `samples` comes from `sample_dims`."""
    concatenated = {
        name: join.dim
        for name, join in zip(node.outputs, split.joins, strict=True)
        if isinstance(join, Concat)
    }
    touched = [node.inputs[arg] for arg, _ in split.cut_dims] + list(concatenated)
    if any(name is not None and _of_parameter(graph, name) for name in touched):
        return Soap.PARAMETER
    if _cuts(split, node, samples) or any(dim in samples[n] for n, dim in concatenated.items()):
        return Soap.SAMPLE
    return Soap.ATTRIBUTE


def soap_of_call(split: Split) -> Soap:
    """The class of an index of one call outside of a graph.

    The first tensor counts as data with samples along dim 0, all others as parameters.
    """
    if any(arg > 0 for arg, _ in split.cut_dims):
        return Soap.PARAMETER
    return Soap.SAMPLE if (0, 0) in split.cut_dims else Soap.ATTRIBUTE


def _cuts(split: Split, node: Node, samples: Mapping[str, Dims]) -> bool:
    for arg, dim in split.cut_dims:
        name = node.inputs[arg]
        if name is not None and dim in samples[name]:
            return True
    return False


def _of_parameter(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    if tensor.role is Role.PARAMETER or tensor.role is Role.OPTIMIZER_STATE:
        return True
    return tensor.of is not None and graph.tensors[tensor.of].role is Role.PARAMETER
