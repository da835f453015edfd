"""Read a piece of a training graph into a pool.

Weights are no constants here: what is made of them is computed in every step. But that is done
once, whatever the number of pieces that use it, as for the steps of a recurrence: so each of them
pays a share.

    matmul([b, t, k], [k, n])       a view as rows, mm, a view back
    tensordot over leading dims     the same, of a transposed view
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from graphwright.describe import is_described, is_random
from graphwright.ir import Graph, Node, TensorType
from graphwright.rewrite.optimize import Entry, Pool, Price, Reader


class TrainingPool(Pool):
    """A pool in which nothing is folded; terms of weights alone cost a share of their price."""

    def __init__(self, price: Price) -> None:
        self.shares: list[int] = []
        super().__init__(price)

    def leaf(self, number: int, type: TensorType, share: int) -> int:
        """A tensor that is given; of a weight, how many pieces use it alike, else 0."""
        return self._add(Entry("input", (number, type, share), ()), type.shape, type.dtype, False)

    def _add(self, entry: Entry, shape: tuple[object, ...], dtype: str, fixed: bool) -> int:
        made = super()._add(entry, shape, dtype, False)  # type: ignore[arg-type]
        if made == len(self.shares):
            given = [self.shares[a] for a in entry.args]
            own = entry.params[2] if entry.op == "input" else 0
            self.shares.append(min(given) if given else own)
        return made

    def _priced(self, number: int, *, last: bool = False) -> float:
        if self.entries[number].op == "transpose":  # a view, before as after
            return 0.0
        return super()._priced(number, last=last) / max(self.shares[number], 1)


class TrainingReader(Reader):
    """Reads one piece. `steady` are the tensors that depend on weights alone, `share` says how many
    pieces use the same ones alike.
    """

    def __init__(
        self, pool: TrainingPool, graph: Graph, steady: Iterable[str], share: int = 1
    ) -> None:
        super().__init__(pool, graph, steady)
        self.share = share
        self._calls = 0

    @property
    def names(self) -> Mapping[str, int]:
        """The term of every tensor that was read."""
        return self._numbers

    def key(self, outputs: tuple[int, ...]) -> tuple[object, ...]:
        """What pieces have in common that use the same weights alike."""
        return (outputs, tuple(name for name in self.leaves if name in self.fixed))

    def _leaf(self, name: str) -> int:
        assert isinstance(self.pool, TrainingPool)
        type = self.graph.tensors[name].type
        return self.pool.leaf(len(self.leaves), type, self.share if name in self.fixed else 0)

    def _drawn(self, node: Node) -> str:
        """What is not known to be a function of its inputs is never the same as another call."""
        if is_described(node.op) and not is_random(self.graph, node):
            return ""
        self._calls += 1
        return str(self._calls)

    def _product(self, node: Node, terms: list[int]) -> int | None:
        """Products of more than two dims by a matrix, and over all dims but the last."""
        pool, (a, b) = self.pool, terms
        shape = self.graph.tensors[node.outputs[0]].type.shape
        x, y = pool.sizes[a], pool.sizes[b]
        if node.op == "aten.matmul" and len(x) > 2 and len(y) == 2:
            made = pool.make("matmul", (), (self._view(a, (prod(x[:-1]), x[-1])), b))
            return None if made is None else self._view(made, shape)
        if node.op == "aten.tensordot" and len(x) == len(y) > 1:
            leading = tuple(range(len(x) - 1))
            dims = (node.attrs["dims_self"], node.attrs["dims_other"])
            if dims == (leading, leading):
                rows = prod(x[:-1])
                left = pool.make("transpose", (), (self._view(a, (rows, x[-1])),))
                right = self._view(b, (rows, y[-1]))
                return None if left is None else pool.make("matmul", (), (left, right))
        return None

    def _operator(self, node: Node, terms: Iterable[int | None]) -> int | None:
        given = [t for t in terms if t is not None]
        if node.op in ("aten.matmul", "aten.tensordot") and len(given) == 2:
            made = self._product(node, given)
            if made is not None:
                return made
        return super()._operator(node, list(terms))
