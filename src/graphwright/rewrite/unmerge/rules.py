"""How operators are written on dims that are not merged (see `merged`).

view                         merges: a form; splits again: the fine tensor itself
mm, mv                       matmul [.., k] x [k, j]                where the rows are merged
mm of a transposed matrix    tensordot over all leading dims        where a sum is over merged dims
bmm                          matmul [.., i, k] x [.., k, j]         where the batch is merged
permute, unsqueeze, squeeze  the same of the fine dims
sum, amax, amin              over all dims of a merged one; without keepdim if a view drops the 1
softmax, gather, embedding   along other dims than the merged ones
element-wise operators       where all inputs of full size are merged alike
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.ir import Attr, Node
from graphwright.rewrite.unmerge.merged import (
    Rule,
    Sizes,
    Unmerging,
    flat,
    merges,
    refinement,
    start,
)

RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def _operands(node: Node) -> list[str]:
    return [v for v in node.inputs if v is not None]


def _apart(group: tuple[int, ...], size: int) -> tuple[int, ...]:
    """A dim's group, if it is worth while to keep it apart."""
    return group if merges(group) else (size,)


def _agreed(walk: Unmerging, names: Sequence[str], shape: Sequence[int]) -> Sizes:
    """The groups in which all of the tensors have the dims of `shape`, aligned at the right."""
    sizes: list[tuple[int, ...]] = []
    rank = len(shape)
    for dim, size in enumerate(shape):
        groups = {
            walk.sizes(v)[dim - rank]
            for v in names
            if len(walk.shape(v)) >= rank - dim
            and walk.shape(v)[dim - rank] == size > 1
            and not walk.is_uniform(v)
        }
        sizes.append(_apart(groups.pop(), size) if len(groups) == 1 else (size,))
    return tuple(sizes)


def _broadcast(walk: Unmerging, name: str, sizes: Sizes, node: Node) -> str:
    """A tensor in the dims of a result, of which it may lack some or have 1 in their place."""
    wanted: list[tuple[int, ...]] = []
    shape = walk.shape(name)
    for size, group in zip(shape, sizes[len(sizes) - len(shape) :], strict=True):
        if size != 1:
            wanted.append(group)
        else:  # leading dims of size 1 may be fewer
            wanted.append((1,) * (len(group) if any(n != 1 for n in flat(wanted)) else 1))
    return walk.shaped(name, tuple(wanted), node)


def _any_apart(sizes: Sizes) -> bool:
    return any(len(group) > 1 for group in sizes)


# Views.


@rule("aten.view")
def _view(walk: Unmerging, node: Node) -> bool:
    (source,), shape = _operands(node), walk.shape(node.name)
    form = walk.forms.get(source)
    fine = source if form is None else form.fine
    if walk.shape(fine) == shape:
        walk.vanish(node, source, fine)
        return True
    sizes = refinement(walk.shape(fine), shape) if walk.type(fine).numel else None
    if sizes is None or not any(map(merges, sizes)):
        walk.edit.keep(node, inputs=(walk.root(fine),))
    else:
        walk.refine(node, fine, sizes)
    return True


@rule("aten.permute")
def _permute(walk: Unmerging, node: Node) -> bool:
    (source,) = _operands(node)
    dims: Sequence[int] = node.attrs["dims"]  # type: ignore[assignment]
    if tuple(dims) == (1, 0):
        walk.transposed[node.name] = source
    sizes = walk.sizes(source)
    if source not in walk.forms:
        return False
    fine_dims = [n for d in dims for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    fine = walk.shaped(source, sizes, node)
    return walk.write(
        node, node.op, [fine], {"dims": tuple(fine_dims)}, tuple(sizes[d] for d in dims)
    )


@rule("aten.unsqueeze")
def _unsqueeze(walk: Unmerging, node: Node) -> bool:
    (source,) = _operands(node)
    if source not in walk.forms:
        return False
    dim: int = node.attrs["dim"]  # type: ignore[assignment]
    sizes = walk.sizes(source)
    attrs = {"dim": start(sizes, dim)}
    fine = walk.shaped(source, sizes, node)
    return walk.write(node, node.op, [fine], attrs, (*sizes[:dim], (1,), *sizes[dim:]))


@rule("aten.squeeze.dims")
def _squeeze(walk: Unmerging, node: Node) -> bool:
    (source,) = _operands(node)
    if source not in walk.forms:
        return False
    gone: Sequence[int] = node.attrs["dim"]  # type: ignore[assignment]
    sizes = walk.sizes(source)
    fine_dims = [n for d in gone for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    left = tuple(group for d, group in enumerate(sizes) if d not in gone)
    fine = walk.shaped(source, sizes, node)
    if not fine_dims:
        walk.show(node, fine, left)
        return True
    return walk.write(node, node.op, [fine], {"dim": tuple(fine_dims)}, left)


# Products.


@rule("aten.mm", "aten.mv")
def _mm(walk: Unmerging, node: Node) -> bool:
    a, b = _operands(node)
    columns = tuple((n,) for n in walk.shape(b)[1:])
    if _contraction(walk, node, a, b):
        return True
    rows = walk.sizes(a)[0]
    if not merges(rows):
        return False
    fine = walk.shaped(a, (rows, walk.shape(a)[1:]), node)
    return walk.write(node, "aten.matmul", [fine, b], {}, (rows, *columns))


def _contraction(walk: Unmerging, node: Node, a: str, b: str) -> bool:
    """A product that sums over a merged dim, as of a gradient and a layer's input: all its dims are
    summed over.
    """
    x, y = walk.transposed.get(a), walk.transposed.get(b)
    # Undo a transposition: the product then sums over the other dim.
    dim_x, dim_y = (1 if x is None else 0), (0 if y is None else 1)
    x, y = (a if x is None else x), (b if y is None else y)
    group = walk.sizes(x)[dim_x]
    if not merges(group) or walk.sizes(y)[dim_y] != group:
        return False
    attrs: dict[str, Attr] = {
        "dims_self": tuple(range(dim_x, dim_x + len(group))),
        "dims_other": tuple(range(dim_y, dim_y + len(group))),
    }
    fine = [
        walk.shaped(
            v, tuple(group if d == dim else (n,) for d, n in enumerate(walk.shape(v))), node
        )
        for v, dim in ((x, dim_x), (y, dim_y))
    ]
    whole = tuple((n,) for n in walk.shape(node.name))
    return walk.write(node, "aten.tensordot", fine, attrs, whole)


@rule("aten.bmm")
def _bmm(walk: Unmerging, node: Node) -> bool:
    operands = _operands(node)
    batch = walk.sizes(operands[0])[0]
    if not merges(batch) or walk.sizes(operands[1])[0] != batch:
        return False
    fine = [walk.shaped(x, (batch, *((n,) for n in walk.shape(x)[1:])), node) for x in operands]
    matrix = tuple((n,) for n in walk.shape(node.name)[1:])
    return walk.write(node, "aten.matmul", fine, {}, (batch, *matrix))


# Reductions.


@rule("aten.sum.dim_IntList", "aten.amax", "aten.amin")
def _reduce(walk: Unmerging, node: Node) -> bool:
    (source,) = _operands(node)
    summed: Sequence[int] = node.attrs["dim"]  # type: ignore[assignment]
    squeezed = bool(node.attrs["keepdim"]) and _is_squeezed(walk, node.name, summed)
    if source not in walk.forms and not squeezed:
        return False
    given_back = any(name in walk.given_back for name in (node.name, *walk.readers(node.name)))
    sizes = tuple(  # what is given back has its own shape anyway
        (size,) if given_back and d not in summed else _apart(group, size)
        for d, (group, size) in enumerate(zip(walk.sizes(source), walk.shape(source), strict=True))
    )
    if not squeezed and not _any_apart(sizes):
        return False
    dims = [n for d in summed for n in range(start(sizes, d), start(sizes, d) + len(sizes[d]))]
    attrs = {**node.attrs, "dim": tuple(dims)}
    if squeezed:
        attrs["keepdim"] = False
    ones = bool(attrs["keepdim"])
    left: list[tuple[int, ...]] = []
    for d, group in enumerate(sizes):
        if d not in summed:
            left.append(group)
        elif node.attrs["keepdim"]:
            left.append((1,) * len(group) if ones else ())
    fine = walk.shaped(source, sizes, node)
    return walk.write(node, node.op, [fine], attrs, tuple(left))


def _is_squeezed(walk: Unmerging, name: str, summed: Sequence[int]) -> bool:
    """Whether all that reads a reduction takes away the dims that it reduced."""
    left = tuple(n for d, n in enumerate(walk.shape(name)) if d not in summed)
    readers = [walk.graph.node(reader) for reader in walk.readers(name)]
    return (
        bool(readers)
        and name not in walk.given_back
        and all(r.op == "aten.view" and walk.shape(r.name) == left for r in readers)
    )


# Along a dim that is not merged.


@rule(
    "aten._softmax", "aten._log_softmax", "aten._safe_softmax",
    "aten._softmax_backward_data", "aten._log_softmax_backward_data", "aten.cumsum",
)  # fmt: skip
def _along(walk: Unmerging, node: Node) -> bool:
    operands, shape = _operands(node), walk.shape(node.name)
    dim: int = node.attrs["dim"]  # type: ignore[assignment]
    if not shape:
        return False
    agreed = _agreed(walk, operands, shape)
    sizes = (*agreed[:dim], (shape[dim],), *agreed[dim + 1 :])
    if not _any_apart(sizes):
        return False
    fine = [walk.shaped(x, sizes, node) for x in operands]
    return walk.write(node, node.op, fine, {**node.attrs, "dim": start(sizes, dim)}, sizes)


@rule("aten.gather")
def _gather(walk: Unmerging, node: Node) -> bool:
    source, index = _operands(node)
    dim: int = node.attrs["dim"]  # type: ignore[assignment]
    if len(walk.shape(source)) != len(walk.shape(index)) or not walk.shape(source):
        return False
    agreed = _agreed(walk, [source, index], walk.shape(index))
    agreed = tuple(
        group if walk.shape(index)[d] == walk.shape(source)[d] else (walk.shape(index)[d],)
        for d, group in enumerate(agreed)
    )
    of_source, of_index = (
        (*agreed[:dim], (walk.shape(x)[dim],), *agreed[dim + 1 :]) for x in (source, index)
    )
    if not _any_apart(of_index):
        return False
    # dims in which the index is shorter than the source stay as they are in both
    of_source = tuple(
        group if len(group) > 1 else (n,)
        for group, n in zip(of_source, walk.shape(source), strict=True)
    )
    fine = [walk.shaped(source, of_source, node), walk.shaped(index, of_index, node)]
    attrs = {**node.attrs, "dim": start(of_index, dim)}
    return walk.write(node, node.op, fine, attrs, of_index)


@rule("aten.embedding")
def _embedding(walk: Unmerging, node: Node) -> bool:
    table, index = _operands(node)
    if index not in walk.forms:
        return False
    sizes = walk.sizes(index)
    fine = walk.shaped(index, sizes, node)
    return walk.write(node, node.op, [table, fine], node.attrs, (*sizes, (walk.shape(table)[1],)))


@rule("aten.embedding_dense_backward")
def _embedding_backward(walk: Unmerging, node: Node) -> bool:
    gradient, index = _operands(node)
    *_, size = walk.shape(gradient)
    agreed = tuple(
        _apart(a, n) if a == b else (n,)
        for a, b, n in zip(walk.sizes(gradient), walk.sizes(index), walk.shape(index), strict=False)
    )
    if not _any_apart(agreed):
        return False
    fine = [
        walk.shaped(gradient, (*agreed, (size,)), node),
        walk.shaped(index, agreed, node),
    ]
    whole = tuple((n,) for n in walk.shape(node.name))
    return walk.write(node, node.op, fine, node.attrs, whole)


# All others.


def elementwise(walk: Unmerging, node: Node) -> bool:
    """An operator that does the same to every element, in finer dims."""
    operands, shape = _operands(node), walk.shape(node.name)
    sizes = _agreed(walk, operands, shape)
    if not _any_apart(sizes) or not walk.is_elementwise(node):
        return False
    fine = [None if x is None else _broadcast(walk, x, sizes, node) for x in node.inputs]
    return walk.write(node, node.op, fine, node.attrs, sizes)
