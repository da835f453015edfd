"""Refuse a model whose own code looks across vertices, before any worker starts.

    x - x.mean(0), F.batch_norm, softmax over vertices, attention over vertices, g.num_nodes()

On a worker these see its own vertices alone, and training goes on with other numbers. What passes
along edges does not: for graphs A and B without an edge between them,

    model(A and B together)  =  model(A), then model(B)

whatever the layers. This is tried on a few vertices of the user's graph in two halves, with their
features and a few of the edges into each, whose sources are taken from the same half. Dropout
is left out, and nn.BatchNorm1d, which workers compute together, normalises each row.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from graphwright.gnn.distributed.training.store import GraphStore
from graphwright.gnn.graph import DGLGraph, graph
from graphwright.gnn.storage import NotDistributable

_VERTICES, _IN_EDGES = 160, 8
"""Vertices that are tried, and edges into each, at most; two fifths of the vertices are in A."""
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_COARSE = 5e-2


def check_independence(
    model: nn.Module, store: GraphStore, features: str, *, modes: Sequence[bool]
) -> None:
    """Compare outputs on two graphs together and one by one, in training mode or not; see above.

    The model and the generators of random numbers stay as they are. A model that draws numbers
    in another way than by dropout cannot be compared, and is taken as it is.
    """
    count = min(_VERTICES, store.num_nodes)
    first = count * 2 // 5
    if not first:
        return
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    ranges = ((0, count), (0, first), (first, count))
    both, *halves = (_sample(store, low, high, first, count, device) for low, high in ranges)
    for is_training in modes:
        together = _outputs(model, both, features, is_training, 0)
        again = _outputs(model, both, features, is_training, 1)
        if together is None or again is None:
            continue
        tolerance = _TOLERANCE.get(together.dtype, _COARSE)
        drawn, largest = _compare(again, together)
        if drawn > 0.01 * tolerance * largest:
            continue
        rows = [_outputs(model, half, features, is_training, 0) for half in halves]
        if rows[0] is None or rows[1] is None:
            continue
        apart, largest = _compare(torch.cat([rows[0], rows[1]]), together)
        if apart > tolerance * largest:
            raise NotDistributable(
                "the model's output for a vertex depends on vertices that no edge leads from: "
                f"outputs on {count} vertices in two unconnected graphs, up to {largest:.3g}, "
                f"change by {apart:.3g} if each graph is given alone. On several workers it would "
                "see one worker's vertices. Look for means, norms, softmax or attention over dim 0,"
                " F.batch_norm, g.num_nodes(); use nn.BatchNorm1d or nn.LayerNorm, or compute it "
                "before as a feature. check=False leaves this check out"
            )


def _sample(
    store: GraphStore, low: int, high: int, first: int, count: int, device: torch.device
) -> DGLGraph:
    """Places low to high of `count` vertices spread over the graph, with edges in A and in B."""
    places = torch.arange(low, high)
    vertices = places * store.num_nodes // count
    starts = store.indptr[vertices].long()
    counts = (store.indptr[vertices + 1].long() - starts).clamp(max=_IN_EDGES)
    dst = torch.repeat_interleave(torch.arange(len(places)), counts)
    begins = torch.cumsum(counts, 0) - counts
    entries = torch.arange(len(dst)) + (starts - begins)[dst]
    sources = store.sources[entries].long()
    is_first = places[dst] < first
    begin = torch.where(is_first, 0, first)
    size = torch.where(is_first, first, count - first)
    src = torch.where(sources == vertices[dst], places[dst], begin + sources % size) - low
    ends = (src.to(store.indptr.dtype), dst.to(store.indptr.dtype))
    made = graph(ends, num_nodes=len(places)).to(device)
    edges = store.edge_ids[entries].long()
    for name, values in store.node.items():
        made.ndata[name] = values[vertices].to(device)
    for name, values in store.edge.items():
        made.edata[name] = values[edges].to(device)
    return made


@torch.no_grad()
def _outputs(
    model: nn.Module, g: DGLGraph, features: str, is_training: bool, seed: int
) -> Tensor | None:
    """A row for each vertex, of a copy of the model; None if it returns anything else."""
    own = copy.deepcopy(model)
    own.train(is_training)
    devices = [g.device] if g.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(0)
        for parameter in own.parameters():
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(0.0, 0.1)  # zeros would hide what they are multiplied with
        for module in own.modules():
            if type(module) is nn.BatchNorm1d:
                module.__class__ = _RowNorm
        torch.manual_seed(seed)
        with g.local_scope(), _WithoutDropout():
            outputs: Any = own(g, g.ndata[features])
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (g.num_nodes(),):
        return None
    return outputs


def _compare(one: Tensor, other: Tensor) -> tuple[float, float]:
    """The largest difference, and the largest number, where numbers are finite."""
    one, other = one.double(), other.double()
    finite = torch.isfinite(one) & torch.isfinite(other)
    apart = (one - other)[finite].abs()
    largest = float(other[finite].abs().max()) if len(apart) else 0.0
    if bool((torch.isfinite(one) != torch.isfinite(other)).any()):
        return float("inf"), largest
    return (float(apart.max()) if len(apart) else 0.0), largest


class _RowNorm(nn.BatchNorm1d):
    """Stands for a batch normalisation, without looking across rows."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 2 or (not self.training and self.running_mean is not None):
            return super().forward(input)
        return F.layer_norm(input, (self.num_features,), self.weight, self.bias, self.eps)


class _WithoutDropout(TorchFunctionMode):
    """Every dropout, of a module or a function, returns its input."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if "dropout" in getattr(func, "__name__", ""):
            return args[0] if args else options["input"]
        return func(*args, **options)
