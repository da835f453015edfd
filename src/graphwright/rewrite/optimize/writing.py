"""Write terms of a pool as ATen calls, in as few kernels as they take.

    ewadd(conv, bias)               conv2d with bias
    ewadd(matmul(x, w), bias)       linear with bias, for weights w
    concat of concat                one cat
    spread, constants               calls on weights alone, to be computed once

A call that was written with the same inputs before is not written again, so pieces of a model that
use one weight share what is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from graphwright.ir import Attr, Attrs, GraphBuilder, TensorType
from graphwright.rewrite.optimize.pool import AtenCall, Pool
from graphwright.rewrite.substitutions import CONSTANTS, Term, constant_calls


class Writer:
    """Adds graphs of a pool to a builder."""

    def __init__(self, pool: Pool, build: GraphBuilder) -> None:
        self.pool, self.build = pool, build
        self._written: dict[object, tuple[str, ...]] = {}
        self._names: dict[int, str] = {}
        self._users: Counter[int] = Counter()

    def write(self, graph: Sequence[int], leaves: Sequence[str]) -> list[str]:
        """Write a graph whose inputs have these names; returns the names of its outputs."""
        self._names = {}
        self._users = Counter(graph)
        for number in self.pool.reachable(tuple(graph)):
            entry = self.pool.entries[number]
            self._users.update(set(entry.args))
            if entry.op == "input":
                self._names[number] = leaves[entry.params[0]]
        return [self._name(number) for number in graph]

    def _name(self, number: int) -> str:
        known = self._names.get(number)
        if known is None:
            known = self._names[number] = self._emit(number)
        return known

    def _add(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Mapping[str, Attr],
        *types: TensorType,
        drawn: str = "",
    ) -> tuple[str, ...]:
        key = (op, tuple(inputs), Attrs(attrs), drawn)
        known = self._written.get(key)
        if known is None:
            known = self._written[key] = tuple(self.build.add(op, inputs, attrs, list(types)))
        return known

    def _one(self, op: str, inputs: Sequence[str | None], number: int, **attrs: Attr) -> str:
        return self._add(op, inputs, attrs, self.pool.type(number))[0]

    def _emit(self, number: int) -> str:
        pool = self.pool
        entry = pool.entries[number]
        match entry.op:
            case "item":
                which: int = entry.params[0]
                return self._outputs(entry.args[0])[which]
            case "spread":
                return self._spread(number)
            case op if op in CONSTANTS:
                return self._constant(number)
            case "conv":
                return self._convolution(number, number, None)
            case "matmul":
                return self._product(number, number, None)
            case "concat":
                parts = [self._name(part) for part in self._parts(number)]
                axis = entry.params[0]
                assert isinstance(axis, int)
                return self._one("aten.cat", parts, number, dim=axis % len(pool.sizes[number]))
            case "pool_max":
                (call,) = pool.program(number)
                attrs = dict(call.attrs)
                return self._one("aten.max_pool2d", [self._name(entry.args[0])], number, **attrs)
            case "ewadd" if (held := pool.bias_of(number)) is not None and self._users[
                held[0]
            ] == 1:
                product, bias = held
                write = self._convolution if pool.entries[product].op == "conv" else self._product
                return write(product, number, self._vector(bias))
            case _:
                made = [self._name(a) for a in entry.args]
                for call in pool.program(number):
                    inputs = [None if i is None else made[i] for i in call.inputs]
                    type = TensorType(call.shapes[0], pool.dtypes[number])
                    attrs = dict(call.attrs)
                    if call.op == "aten.add.Tensor":
                        attrs.setdefault("alpha", 1)
                    made.append(self._add(call.op, inputs, attrs, type)[0])
                return made[-1]

    def _outputs(self, number: int) -> tuple[str, ...]:
        entry = self.pool.entries[number]
        call = entry.params[0]
        assert isinstance(call, AtenCall)
        inputs = [None if i is None else self._name(entry.args[i]) for i in call.inputs]
        return self._add(call.op, inputs, call.attrs, *call.outputs, drawn=call.drawn)

    def _parts(self, number: int) -> list[int]:
        """What a concatenation joins, with what its own concatenations join."""
        entry = self.pool.entries[number]
        parts: list[int] = []
        for arg in entry.args:
            inner = self.pool.entries[arg]
            alone = self._users[arg] == 1 and arg not in self._names
            if alone and (inner.op, inner.params) == (entry.op, entry.params):
                parts += self._parts(arg)
            else:
                parts.append(arg)
        return parts

    def _convolution(self, conv: int, number: int, bias: str | None) -> str:
        (call,) = self.pool.program(conv)
        x, w = (self._name(a) for a in self.pool.entries[conv].args)
        attrs = {k: call.attrs[k] for k in ("stride", "padding", "dilation", "groups")}
        return self._one("aten.conv2d", [x, w, bias], number, **attrs)

    def _product(self, product: int, number: int, bias: str | None) -> str:
        x, w = self.pool.entries[product].args
        sizes = self.pool.sizes[w]
        if len(sizes) > 2:
            assert bias is None
            return self._one("aten.bmm", [self._name(x), self._name(w)], number)
        if not self.pool.fixed[w]:
            read = [self._name(x), self._name(w)]
            if bias is None:
                return self._one("aten.mm", read, number)
            return self._one("aten.addmm", [bias, *read], number, beta=1, alpha=1)
        return self._one("aten.linear", [self._name(x), self._transposed(w), bias], number)

    def _transposed(self, number: int) -> str:
        """The transposed of a term; of a transposed one, what that was."""
        entry = self.pool.entries[number]
        if entry.op == "transpose":
            return self._name(entry.args[0])
        rows, columns = self.pool.sizes[number]
        type = TensorType((columns, rows), self.pool.dtypes[number])
        return self._add("aten.permute", [self._name(number)], {"dims": (1, 0)}, type)[0]

    def _vector(self, bias: int) -> str:
        """The vector that a bias repeats along dim 1."""
        pool = self.pool
        entry = pool.entries[bias]
        if entry.op == "spread":
            return self._name(entry.args[0])
        name, sizes, dtype = self._name(bias), list(pool.sizes[bias]), pool.dtypes[bias]
        for dim in (3, 2, 0) if len(sizes) == 4 else (0,):
            del sizes[dim]
            type = TensorType(tuple(sizes), dtype)
            name = self._add("aten.select.int", [name], {"dim": dim, "index": 0}, type)[0]
        return name

    def _spread(self, number: int) -> str:
        entry = self.pool.entries[number]
        shape, dim = self.pool.sizes[number], entry.params[1]
        sizes = tuple(n if d == dim else 1 for d, n in enumerate(shape))
        type = TensorType(sizes, self.pool.dtypes[number])
        view = self._add("aten.view", [self._name(entry.args[0])], {"size": sizes}, type)[0]
        return self._one("aten.expand", [view], number, size=shape, implicit=False)

    def _constant(self, number: int) -> str:
        entry, dtype = self.pool.entries[number], self.pool.dtypes[number]
        term = Term(entry.op, entry.params[0])
        made: list[str] = []
        for call in constant_calls(term, self.pool.sizes[number], dtype):
            inputs = [None if i is None else made[i] for i in call.inputs]
            made.append(
                self._add(call.op, inputs, call.attrs, TensorType(call.shapes[0], dtype))[0]
            )
        return made[-1]
