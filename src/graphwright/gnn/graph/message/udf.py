"""What a user-defined function is given: a batch of edges, or of nodes with their mailbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from graphwright.gnn.storage import EdgeType, Frame, MissingFeature, take_rows


class Batch(Mapping[str, Any]):
    """Features of the rows of a batch, taken when they are read."""

    def __init__(self, frame: Mapping[str, Any], rows: Tensor | None) -> None:
        self._frame, self._rows = frame, rows
        self._taken: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if self._rows is None:
            return self._frame[name]
        if name not in self._taken:
            self._taken[name] = take_rows(self._frame[name], self._rows)
        return self._taken[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: object) -> bool:
        return name in self._frame


class Mailbox(dict[str, Any]):
    """Messages by name."""

    def __missing__(self, name: str) -> Any:
        raise MissingFeature(f"no message '{name}' in the mailbox; the messages are {list(self)}")


class EdgeBatch:
    """Edges with the features of their sources, destinations and their own."""

    def __init__(
        self, frames: tuple[Mapping[str, Any], Frame, Frame], ends: tuple[Tensor, Tensor],
        ids: Tensor, etype: EdgeType, whole: bool,
    ) -> None:  # fmt: skip
        src, dst, edge = frames
        self._ends, self._ids, self._etype = ends, ids, etype
        self.src = Batch(src, ends[0])
        self.dst = Batch(dst, ends[1])
        self.data = Batch(edge, None if whole else ids)

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sources, destinations and edge ids."""
        return (*self._ends, self._ids)

    def batch_size(self) -> int:
        """The number of edges."""
        return len(self._ids)

    def __len__(self) -> int:
        return self.batch_size()

    @property
    def canonical_etype(self) -> EdgeType:
        """The type of the edges."""
        return self._etype


class NodeBatch:
    """Nodes with their features and, in a reduction, the messages that they received.

    A message in `mailbox` has the shape (nodes, messages of each, ...). `mask` is None where all
    nodes of the batch have as many messages; in a padded batch it is True for real messages and
    False for the zeros behind them.
    """

    def __init__(
        self, frame: Mapping[str, Any], ids: Tensor, ntype: str | None = None,
        mailbox: Mapping[str, Any] | None = None, mask: Tensor | None = None, whole: bool = False,
    ) -> None:  # fmt: skip
        self._ids, self._ntype = ids, ntype
        self.data = Batch(frame, None if whole else ids)
        self.mailbox = None if mailbox is None else Mailbox(mailbox)
        self.mask = mask

    def nodes(self) -> Tensor:
        """The ids of the nodes."""
        return self._ids

    def batch_size(self) -> int:
        """The number of nodes."""
        return len(self._ids)

    def __len__(self) -> int:
        return self.batch_size()

    @property
    def ntype(self) -> str | None:
        """The type of the nodes."""
        return self._ntype
