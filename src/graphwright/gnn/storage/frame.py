"""The features of the nodes or edges of one type: named columns with one row for each.

A column may be a selection of another's rows that nothing has read yet (`Column.rows`): a subgraph
costs the features that are used, not all. Columns hold arrays of any framework that
`graphwright.gnn.kernels` knows; a frame only asks for their length, and for rows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.storage.errors import FeatureMismatch, MissingFeature

Initializer = Callable[..., Any]


def zero_initializer(
    shape: tuple[int, ...], dtype: torch.dtype, ctx: Any, id_range: Any = None
) -> Tensor:
    """Zeros: what new rows hold unless the graph was told otherwise."""
    return torch.zeros(shape, dtype=dtype, device=ctx)


@dataclass(slots=True, eq=False)
class Column:
    """An array, or rows of one that have not been taken, or moved to a device, yet."""

    values: Any
    rows: Tensor | None = None
    device: torch.device | None = None

    def read(self) -> Any:
        """The array itself; a pending selection or move is made now, once."""
        if self.rows is not None:
            self.values, self.rows = take_rows(self.values, self.rows), None
        if self.device is not None:
            self.values, self.device = self.values.to(self.device, non_blocking=True), None
        return self.values

    def select(self, rows: Tensor) -> Column:
        """A selection of rows, made when it is first read."""
        waiting = self.rows is not None or self.device is not None
        return Column(self.read() if waiting else self.values, rows)


class Frame(MutableMapping[str, Any]):
    """Columns of one length by name. Assigning a column of another length is an error."""

    __slots__ = ("columns", "initializers", "num_rows", "what")

    def __init__(
        self, num_rows: int, columns: Mapping[str, Column] | None = None, what: str = "node"
    ) -> None:
        self.num_rows, self.what = num_rows, what
        self.columns: dict[str, Column] = dict(columns or {})
        self.initializers: dict[str | None, Initializer] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise MissingFeature(
                f"no {self.what} feature '{name}'; the fields are {sorted(self.columns)}"
            )
        return self.columns[name].read()

    def __setitem__(self, name: str, values: Any) -> None:
        if not hasattr(values, "shape"):
            values = torch.as_tensor(values)
        if len(values.shape) == 0 or len(values) != self.num_rows:
            given = f"{len(values)}" if len(values.shape) else "a scalar"
            raise FeatureMismatch(
                f"Expect number of features to match number of {self.what}s. Got {given} rows in "
                f"field '{name}' for {self.num_rows} {self.what}s."
            )
        self.columns[name] = Column(values)

    def __delitem__(self, name: str) -> None:
        if name not in self.columns:
            raise MissingFeature(
                f"no {self.what} feature '{name}'; the fields are {sorted(self.columns)}"
            )
        del self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def copy(self) -> Frame:
        """The same columns in a frame of its own."""
        return self._with(self.num_rows, self.columns)

    def select(self, rows: Tensor, num_rows: int | None = None) -> Frame:
        """Some rows of every column."""
        chosen = {name: column.select(rows) for name, column in self.columns.items()}
        return self._with(len(rows) if num_rows is None else num_rows, chosen)

    def convert(self, to: Callable[[Any], Any]) -> Frame:
        """Every column changed by a function that keeps the number of rows."""
        return self._with(
            self.num_rows,
            {name: Column(to(column.read())) for name, column in self.columns.items()},
        )

    def put_rows(self, name: str, rows: Tensor, values: Any) -> None:
        """Set some rows of a column, which is made if it is new; other rows keep what they had."""
        if not hasattr(values, "shape"):
            values = torch.as_tensor(values)
        if len(values) != len(rows):
            raise FeatureMismatch(
                f"Expect number of features to match number of {self.what}s. Got {len(values)} "
                f"rows in field '{name}' for {len(rows)} {self.what}s."
            )
        if name not in self.columns:
            old = self._new_rows(name, values, self.num_rows)
        else:
            old = self[name]
            if tuple(old.shape[1:]) != tuple(values.shape[1:]):
                raise FeatureMismatch(
                    f"Cannot update rows of {self.what} feature '{name}' of scheme "
                    f"{tuple(old.shape[1:])} with values of scheme {tuple(values.shape[1:])}."
                )
            if isinstance(old, Tensor) and old.dtype != values.dtype:
                raise FeatureMismatch(
                    f"Cannot update rows of {self.what} feature '{name}' of type {old.dtype} with "
                    f"values of type {values.dtype}; convert them, or assign the whole column."
                )
        self.columns[name] = Column(put_rows(old, rows, values))

    def append(self, count: int, given: Mapping[str, Any] | None = None) -> None:
        """Add rows: those given, otherwise what the initializer says."""
        given = given or {}
        for name, values in given.items():
            if len(values) != count:
                raise FeatureMismatch(
                    f"Expect number of features to match number of {self.what}s. Got {len(values)} "
                    f"rows in field '{name}' for {count} new {self.what}s."
                )
        for name in {**self.columns, **given}:
            like = self[name] if name in self.columns else given[name]
            old = self[name] if name in self.columns else self._new_rows(name, like, self.num_rows)
            new = given[name] if name in given else self._new_rows(name, like, count)
            if old.shape[1:] != new.shape[1:]:
                raise FeatureMismatch(
                    f"{self.what} feature '{name}' has scheme {tuple(old.shape[1:])}, the new rows "
                    f"{tuple(new.shape[1:])}."
                )
            self.columns[name] = Column(torch.cat([old, new]))
        self.num_rows += count

    def _new_rows(self, name: str, like: Any, count: int) -> Any:
        make = self.initializers.get(name) or self.initializers.get(None) or zero_initializer
        shape = (count, *like.shape[1:])
        if isinstance(like, Tensor):
            return make(shape, like.dtype, like.device, slice(self.num_rows, self.num_rows + count))
        return zeros_like(like, shape)

    def _with(self, num_rows: int, columns: Mapping[str, Column]) -> Frame:
        made = Frame(num_rows, columns, self.what)
        made.initializers = dict(self.initializers)
        return made


def take_rows(values: Any, rows: Tensor) -> Any:
    """Rows of an array of any framework; PyTorch's follow its own device."""
    if isinstance(values, Tensor):
        return values[rows.to(values.device).long()]
    return values[rows.cpu().numpy()]


def put_rows(values: Any, rows: Tensor, new: Any) -> Any:
    """An array with some rows replaced; the one given is left as it was."""
    if isinstance(values, Tensor):
        return values.index_put((rows.to(values.device).long(),), new)
    namespace = type(values).__array_namespace__(values)
    places = np.arange(len(values))
    places[rows.cpu().numpy()] = len(values) + np.arange(len(new))
    return namespace.take(namespace.concat([values, new]), namespace.asarray(places), axis=0)


def zeros_like(values: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of another shape, in the framework of an array."""
    if isinstance(values, Tensor):
        return values.new_zeros(shape)
    return type(values).__array_namespace__(values).zeros(shape, dtype=values.dtype)
