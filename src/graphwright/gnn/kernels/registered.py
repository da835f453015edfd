"""The kernels as PyTorch operators, so that `gw.capture` sees each as one node of a step's graph.

    graphwright::message_sum        what `choice.contract` computes
    graphwright::message_extreme    what `choice.extreme` computes

`describe.library.messages` describes them. Their structure is two tensors, the ends of the edges:
what kernels need beyond them (rows sorted by an end) is made once for each pair and kept as long as
both live. A part of the rows, which begins at row `first`, keeps the edges that it needs alone.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from graphwright.gnn.kernels import choice
from graphwright.gnn.kernels.broadcast import Shape
from graphwright.gnn.storage import Relation, rows_from

_KEPT = 64
"""Relations that are kept at once."""

_LIBRARY = torch.library.Library("graphwright", "FRAGMENT")
_CALL = (
    "Tensor src, Tensor dst, Tensor a, Tensor? b, str op, str a_end, str b_end, {}, SymInt[] size, "
    "SymInt first"
)
_MIRRORED = {"u": "v", "v": "u", "e": "e"}


def is_recorded(*tensors: Tensor | None) -> bool:
    """Whether any of some tensors stands for values that somebody records."""
    return any(isinstance(x, (FakeTensor, FunctionalTensor)) for x in tensors)


def contract(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Tensor:  # fmt: skip
    """`choice.contract`, or one node of the graph that is recorded."""
    if not is_recorded(a, b):
        return choice.contract(relation, op, a, a_end, b, b_end, out_end, out_shape)
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[out_end]
    made: Tensor = torch.ops.graphwright.message_sum(
        *relation.coo, a, b, op, a_end, b_end, out_end, [rows, *out_shape], 0
    )
    return made


def extreme(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    least: bool, out_shape: Shape,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`choice.extreme`, or one node of the graph that is recorded."""
    if not is_recorded(a, b):
        return choice.extreme(relation, op, a, a_end, b, b_end, least, out_shape)
    made: tuple[Tensor, Tensor] = torch.ops.graphwright.message_extreme(
        *relation.coo, a, b, op, a_end, b_end, least, [relation.num_dst, *out_shape], 0
    )
    return made


def message_sum(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, op: str, a_end: str, b_end: str,
    out_end: str, size: list[int], first: int,
) -> Tensor:  # fmt: skip
    """Sum the messages at the rows from `first` on, or give one for each edge."""
    if out_end == "u":  # the same, seen from the other end
        src, dst, out_end = dst, src, "v"
        a_end, b_end = _MIRRORED[a_end], _MIRRORED[b_end]
    rows = None if out_end == "e" else (first, size[0])
    relation = _relation(src, dst, rows, (a, a_end), (b, b_end))
    return choice.contract(relation, op, a, a_end, b, b_end, out_end, tuple(size[1:]))


def message_extreme(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, op: str, a_end: str, b_end: str,
    least: bool, size: list[int], first: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The extreme message of each row from `first` on, and its edge."""
    relation = _relation(src, dst, (first, size[0]), (a, a_end), (b, b_end))
    out, chosen = choice.extreme(relation, op, a, a_end, b, b_end, least, tuple(size[1:]))
    return out, chosen.long()


_Key = tuple[Any, ...]
_relations: OrderedDict[_Key, tuple[Any, Any, Any, Relation]] = OrderedDict()


def _relation(
    src: Tensor, dst: Tensor, rows: tuple[int, int] | None, *operands: tuple[Tensor | None, str]
) -> Relation:
    """The relation for a call: of all edges, or of those into some rows."""
    counts = {end: len(x) for x, end in operands if x is not None}
    if "u" not in counts:  # not read, and in a part of the edges of another length
        src = dst
    elif rows is None and "v" not in counts:
        dst = src
    key = (id(src), id(dst), rows, *(counts.get(end, 0) for end in "uve"))
    versions = (src._version, dst._version)
    kept = _relations.get(key)
    if kept is not None and kept[0]() is src and kept[1]() is dst and kept[2] == versions:
        _relations.move_to_end(key)
        return kept[3]
    for ends, end in ((src, "u"), (dst, "v")):
        if end in counts and (rows is None or end == "u"):
            _check_range(ends, counts[end])
    if rows is not None:
        made = rows_from(src, dst, counts.get("u", 0), *rows)
    elif counts.keys() == {"e"}:
        edges = torch.arange(counts["e"], device=src.device)
        made = Relation(num_src=len(edges), num_dst=len(edges), made_coo=(edges, edges))
    else:
        num_src, num_dst = (counts.get(a, counts.get(b, 0)) for a, b in ("uv", "vu"))
        made = Relation(num_src=num_src, num_dst=num_dst, made_coo=(src, dst))
    gone = lambda _, kept=_relations: kept.pop(key, None)  # also while the interpreter ends
    _relations[key] = weakref.ref(src, gone), weakref.ref(dst, gone), versions, made
    while len(_relations) > _KEPT:
        _relations.popitem(last=False)
    return made


def _check_range(ends: Tensor, count: int) -> None:
    if len(ends):
        low, high = (int(end) for end in torch.aminmax(ends))
        if low < 0 or high >= count:
            raise IndexError(f"ends of edges go from {low} to {high}, but there are {count} rows")


def _like_sum(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, op: str, a_end: str, b_end: str,
    out_end: str, size: list[int], first: int,
) -> Tensor:  # fmt: skip
    return a.new_empty(size)


def _like_extreme(
    src: Tensor, dst: Tensor, a: Tensor, b: Tensor | None, op: str, a_end: str, b_end: str,
    least: bool, size: list[int], first: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return a.new_empty(size), a.new_empty(size, dtype=torch.int64)


def _register() -> None:
    for kernel, like, own, results in (
        (message_sum, _like_sum, "str out_end", "Tensor"),
        (message_extreme, _like_extreme, "bool least", "(Tensor, Tensor)"),
    ):
        name = kernel.__name__
        _LIBRARY.define(f"{name}({_CALL.format(own)}) -> {results}")
        _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"graphwright::{name}", like, lib=_LIBRARY)


_register()
