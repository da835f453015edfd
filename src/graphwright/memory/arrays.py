"""A memory problem as arrays, for compiled code; lists of lists as a row of numbers with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import MemoryProblem

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ENDS = ("free", "kept", "home")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays:
    """The numbers of a problem; `written` says of each read whether it is changed in place."""

    duration: Ints
    over: Ints
    read_ptr: Ints
    reads: Ints
    written: Flags
    make_ptr: Ints
    makes: Ints
    nbytes: Ints
    out_time: Ints
    in_time: Ints
    begins_on_host: Flags
    ends: Ints
    is_written: Flags
    pred_ptr: Ints
    preds: Ints


def pack(problem: MemoryProblem) -> Arrays:
    """The arrays of a problem."""
    ops, storages = problem.operators, problem.storages
    read_ptr, reads = _rows([op.reads for op in ops])
    make_ptr, makes = _rows([op.makes for op in ops])
    pred_ptr, preds = _rows(problem.predecessors)
    changed = [s in op.writes for op in ops for s in op.reads]
    is_written = np.zeros(len(storages), np.bool_)
    is_written[[s for op in ops for s in op.writes]] = True
    return Arrays(
        duration=_ints(op.duration for op in ops),
        over=_ints(-1 if op.over is None else op.over for op in ops),
        read_ptr=read_ptr,
        reads=reads,
        written=np.array(changed, np.bool_),
        make_ptr=make_ptr,
        makes=makes,
        nbytes=_ints(s.nbytes for s in storages),
        out_time=_ints(s.out_time for s in storages),
        in_time=_ints(s.in_time for s in storages),
        begins_on_host=np.array([s.begins_on_host for s in storages], np.bool_),
        ends=_ints(ENDS.index(s.ends) for s in storages),
        is_written=is_written,
        pred_ptr=pred_ptr,
        preds=preds,
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _rows(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    bounds = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(each) for each in lists], out=bounds[1:])
    flat: list[Any] = [number for each in lists for number in each]
    return bounds, np.array(flat, np.int64)
