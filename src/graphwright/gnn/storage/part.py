"""The edges into one worker's vertices, where other workers hold some of the sources.

    own      this worker's vertices, numbered from 0: destinations, and sources of `inner` edges
    halo     vertices of others with an edge into an own one: sources of `outer` edges

        inner   own  -> own          edges 0 to k - 1
        outer   halo -> own          edges k and up
        whole   own, halo -> own     all of them; halo vertices are numbered behind the own

To a layer, a `PartRelation` has as many sources as destinations: the own vertices, whose features
it is given. The kernels (`kernels.parts`) ask `halo` for the rows of the others. Degrees are those
in the whole graph.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from graphwright.gnn.storage.errors import DGLError
from graphwright.gnn.storage.relation import Compressed, Relation


class NotDistributable(DGLError):
    """A model does something that cannot be done on one worker's part of a graph.

    Layers that aggregate over in-edges can be distributed. What needs all vertices at once, such as
    a readout, or edges by their source cannot: do it before or after distributing, on the whole
    graph, and give the model its result as a feature.
    """


class Halo(Protocol):
    """How the rows of other workers' vertices come here, and gradients go back."""

    def begin(self, x: Tensor) -> Tensor:
        """Begin to send own rows that others need, and to receive the halo's; returns a token."""

    def finish(self, token: Tensor) -> Tensor:
        """The halo's rows, once they are there."""


class PartRelation(Relation):
    """The in-edges of one worker's vertices; see the module."""

    def __init__(
        self, *, whole: Relation, inner: Relation, outer: Relation, halo: Halo, out_degrees: Tensor
    ) -> None:
        size = whole.num_dst
        super().__init__(num_src=size, num_dst=size, made_coo=whole.coo, made_csc=whole.csc)
        self._whole, self._out_degrees = whole, out_degrees
        self.inner, self.outer, self.halo = inner, outer, halo

    @property
    def whole(self) -> Relation:
        return self._whole

    @property
    def csr(self) -> Compressed:
        return self.whole.csr

    @property
    def reverse(self) -> Relation:
        raise NotDistributable(
            "edges were reduced at their sources, and a worker has all edges into its vertices, "
            "not all out of them; compute it on the whole graph before distributing, and give it "
            "to the model as a feature"
        )

    def out_degrees(self) -> Tensor:
        return self._out_degrees

    def sources(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.halo.finish(self.halo.begin(x))])

    def find(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        return self.whole.find(edges)

    def take_edges(self, edges: Tensor) -> Relation:
        return self.whole.take_edges(edges)
