"""What can go wrong with a graph and its features. A class's docstring is its help page.

`DGLError` is the base class, under DGL's own name, so that code written for DGL catches it.
"""

from __future__ import annotations

from graphwright.errors import GraphwrightError


class DGLError(GraphwrightError):
    """A graph was used in a way that it does not allow.

    The message names the field, the type or the ids at fault, and the sizes.
    """


class InvalidIds(DGLError):
    """Node or edge ids are out of range, of the wrong dtype, or on another device.

    Ids are integers from 0 to the count less one, of the graph's own type (`g.idtype`) on the
    graph's own device (`g.device`). Convert the graph with `g.int()`, `g.long()` or `g.to(device)`,
    or the ids with `ids.to(g.idtype)`.
    """


class UnknownType(DGLError):
    """A node or edge type is not one of the graph's, or names several of them.

    `g.ntypes` and `g.canonical_etypes` list the types. Where several edge types have the same name,
    give the triplet (source type, edge type, destination type).
    """


class MissingFeature(DGLError, KeyError):
    """A field name has no feature. The message lists the fields that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


class FeatureMismatch(DGLError):
    """A feature does not fit: its length, shape, type or device is not what is needed.

    The first dimension of a feature is the number of nodes or edges that it belongs to; further
    dimensions are broadcast by NumPy's rules where two features meet.
    """


class InvalidFunction(DGLError):
    """A message, reduce or apply function is not one that can be called here, or returned nonsense.

    A user-defined function returns a dictionary from field names to tensors, with one row for each
    node or edge that it was given. A built-in is made by a function of `dgl.function`.
    """


class ZeroInDegree(DGLError):
    """A layer met nodes without in-edges, whose output would be invalid.

    Add self-loops (`g = dgl.add_self_loop(g)`), or say that zeros are right with
    `allow_zero_in_degree=True`.
    """


class CyclicGraph(DGLError):
    """A topological order was asked of a graph with a cycle; the message has nodes of one."""
