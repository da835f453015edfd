"""How operators are written on dims that are not merged (see `unmerge`).

view                         merges: a form; splits again: the fine value itself
mm, mv                       matmul [.., k] x [k, j]                where the rows are merged
mm of a transposed matrix    tensordot over all leading dims        where what is summed over is merged
bmm                          matmul [.., i, k] x [.., k, j]         where the batch is merged
permute, unsqueeze, squeeze  the same of the fine dims
sum, amax, amin              over all dims of a merged one; without keepdim, where a view takes the 1 away
softmax, gather, embedding   along other dims than the merged ones
element-wise operators       where all inputs of full size are merged alike
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.capture.record.tape import Entry, Value
from graphwright.ir import Attr
from graphwright.rewrite.unmerge.merged import (
    Rule,
    Sizes,
    Unmerging,
    flat,
    is_elementwise,
    merges,
    refinement,
    root,
    start,
)

RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def _operands(entry: Entry) -> list[Value]:
    return [v for v in entry.inputs if v is not None]


def _apart(group: tuple[int, ...], size: int) -> tuple[int, ...]:
    """A dim's group, if it is worth while to keep it apart."""
    return group if merges(group) else (size,)


def _agreed(passing: Unmerging, values: Sequence[Value], shape: Sequence[int]) -> Sizes:
    """The groups in which all of the values have the dims of `shape`, with which they are aligned at the right."""
    sizes: list[tuple[int, ...]] = []
    rank = len(shape)
    for dim, size in enumerate(shape):
        groups = {
            passing.sizes(v)[dim - rank]
            for v in values
            if v.type.rank >= rank - dim
            and v.type.shape[dim - rank] == size > 1
            and not passing.is_uniform(v)
        }
        sizes.append(_apart(groups.pop(), size) if len(groups) == 1 else (size,))
    return tuple(sizes)


def _broadcast(passing: Unmerging, value: Value, sizes: Sizes, entry: Entry) -> Value:
    """A value in the dims of a result, of whose shape it may lack dims or have 1 in their place."""
    wanted: list[tuple[int, ...]] = []
    for size, group in zip(value.type.shape, sizes[len(sizes) - value.type.rank :], strict=True):
        if size != 1:
            wanted.append(group)
        else:  # leading dims of size 1 may be fewer
            wanted.append((1,) * (len(group) if any(n != 1 for n in flat(wanted)) else 1))
    return passing.shaped(value, tuple(wanted), entry)


def _any_apart(sizes: Sizes) -> bool:
    return any(len(group) > 1 for group in sizes)


# Views.


@rule("aten.view")
def _view(passing: Unmerging, entry: Entry) -> bool:
    (source,), (value,) = _operands(entry), entry.outputs
    form = passing.forms.get(source)
    fine = source if form is None else form.fine
    if fine.type.shape == value.type.shape:
        passing.vanish(entry, source, fine)
        return True
    entry.inputs = (root(fine),)
    sizes = refinement(fine.type.shape, value.type.shape) if value.type.numel else None
    if sizes is None or not any(map(merges, sizes)):
        return False
    passing.refine(entry, fine, sizes)
    return True


@rule("aten.permute")
def _permute(passing: Unmerging, entry: Entry) -> bool:
    (source,), (value,) = _operands(entry), entry.outputs
    dims: Sequence[int] = entry.attrs["dims"]  # type: ignore[assignment]
    if tuple(dims) == (1, 0):
        passing.transposed[value] = source
    sizes = passing.sizes(source)
    if source not in passing.forms:
        return False
    fine_dims = [n for d in dims for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    fine = passing.shaped(source, sizes, entry)
    return passing.write(
        entry, entry.op, [fine], {"dims": tuple(fine_dims)}, tuple(sizes[d] for d in dims)
    )


@rule("aten.unsqueeze")
def _unsqueeze(passing: Unmerging, entry: Entry) -> bool:
    (source,) = _operands(entry)
    if source not in passing.forms:
        return False
    dim: int = entry.attrs["dim"]  # type: ignore[assignment]
    sizes = passing.sizes(source)
    attrs = {"dim": start(sizes, dim)}
    fine = passing.shaped(source, sizes, entry)
    return passing.write(entry, entry.op, [fine], attrs, (*sizes[:dim], (1,), *sizes[dim:]))


@rule("aten.squeeze.dims")
def _squeeze(passing: Unmerging, entry: Entry) -> bool:
    (source,) = _operands(entry)
    if source not in passing.forms:
        return False
    gone: Sequence[int] = entry.attrs["dim"]  # type: ignore[assignment]
    sizes = passing.sizes(source)
    fine_dims = [n for d in gone for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    left = tuple(group for d, group in enumerate(sizes) if d not in gone)
    fine = passing.shaped(source, sizes, entry)
    if not fine_dims:
        passing.show(entry, fine, left)
        return True
    return passing.write(entry, entry.op, [fine], {"dim": tuple(fine_dims)}, left)


# Products.


@rule("aten.mm", "aten.mv")
def _mm(passing: Unmerging, entry: Entry) -> bool:
    a, b = _operands(entry)
    columns = tuple((n,) for n in b.type.shape[1:])
    if _contraction(passing, entry, a, b):
        return True
    rows = passing.sizes(a)[0]
    if not merges(rows):
        return False
    fine = passing.shaped(a, (rows, a.type.shape[1:]), entry)
    return passing.write(entry, "aten.matmul", [fine, b], {}, (rows, *columns))


def _contraction(passing: Unmerging, entry: Entry, a: Value, b: Value) -> bool:
    """A product that sums over a merged dim, as of a gradient and a layer's input: all its dims are summed over."""
    x, y = passing.transposed.get(a), passing.transposed.get(b)
    # Undo a transposition: the product then sums over the other dim.
    dim_x, dim_y = (1 if x is None else 0), (0 if y is None else 1)
    x, y = (a if x is None else x), (b if y is None else y)
    group = passing.sizes(x)[dim_x]
    if not merges(group) or passing.sizes(y)[dim_y] != group:
        return False
    attrs: dict[str, Attr] = {
        "dims_self": tuple(range(dim_x, dim_x + len(group))),
        "dims_other": tuple(range(dim_y, dim_y + len(group))),
    }
    fine = [
        passing.shaped(
            v, tuple(group if d == dim else (n,) for d, n in enumerate(v.type.shape)), entry
        )
        for v, dim in ((x, dim_x), (y, dim_y))
    ]
    whole = tuple((n,) for n in entry.outputs[0].type.shape)
    return passing.write(entry, "aten.tensordot", fine, attrs, whole)


@rule("aten.bmm")
def _bmm(passing: Unmerging, entry: Entry) -> bool:
    operands = _operands(entry)
    batch = passing.sizes(operands[0])[0]
    if not merges(batch) or passing.sizes(operands[1])[0] != batch:
        return False
    fine = [passing.shaped(x, (batch, *((n,) for n in x.type.shape[1:])), entry) for x in operands]
    matrix = tuple((n,) for n in entry.outputs[0].type.shape[1:])
    return passing.write(entry, "aten.matmul", fine, {}, (batch, *matrix))


# Reductions.


@rule("aten.sum.dim_IntList", "aten.amax", "aten.amin")
def _reduce(passing: Unmerging, entry: Entry) -> bool:
    (source,), (value,) = _operands(entry), entry.outputs
    summed: Sequence[int] = entry.attrs["dim"]  # type: ignore[assignment]
    squeezed = bool(entry.attrs["keepdim"]) and _is_squeezed(passing, value, summed)
    if source not in passing.forms and not squeezed:
        return False
    given_back = any(
        passing.kept[v] for v in (value, *(r.outputs[0] for r in passing.readers.get(value, [])))
    )
    sizes = tuple(  # what is given back has its own shape anyway
        (size,) if given_back and d not in summed else _apart(group, size)
        for d, (group, size) in enumerate(
            zip(passing.sizes(source), source.type.shape, strict=True)
        )
    )
    if not squeezed and not _any_apart(sizes):
        return False
    dims = [n for d in summed for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    attrs = {**entry.attrs, "dim": tuple(dims)}
    if squeezed:
        attrs["keepdim"] = False
    ones = bool(attrs["keepdim"])
    left: list[tuple[int, ...]] = []
    for d, group in enumerate(sizes):
        if d not in summed:
            left.append(group)
        elif entry.attrs["keepdim"]:
            left.append((1,) * len(group) if ones else ())
    fine = passing.shaped(source, sizes, entry)
    return passing.write(entry, entry.op, [fine], attrs, tuple(left))


def _is_squeezed(passing: Unmerging, value: Value, summed: Sequence[int]) -> bool:
    """Whether all that reads a reduction takes away the dims that it reduced."""
    left = tuple(n for d, n in enumerate(value.type.shape) if d not in summed)
    readers = passing.readers.get(value, [])
    return (
        bool(readers)
        and not passing.kept[value]
        and all(r.op == "aten.view" and r.outputs[0].type.shape == left for r in readers)
    )


# Along a dim that is not merged.


@rule(
    "aten._softmax", "aten._log_softmax", "aten._safe_softmax",
    "aten._softmax_backward_data", "aten._log_softmax_backward_data", "aten.cumsum",
)  # fmt: skip
def _along(passing: Unmerging, entry: Entry) -> bool:
    operands, shape = _operands(entry), entry.outputs[0].type.shape
    dim: int = entry.attrs["dim"]  # type: ignore[assignment]
    if not shape:
        return False
    agreed = _agreed(passing, operands, shape)
    sizes = (*agreed[:dim], (shape[dim],), *agreed[dim + 1 :])
    if not _any_apart(sizes):
        return False
    fine = [passing.shaped(x, sizes, entry) for x in operands]
    return passing.write(entry, entry.op, fine, {**entry.attrs, "dim": start(sizes, dim)}, sizes)


@rule("aten.gather")
def _gather(passing: Unmerging, entry: Entry) -> bool:
    source, index = _operands(entry)
    dim: int = entry.attrs["dim"]  # type: ignore[assignment]
    if source.type.rank != index.type.rank or not source.type.rank:
        return False
    agreed = _agreed(passing, [source, index], index.type.shape)
    agreed = tuple(
        group if index.type.shape[d] == source.type.shape[d] else (index.type.shape[d],)
        for d, group in enumerate(agreed)
    )
    of_source, of_index = (
        (*agreed[:dim], (x.type.shape[dim],), *agreed[dim + 1 :]) for x in (source, index)
    )
    if not _any_apart(of_index):
        return False
    # dims in which the index is shorter than the source stay as they are in both
    of_source = tuple(
        group if len(group) > 1 else (n,)
        for group, n in zip(of_source, source.type.shape, strict=True)
    )
    fine = [passing.shaped(source, of_source, entry), passing.shaped(index, of_index, entry)]
    attrs = {**entry.attrs, "dim": start(of_index, dim)}
    return passing.write(entry, entry.op, fine, attrs, of_index)


@rule("aten.embedding")
def _embedding(passing: Unmerging, entry: Entry) -> bool:
    table, index = _operands(entry)
    if index not in passing.forms:
        return False
    sizes = passing.sizes(index)
    fine = passing.shaped(index, sizes, entry)
    return passing.write(
        entry, entry.op, [table, fine], entry.attrs, (*sizes, (table.type.shape[1],))
    )


@rule("aten.embedding_dense_backward")
def _embedding_backward(passing: Unmerging, entry: Entry) -> bool:
    gradient, index = _operands(entry)
    *_, size = gradient.type.shape
    agreed = tuple(
        _apart(a, n) if a == b else (n,)
        for a, b, n in zip(
            passing.sizes(gradient), passing.sizes(index), index.type.shape, strict=False
        )
    )
    if not _any_apart(agreed):
        return False
    fine = [
        passing.shaped(gradient, (*agreed, (size,)), entry),
        passing.shaped(index, agreed, entry),
    ]
    whole = tuple((n,) for n in entry.outputs[0].type.shape)
    return passing.write(entry, entry.op, fine, entry.attrs, whole)


# All others.


def elementwise(passing: Unmerging, entry: Entry) -> bool:
    """An operator that does the same to every element, in finer dims."""
    operands, shape = _operands(entry), entry.outputs[0].type.shape
    sizes = _agreed(passing, operands, shape)
    if not _any_apart(sizes) or not is_elementwise(entry):
        return False
    fine = [None if v is None else _broadcast(passing, v, sizes, entry) for v in entry.inputs]
    return passing.write(entry, entry.op, fine, entry.attrs, sizes)
