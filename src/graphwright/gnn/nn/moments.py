"""Principal neighbourhood aggregation: several statistics of the messages side by side.

A message is M [x_u, x_v, x_e] = A x_u + B x_v + C x_e + b. Within a neighbourhood B x_v + b is the
same for all, so it is left out and added to sums and extremes afterwards; spreads do not depend on
it. The rest is reduced by fused kernels, and no message is stored. Odd moments of two neighbours
are zero but for rounding, which their roots make large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import Operand, gspmm, sum_edges
from graphwright.gnn.storage import DGLError, Relation

_TINY = 1e-30
"""Keeps roots of zero from having an infinite slope."""
_MOMENTS = {"moment3": 3, "moment4": 4, "moment5": 5}
AGGREGATORS = ("mean", "max", "min", "std", "var", "sum", *_MOMENTS)
SCALERS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "identity": lambda degree, delta: torch.ones_like(degree),
    "amplification": lambda degree, delta: (degree + 1).log() / delta,
    "attenuation": lambda degree, delta: delta / (degree + 1).log(),
}


class _Tower(nn.Module):
    """The statistics of one part of the features, for nodes: U [x, statistics x scalers]."""

    def __init__(
        self, in_size: int, out_size: int, aggregators: Sequence[str], scalers: Sequence[str],
        delta: float, dropout: float, edge_feat_size: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_size, self.delta = in_size, delta
        self.aggregators, self.scalers = tuple(aggregators), tuple(scalers)
        self.M = nn.Linear(2 * in_size + edge_feat_size, in_size)
        count = len(aggregators) * len(scalers) + 1
        self.U = nn.Linear(count * in_size, out_size)
        self.dropout = nn.Dropout(dropout)
        self.batchnorm = nn.BatchNorm1d(out_size)

    def forward(
        self, relation: Relation, x: Tensor, edge_feat: Tensor | None, norm: Tensor
    ) -> Tensor:
        matrix, size = self.M.weight, self.in_size
        u = x @ matrix[:, :size].T
        own = torch.addmm(self.M.bias, x, matrix[:, size : 2 * size].T)
        e = None if edge_feat is None else edge_feat @ matrix[:, 2 * size :].T
        degree = relation.in_degrees().to(x.dtype).unsqueeze(-1)
        some = degree > 0
        made = [torch.where(some, x, 0) for x in self._statistics(relation, u, e, own, degree)]
        joined = torch.cat(made, -1)
        # Without in-edges there is nothing to scale, and a factor might be infinite.
        factors = [torch.where(some, SCALERS[name](degree, self.delta), 0) for name in self.scalers]
        out = self.U(torch.cat([x, *(joined * factor for factor in factors)], -1)) * norm
        result: Tensor = self.dropout(self.batchnorm(out))
        return result

    def _statistics(
        self, relation: Relation, u: Tensor, e: Tensor | None, own: Tensor, degree: Tensor
    ) -> list[Tensor]:
        operands: tuple[Operand, ...] = ((u, "u"),) if e is None else ((u, "u"), (e, "e"))
        op = "copy" if e is None else "add"
        mean = gspmm(relation, op, "mean", *operands)
        at_least_one = degree.clamp(min=1)

        def moment(power: int) -> Tensor:
            central = lambda u, v, *e: (sum(e, u) - v) ** power
            return sum_edges(relation, central, u=u, v=mean, e=e) / at_least_one

        made = []
        for name in self.aggregators:
            match name:
                case "mean":
                    made.append(mean + own)
                case "sum":
                    made.append(mean * degree + own * degree)
                case "max" | "min":
                    made.append(gspmm(relation, op, name, *operands) + own)
                case "var":
                    made.append(moment(2))
                case "std":
                    made.append((moment(2) + _TINY).sqrt())
                case _:
                    power = _MOMENTS[name]
                    value = moment(power)
                    made.append(value.sign() * (value.abs() + _TINY) ** (1 / power))
        return made


class PNAConv(nn.Module):
    """Principal neighbourhood aggregation (Corso et al.).

    Each of `num_towers` parts of the features has its aggregators ("mean", "max", "min", "std",
    "var", "sum", "moment3" to "moment5") times scalers ("identity", "amplification",
    "attenuation"), over the root of the graph's number of nodes; a linear layer mixes the towers'
    results. `delta` is the mean of log(degree + 1)
    over the nodes of the training set.
    """

    def __init__(
        self, in_size: int, out_size: int, aggregators: Sequence[str], scalers: Sequence[str],
        delta: float, dropout: float = 0.0, num_towers: int = 1, edge_feat_size: int = 0,
        residual: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if in_size % num_towers or out_size % num_towers:
            raise DGLError(
                f"in_size and out_size must be divisible by num_towers ({num_towers}). Got "
                f"{in_size} and {out_size}."
            )
        for given, known in ((aggregators, AGGREGATORS), (scalers, tuple(SCALERS))):
            unknown = [name for name in given if name not in known]
            if unknown:
                raise DGLError(f"{unknown[0]!r} is none of {list(known)}")
        self.in_size, self.out_size, self.edge_feat_size = in_size, out_size, edge_feat_size
        self.tower_in_size = in_size // num_towers
        self.residual = residual and in_size == out_size
        self.towers = nn.ModuleList(
            _Tower(
                self.tower_in_size, out_size // num_towers, aggregators, scalers, delta, dropout,
                edge_feat_size,
            )
            for _ in range(num_towers)
        )  # fmt: skip
        self.mixing_layer = nn.Sequential(nn.Linear(out_size, out_size), nn.LeakyReLU())

    def forward(
        self, graph: DGLGraph, node_feat: Tensor, edge_feat: Tensor | None = None
    ) -> Tensor:
        if self.edge_feat_size > 0 and edge_feat is None:
            raise DGLError(f"a layer of {self.edge_feat_size} edge features needs edge_feat")
        relation, edges = graph.relation(), edge_feat if self.edge_feat_size else None
        parts = node_feat.split(self.tower_in_size, -1)
        sizes = graph.batch_num_nodes().long()
        norm = sizes.repeat_interleave(sizes).to(node_feat).pow(-0.5).unsqueeze(-1)
        towers = zip(self.towers, parts, strict=True)
        made = [tower(relation, x, edges, norm) for tower, x in towers]
        out: Tensor = self.mixing_layer(torch.cat(made, -1))
        return out + node_feat if self.residual else out
