"""Typed edges: R-GCN and HGT over one graph with numbered types, and a layer for each edge type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import edge_softmax, gather_mm, gsddmm, gspmm, segment_mm
from graphwright.gnn.nn.convolution import propagate
from graphwright.gnn.nn.inputs import zeros_if
from graphwright.gnn.storage import DGLError, Relation

Activation = Callable[[Tensor], Tensor] | None


class TypedLinear(nn.Module):
    """A linear layer whose matrix depends on the type of each row.

    `regularizer` is None, "basis" (matrices are sums of `num_bases` shared ones) or "bdd" (they are
    block-diagonal, of `num_bases` blocks).
    """

    def __init__(
        self, in_size: int, out_size: int, num_types: int, regularizer: str | None = None,
        num_bases: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_size, self.out_size, self.num_types = in_size, out_size, num_types
        self.regularizer, self.num_bases = regularizer, num_bases or num_types
        if regularizer is None:
            self.W = nn.Parameter(torch.empty(num_types, in_size, out_size))
        elif regularizer == "basis":
            self.W = nn.Parameter(torch.empty(self.num_bases, in_size, out_size))
            self.coeff = nn.Parameter(torch.empty(num_types, self.num_bases))
        elif regularizer == "bdd":
            if in_size % self.num_bases or out_size % self.num_bases:
                raise DGLError(
                    f"Input and output sizes must be divisible by num_bases ({self.num_bases}). "
                    f"Got {in_size} and {out_size}."
                )
            block = (in_size // self.num_bases) * (out_size // self.num_bases)
            self.W = nn.Parameter(torch.empty(num_types, self.num_bases * block))
        else:
            raise DGLError(f'regularizer has to be "basis", "bdd" or None. Got {regularizer!r}.')
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        with torch.no_grad():
            self.W.uniform_(-1 / self.in_size**0.5, 1 / self.in_size**0.5)
            if self.regularizer == "basis":
                nn.init.xavier_uniform_(self.coeff, gain=nn.init.calculate_gain("relu"))

    def get_weight(self) -> Tensor:
        """The matrix of each type."""
        if self.regularizer == "basis":
            flat = self.coeff @ self.W.reshape(self.num_bases, -1)
            return flat.view(self.num_types, self.in_size, self.out_size)
        if self.regularizer == "bdd":
            count, rows = self.num_bases, self.in_size // self.num_bases
            blocks = self.W.view(self.num_types, count, rows, self.out_size // count)
            return torch.stack([torch.block_diag(*matrices) for matrices in blocks])
        return self.W

    def forward(self, x: Tensor, x_type: Tensor, sorted_by_type: bool = False) -> Tensor:
        if sorted_by_type:
            counts = torch.bincount(x_type.long(), minlength=self.num_types)
            return segment_mm(x, self.get_weight(), counts)
        return gather_mm(x, self.get_weight(), idx_b=x_type)


class RelGraphConv(nn.Module):
    """R-GCN: the sum over types of a matrix of the type times the sum of neighbours by it.

    Neighbours of a type are summed first, and the sums multiplied by the type's matrix: messages
    are not stored.
    """

    def __init__(
        self, in_feat: int, out_feat: int, num_rels: int, regularizer: str | None = None,
        num_bases: int | None = None, bias: bool = True, activation: Activation = None,
        self_loop: bool = True, dropout: float = 0.0, layer_norm: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.linear_r = TypedLinear(in_feat, out_feat, num_rels, regularizer, num_bases)
        self.num_rels, self.activation = num_rels, activation
        self.h_bias = zeros_if(bias, out_feat)
        self.loop_weight: nn.Parameter | None = None
        if self_loop:
            self.loop_weight = nn.Parameter(torch.empty(in_feat, out_feat))
            nn.init.xavier_uniform_(self.loop_weight, gain=nn.init.calculate_gain("relu"))
        self.layer_norm_weight = nn.LayerNorm(out_feat) if layer_norm else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, g: DGLGraph, feat: Tensor, etypes: Tensor, norm: Tensor | None = None, *,
        presorted: bool = False,
    ) -> Tensor:  # fmt: skip
        relation = g.relation()
        if len(etypes) != relation.num_edges:
            raise DGLError(
                f"Expect one type for each of {relation.num_edges} edges. Got {len(etypes)}."
            )
        matrices = self.linear_r.get_weight()
        out = feat.new_zeros(relation.num_dst, matrices.shape[-1])
        sources = relation.sources(feat)
        for kind in torch.unique(etypes).tolist():
            edges = (etypes == kind).nonzero().reshape(-1)
            part, rows = _into_touched(relation.whole, edges.to(relation.idtype))
            weight = None if norm is None else norm.reshape(-1)[edges]
            out = out.index_add(0, rows, propagate(part, sources, weight) @ matrices[kind])
        if self.layer_norm_weight is not None:
            out = self.layer_norm_weight(out)
        if self.h_bias is not None:
            out = out + self.h_bias
        if self.loop_weight is not None:
            out = out + feat[: relation.num_dst] @ self.loop_weight
        if self.activation is not None:
            out = self.activation(out)
        return self.dropout(out)


class WeightBasis(nn.Module):
    """`num_outputs` weights of one shape, each a sum of the same `num_bases` ones."""

    def __init__(self, shape: Sequence[int], num_bases: int, num_outputs: int) -> None:
        super().__init__()
        self.shape, self.num_bases, self.num_outputs = tuple(shape), num_bases, num_outputs
        self.weight = nn.Parameter(torch.empty(num_bases, *shape))
        self.w_comp = nn.Parameter(torch.empty(num_outputs, num_bases))
        nn.init.xavier_uniform_(self.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.w_comp, gain=nn.init.calculate_gain("relu"))

    def forward(self) -> Tensor:
        return torch.tensordot(self.w_comp, self.weight, 1)


class HGTConv(nn.Module):
    """Heterogeneous graph transformer: attention with matrices by types of nodes and of edges.

    Keys and values are those of sources, times a matrix of the edge's type; so they are multiplied
    once for each source and type, and scores and sums are those of one type after another.
    """

    def __init__(
        self, in_size: int, head_size: int, num_heads: int, num_ntypes: int, num_etypes: int,
        dropout: float = 0.2, use_norm: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_size, self.head_size, self.num_heads = in_size, head_size, num_heads
        self.num_etypes, self.use_norm = num_etypes, use_norm
        width = head_size * num_heads
        self.linear_k = TypedLinear(in_size, width, num_ntypes)
        self.linear_q = TypedLinear(in_size, width, num_ntypes)
        self.linear_v = TypedLinear(in_size, width, num_ntypes)
        self.linear_a = TypedLinear(width, width, num_ntypes)
        by_type = lambda: TypedLinear(head_size, head_size, num_etypes)
        self.relation_pri = nn.ParameterList(torch.ones(num_etypes) for _ in range(num_heads))
        self.relation_att = nn.ModuleList(by_type() for _ in range(num_heads))
        self.relation_msg = nn.ModuleList(by_type() for _ in range(num_heads))
        self.skip = nn.Parameter(torch.ones(num_ntypes))
        self.drop = nn.Dropout(dropout)
        if use_norm:
            self.norm = nn.LayerNorm(width)
        self.residual_w: nn.Parameter | None = None
        if in_size != width:
            self.residual_w = nn.Parameter(torch.empty(in_size, width))
            nn.init.xavier_uniform_(self.residual_w)

    def forward(
        self, g: DGLGraph, x: Tensor, ntype: Tensor, etype: Tensor, *, presorted: bool = False
    ) -> Tensor:
        if len(etype) != g.num_edges() or len(ntype) != len(x):
            raise DGLError(
                f"Expect one type for each of {len(x)} nodes and {g.num_edges()} edges. Got "
                f"{len(ntype)} and {len(etype)}."
            )
        relation, heads = g.relation(), (-1, self.num_heads, self.head_size)
        x_dst, type_dst = x[: relation.num_dst], ntype[: relation.num_dst]
        typed = lambda layer, x, kinds: layer(x, kinds, presorted)
        keys = relation.sources(typed(self.linear_k, x, ntype)).view(heads)
        values = relation.sources(typed(self.linear_v, x, ntype)).view(heads)
        queries = typed(self.linear_q, x_dst, type_dst).view(heads)
        to_keys, to_values = _by_head(self.relation_att), _by_head(self.relation_msg)
        priority = torch.stack(list(self.relation_pri)) / self.head_size**0.5  # heads x types
        whole = relation.whole
        groups = []
        for kind in torch.unique(etype).tolist():
            edges = (etype == kind).nonzero().reshape(-1)
            groups.append((kind, edges, whole.take_edges(edges.to(whole.idtype))))
        scores = queries.new_zeros(whole.num_edges, self.num_heads, 1)
        for kind, edges, part in groups:
            moved = torch.einsum("nhi,hio->nho", keys, to_keys[:, kind])
            score = gsddmm(part, "dot", (moved, "u"), (queries, "v"))
            scores = scores.index_copy(0, edges, score * priority[:, kind].view(1, -1, 1))
        attention = edge_softmax(whole, scores)
        out = torch.zeros_like(queries)
        for kind, edges, part in groups:
            moved = torch.einsum("nhi,hio->nho", values, to_values[:, kind])
            out = out + gspmm(part, "mul", "sum", (moved, "u"), (attention[edges], "e"))
        kept = self.skip[type_dst.long()].sigmoid().unsqueeze(-1)
        made = self.drop(typed(self.linear_a, out.flatten(1), type_dst))
        before = x_dst if self.residual_w is None else x_dst @ self.residual_w
        made = made * kept + before * (1 - kept)
        return self.norm(made) if self.use_norm else made


def _by_head(layers: nn.ModuleList) -> Tensor:
    """The matrices of all heads and types."""
    matrices: Any = [layer.get_weight() for layer in layers]  # type: ignore[operator]
    return torch.stack(matrices)


def _into_touched(relation: Relation, edges: Tensor) -> tuple[Relation, Tensor]:
    """Some edges, into the destinations that they reach, and these."""
    src, dst = relation.find(edges)
    rows, places = torch.unique(dst, return_inverse=True)
    coo = (src, places.to(src.dtype))
    return Relation(num_src=relation.num_src, num_dst=len(rows), made_coo=coo), rows.long()


class HeteroGraphConv(nn.Module):
    """A layer for each edge type; what they give one node type is summed, or aggregated otherwise.

    `aggregate` is "sum", "mean", "max", "min", "stack" or a function of the list of results and the
    name of the node type.
    """

    def __init__(self, mods: Mapping[Any, nn.Module], aggregate: Any = "sum") -> None:
        super().__init__()
        self.mods = nn.ModuleDict({_key(etype): layer for etype, layer in mods.items()})
        for layer in self.mods.values():
            allow = getattr(layer, "set_allow_zero_in_degree", None)
            if callable(allow):
                allow(True)
        self.aggregate = aggregate

    def forward(
        self, g: DGLGraph, inputs: Any, mod_args: Mapping[Any, Any] | None = None,
        mod_kwargs: Mapping[Any, Any] | None = None,
    ) -> dict[str, Tensor]:  # fmt: skip
        args, kwargs = mod_args or {}, mod_kwargs or {}
        if isinstance(inputs, tuple):
            sources, destinations = inputs
        elif g.is_block:
            sources = inputs
            destinations = {
                kind: x[: g.num_dst_nodes(kind)] for kind, x in inputs.items() if kind in g.dsttypes
            }
        else:
            sources = destinations = inputs
        results: dict[str, list[Tensor]] = {}
        for triplet in g.canonical_etypes:
            src, name, dst = triplet
            if src not in sources or dst not in destinations:
                continue
            layer = self._layer(triplet)
            if layer is None:
                continue
            pair = (sources[src], destinations[dst])
            made = layer(g[triplet], pair, *args.get(name, ()), **kwargs.get(name, {}))
            results.setdefault(dst, []).append(made)
        return {kind: self._joined(parts, kind) for kind, parts in results.items()}

    def _layer(self, triplet: tuple[str, str, str]) -> nn.Module | None:
        for key in (_key(triplet), _key(triplet[1])):
            if key in self.mods:
                return self.mods[key]
        return None

    def _joined(self, parts: list[Tensor], kind: str) -> Tensor:
        if callable(self.aggregate):
            return self.aggregate(parts, kind)
        stacked = torch.stack(parts, 1 if self.aggregate == "stack" else 0)
        match self.aggregate:
            case "stack":
                return stacked
            case "sum":
                return stacked.sum(0)
            case "mean":
                return stacked.mean(0)
            case "max":
                return stacked.max(0).values
            case "min":
                return stacked.min(0).values
        raise DGLError(f"Invalid cross type aggregator {self.aggregate!r}.")


class HeteroLinear(nn.Module):
    """A linear layer for each type."""

    def __init__(self, in_size: Mapping[Any, int], out_size: int, bias: bool = True) -> None:
        super().__init__()
        layers = {_key(kind): nn.Linear(size, out_size, bias) for kind, size in in_size.items()}
        self.linears = nn.ModuleDict(layers)

    def forward(self, feat: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        return {kind: self.linears[_key(kind)](x) for kind, x in feat.items()}


class HeteroEmbedding(nn.Module):
    """An embedding for each type."""

    def __init__(self, num_embeddings: Mapping[Any, int], embedding_dim: int) -> None:
        super().__init__()
        tables = {_key(kind): nn.Embedding(n, embedding_dim) for kind, n in num_embeddings.items()}
        self.embeds = nn.ModuleDict(tables)
        self._kinds = {_key(kind): kind for kind in num_embeddings}

    def reset_parameters(self) -> None:
        """Draw all embeddings anew."""
        for table in self.embeds.values():
            assert isinstance(table, nn.Embedding)
            nn.init.xavier_uniform_(table.weight)

    @property
    def weight(self) -> dict[Any, Tensor]:
        """The whole table of each type."""
        tables: Any = self.embeds
        return {self._kinds[key]: table.weight for key, table in tables.items()}

    def forward(self, input_ids: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        return {kind: self.embeds[_key(kind)](ids) for kind, ids in input_ids.items()}


def _key(etype: Any) -> str:
    name = str(etype)  # of a triplet as well: parameters have DGL's names
    name = name.replace(".", "_dot_")
    return f"{name}_" if hasattr(nn.ModuleDict, name) else name  # "to" is taken by torch
