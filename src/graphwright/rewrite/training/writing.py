"""Write a training graph of which some pieces were found cheaper forms, by `ir.Edit`.

A node whose result is still needed is kept as it is, where it was. One that only reads other
tensors now is kept with those. What else is new is written where the node was whose place it takes,
with that one's provenance, role and, where it had one of its own (`fc.weight.grad`), name. The same
call of the same tensors is written once, so pieces share what is made of a weight.

Products were read as rows, `[b t, k] x [k, n]`. They are written with their dims apart, so that the
graph splits along each of them (`rewrite.unmerge`): `whole` is a term of rows as the tensor it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from graphwright.ir import Attr, Attrs, Edit, Graph, Node, TensorType
from graphwright.rewrite.optimize import AtenCall, Region
from graphwright.rewrite.training.reading import TrainingPool, TrainingReader

ROW_WISE = {"ewadd": "aten.add.Tensor", "ewmul": "aten.mul.Tensor", "relu": "aten.relu"}


class TrainingWriter:
    """Writes a graph node by node, and pieces in their new forms."""

    def __init__(self, pool: TrainingPool, graph: Graph) -> None:
        self.pool, self.graph, self.edit = pool, graph, Edit(graph)
        self.done: set[str] = set()
        self.written: dict[object, str] = {}
        self.unread = {
            node.name
            for node in graph.nodes
            if not any(graph.consumers(name) or name in graph.outputs for name in node.outputs)
        }

    def keep(self, node: Node) -> None:
        """Write a node as it is, after all that it reads."""
        waiting = [node]
        while waiting:
            top = waiting[-1]
            makers = [self.graph.producer(n) for n in top.inputs if n is not None]
            missing = [m for m in makers if m is not None and not self.is_there(m)]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if not self.is_there(top):
                self.done.add(top.name)
                self.edit.keep(top)

    def is_there(self, node: Node) -> bool:
        """Whether a node is written, or everything that is read of it is replaced."""
        return node.name in self.done or all(n in self.edit.replaced for n in node.outputs)

    def write(
        self, region: Region, reader: TrainingReader, old: Sequence[int], new: Sequence[int]
    ) -> None:
        """Write a piece whose outputs were the old terms, as the new ones."""
        _Piece(self, region, reader, old, new).write()

    def can_write(
        self, region: Region, reader: TrainingReader, old: Sequence[int], new: Sequence[int]
    ) -> bool:
        """Whether nodes of the piece make all new calls of several results."""
        return _Piece(self, region, reader, old, new).is_possible()

    def add(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Mapping[str, Attr],
        type: TensorType,
        beside: Node,
    ) -> str:
        """Write a call, once."""
        read = tuple(None if name is None else self.edit.current(name) for name in inputs)
        key = (op, read, Attrs(attrs))
        if key not in self.written:
            self.written[key] = self.edit.add(op, read, attrs, type, beside=beside)
        return self.written[key]


class _Piece:
    """One piece: old terms and their nodes, new terms and the old ones in whose place they are."""

    def __init__(
        self,
        writer: TrainingWriter,
        region: Region,
        reader: TrainingReader,
        old: Sequence[int],
        new: Sequence[int],
    ) -> None:
        self.writer, self.region, self.pool = writer, region, writer.pool
        self.graph = writer.graph
        self.makers: dict[int, str] = {}
        for name, number in reader.names.items():
            self.makers.setdefault(number, name)
        self.changed = {
            name: after
            for name, before, after in zip(region.outputs, old, new, strict=True)
            if before != after
        }
        self.names: dict[int, str] = {}
        self.wholes: dict[int, str] = {}
        self.places: dict[int, int] = {}
        self.kept: dict[int, Node] = {}
        self._pair([p for p in zip(old, new, strict=True) if p[0] != p[1]])
        self.inside = {node.name for node in region.nodes}
        self.needed = self._needed()

    def _pair(self, waiting: list[tuple[int, int]]) -> None:
        """Which old term each new one stands for: those of one operator, from the outputs down."""
        taken: set[int] = set()
        while waiting:
            old, new = waiting.pop()
            if old == new or old in taken or new in self.places or new in self.makers:
                continue
            a, b = self.pool.entries[old], self.pool.entries[new]
            if (a.op, a.params) == (b.op, b.params) and self.pool.sizes[old] == self.pool.sizes[
                new
            ]:
                self.places[new] = old
                taken.add(old)
                waiting += zip(a.args, b.args, strict=True)

    def _is_free(self, name: str, number: int) -> bool:
        """Whether a tensor of the piece is computed no more, and a new term may have its name.

        Terms that stand in one place of two forms need not be equal, so nothing else may read it.
        """
        maker = self.graph.producer(name)
        if maker is None or maker.name not in self.inside or maker.name in self.needed:
            return False
        if maker.name in self.writer.done or name in self.writer.edit.replaced:
            return False
        return name not in self.region.outputs or self.changed.get(name) == number

    def is_possible(self) -> bool:
        """Whether every new call of several results is one of the piece's nodes."""
        waiting, seen = list(self.changed.values()), set[int]()
        while waiting:
            number = waiting.pop()
            if number in seen or number in self.makers:
                continue
            seen.add(number)
            entry = self.pool.entries[number]
            if entry.op == "call" and self._node_of(number) is None:
                call = entry.params[0]
                if len(call.outputs) > 1 or call.drawn:
                    return False
            waiting += entry.args
        return True

    def _node_of(self, call: int) -> Node | None:
        """The node that makes a new call, if it only has to read other tensors."""
        old = self.places.get(call)
        if old is None:
            return None
        spelled = self.pool.entries[call].params[0]
        for number, name in self.makers.items():
            entry = self.pool.entries[number]
            if entry.op == "item" and entry.args == (old,):
                node = self.graph.producer(name)
                same = node is not None and (node.op, Attrs(node.attrs)) == (
                    spelled.op,
                    spelled.attrs,
                )
                return node if same and node and self._is_all_free(node, call) else None
        return None

    def _is_result(self, number: int) -> bool:
        """Whether a term is the result of a call, which a node may be kept for."""
        entry = self.pool.entries[number]
        call = self.pool.entries[entry.args[0]].params[0] if entry.op == "item" else None
        return call is not None and call.op != "aten.view"

    def _is_all_free(self, node: Node, call: int) -> bool:
        """Whether a new call may have the names of all results of a node."""
        for name in node.outputs:
            new = self.changed.get(name)
            entry = None if new is None else self.pool.entries[new]
            own = entry is not None and (entry.op, entry.args) == ("item", (call,))
            own = own and entry is not None and node.outputs[entry.params[0]] == name
            if not self._is_free(name, new if own and new is not None else -1):
                return False
        return True

    def write(self) -> None:
        """Write the nodes that stay, and what is new in the place of what it replaces."""
        for node in self.region.nodes:
            if node.name in self.needed:
                self.writer.keep(node)
            for name in node.outputs:
                if name in self.changed:
                    self._replace(name, self._emit(self.changed[name], node))

    def _needed(self) -> set[str]:
        """The nodes of a piece that stay as they are."""
        waiting = [
            name
            for node in self.region.nodes
            for name in node.outputs
            if (name in self.region.outputs and name not in self.changed)
            or node.name in self.writer.unread
        ]
        terms, seen = list(self.changed.values()), set[int]()
        while terms:
            number = terms.pop()
            if number not in seen:
                seen.add(number)
                if number in self.makers:
                    waiting.append(self.makers[number])
                else:
                    terms += self.pool.entries[number].args
        needed: set[str] = set()
        while waiting:
            node = self.graph.producer(waiting.pop())
            if node is not None and node.name in self.inside and node.name not in needed:
                needed.add(node.name)
                waiting += [name for name in node.inputs if name is not None]
        return needed

    def _replace(self, old: str, new: str) -> None:
        edit = self.writer.edit
        if new == old or old in edit.replaced:
            return
        before, is_new = self.graph.tensors[old], new not in self.graph.tensors
        if is_new and before.of is not None and edit.tensors[new].of is None:
            edit.label(new, before.role, before.of)
        edit.replace(old, new)

    # -- terms ---------------------------------------------------------------------------------

    def _emit(self, root: int, beside: Node) -> str:
        """The tensor of a term, which is written after its arguments."""
        if root in self.names:
            return self.names[root]
        if root in self.makers:
            name = self.makers[root]
            maker = self.graph.producer(name)
            if maker is not None:
                self.writer.keep(maker)
            self.names[root] = name
            return name
        place = self.places.get(root)
        old = None if place is None else self.makers.get(place)
        maker = None if old is None else self.graph.producer(old)
        made = self._made(root, beside if maker is None else maker)
        self.names[root] = made
        if old is not None and not self._is_result(root) and self._is_free(old, root):
            self._replace(old, made)
        return made

    def _made(self, number: int, beside: Node) -> str:
        entry = self.pool.entries[number]
        if entry.op == "item":
            return self._item(number, beside)
        if entry.op in ("split0", "split1"):
            return self._slice(number, beside)
        if entry.op == "concat":
            parts = [self._emit(part, beside) for part in self._parts(number)]
            dim = int(entry.params[0]) % len(self.pool.sizes[number])
            return self._add("aten.cat", parts, {"dim": dim}, self.pool.sizes[number], beside)
        if entry.op == "matmul":
            summed = self._sum_over_rows(number, beside)
            if summed is not None:
                return summed
        whole = self._whole(number, beside)
        if whole is not None:  # as rows
            size = {"size": self.pool.sizes[number]}
            return self._add("aten.view", [whole], size, self.pool.sizes[number], beside)
        made = [self._emit(a, beside) for a in entry.args]
        for call in self.pool.program(number):
            inputs = [None if i is None else made[i] for i in call.inputs]
            attrs = dict(call.attrs)
            if call.op == "aten.add.Tensor":
                attrs.setdefault("alpha", 1)
            made.append(self._add(call.op, inputs, attrs, call.shapes[0], beside))
        return made[-1]

    def _add(
        self,
        op: str,
        inputs: Sequence[str | None],
        attrs: Mapping[str, Attr],
        shape: Sequence[int],
        beside: Node,
    ) -> str:
        first = next(name for name in inputs if name is not None)
        dtype = self.writer.edit.type(self.writer.edit.current(first)).dtype
        return self.writer.add(op, inputs, attrs, TensorType(tuple(shape), dtype), beside)

    def _item(self, number: int, beside: Node) -> str:
        """A result of a call: a view of rows as the tensor that they were, or a call."""
        entry = self.pool.entries[number]
        (call,) = entry.args
        spelled = self.pool.entries[call].params[0]
        assert isinstance(spelled, AtenCall)
        args = self.pool.entries[call].args
        if spelled.op == "aten.view":
            whole = self._whole(args[0], beside)
            if whole is not None and self._shape(whole) == self.pool.sizes[number]:
                return whole
        inputs = [None if i is None else self._emit(args[i], beside) for i in spelled.inputs]
        if call not in self.kept and (node := self._node_of(call)) is not None:
            self.kept[call] = node
            self.writer.done.add(node.name)
            current = [None if n is None else self.writer.edit.current(n) for n in inputs]
            self.writer.edit.keep(node, inputs=current)
        if call in self.kept:
            which: int = entry.params[0]
            return self.kept[call].outputs[which]
        assert len(spelled.outputs) == 1 and not spelled.drawn
        return self.writer.add(spelled.op, inputs, spelled.attrs, spelled.outputs[0], beside)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.writer.edit.type(self.writer.edit.current(name)).shape

    def _parts(self, number: int) -> list[int]:
        """What a concatenation joins, with what its own concatenations join."""
        entry = self.pool.entries[number]
        parts: list[int] = []
        for arg in entry.args:
            inner = self.pool.entries[arg]
            nested = (inner.op, inner.params) == ("concat", entry.params)
            parts += self._parts(arg) if nested and arg not in self.makers else [arg]
        return parts

    def _cut(self, number: int) -> tuple[int, int, int]:
        """Of a split of splits: the term that is cut, where, and how much is taken."""
        entry = self.pool.entries[number]
        (source,) = entry.args
        (call,) = self.pool.program(number)
        start = call.attrs["start"]
        assert isinstance(start, int)
        inner, axis = self.pool.entries[source], int(entry.params[0])
        size = self.pool.sizes[number][axis]
        if inner.op in ("split0", "split1") and inner.params == entry.params:
            source, before, _ = self._cut(source)
            start += before
        return source, start, size

    def _slice(self, number: int, beside: Node) -> str:
        whole = self._whole(number, beside)
        if whole is not None:
            shape = self.pool.sizes[number]
            return self._add("aten.view", [whole], {"size": shape}, shape, beside)
        source, start, size = self._cut(number)
        sizes = self.pool.sizes[number]
        dim = int(self.pool.entries[number].params[0]) % len(sizes)
        attrs: dict[str, Attr] = {"dim": dim, "end": start + size, "start": start, "step": 1}
        return self._add("aten.slice.Tensor", [self._emit(source, beside)], attrs, sizes, beside)

    # -- rows ----------------------------------------------------------------------------------

    def _whole(self, number: int, beside: Node) -> str | None:
        """The tensor that a term of rows was, `[b, t, n]` of `[b t, n]`."""
        known = self.wholes.get(number)
        if known is None:
            known = self._made_whole(number, beside)
            if known is not None:
                self.wholes[number] = known
        return known

    def _made_whole(self, number: int, beside: Node) -> str | None:
        entry, sizes = self.pool.entries[number], self.pool.sizes[number]
        if len(sizes) != 2:
            return None
        match entry.op:
            case "item":
                call = self.pool.entries[entry.args[0]]
                spelled = call.params[0]
                source = call.args[0] if call.args else None
                if spelled.op != "aten.view" or source is None:
                    return None
                shape = self.pool.sizes[source]
                if len(shape) < 3 or (prod(shape[:-1]), shape[-1]) != sizes:
                    return None
                return self._emit(source, beside)
            case "matmul":
                left = self._whole(entry.args[0], beside)
                if left is None:
                    return None
                shape = (*self._shape(left)[:-1], sizes[1])
                right = self._emit(entry.args[1], beside)
                return self._add("aten.matmul", [left, right], {}, shape, beside)
            case "split0" | "split1" if entry.params[0] == -1:
                source, start, size = self._cut(number)
                whole = self._whole(source, beside)
                if whole is None:
                    return None
                lead = self._shape(whole)[:-1]
                attrs = {"dim": len(lead), "end": start + size, "start": start, "step": 1}
                return self._add("aten.slice.Tensor", [whole], attrs, (*lead, size), beside)
            case "concat" if entry.params[0] == -1:
                return self._joined(self._parts(number), sizes[1], beside)
            case "ewadd" | "ewmul" | "relu":
                wholes = [self._whole(a, beside) for a in entry.args]
                if None in wholes or len({self._shape(w or "") for w in wholes}) > 1:
                    return None
                attrs = {"alpha": 1} if entry.op == "ewadd" else {}
                shape = self._shape(wholes[0] or "")
                return self._add(ROW_WISE[entry.op], wholes, attrs, shape, beside)
        return None

    def _joined(self, parts: Sequence[int], width: int, beside: Node) -> str | None:
        wholes = [self._whole(part, beside) for part in parts]
        leads = {None if w is None else self._shape(w)[:-1] for w in wholes}
        if None in leads or len(leads) > 1:
            return None
        (lead,) = leads
        assert lead is not None
        return self._add("aten.cat", wholes, {"dim": len(lead)}, (*lead, width), beside)

    def _sum_over_rows(self, number: int, beside: Node) -> str | None:
        """The product of transposed rows and rows, which sums over all dims but the last."""
        left, right = self.pool.entries[number].args
        parts = self._parts(left) if self.pool.entries[left].op == "concat" else [left]
        if self.pool.entries[left].op == "concat" and self.pool.entries[left].params[0] != -2:
            return None
        if any(self.pool.entries[part].op != "transpose" for part in parts):
            return None
        rows = [self.pool.entries[part].args[0] for part in parts]
        b = self._whole(right, beside)
        if b is None:
            return None
        if len(rows) == 1:
            a = self._whole(rows[0], beside)
        else:
            a = self._joined(rows, self.pool.sizes[left][0], beside)
        if a is None or self._shape(a)[:-1] != self._shape(b)[:-1]:
            return None
        dims = tuple(range(len(self._shape(a)) - 1))
        attrs = {"dims_other": dims, "dims_self": dims}
        return self._add("aten.tensordot", [a, b], attrs, self.pool.sizes[number], beside)
