"""Keep apart the dims that PyTorch merges to call its kernels, so that each of them can be split.

A linear layer on `[batch, time, features]` reaches its kernel as a matrix product on
`[batch * time, features]`; attention multiplies `[batch * heads, ...]`. A range of such a merged
dim is a range of its outermost part, so that nothing inside it can be split. This pass moves each
merging view behind its readers, where it mostly meets the view that undoes it:

    view [5, 3, 8] -> [15, 8]     mm -> [15, 4]     add -> [15, 4]     view -> [5, 3, 4]
    matmul [5, 3, 4]              add [5, 3, 4]

A merged tensor `v` has a `Form`: the tensor `fine` that holds the same elements in finer dims, and
the sizes of its dims in groups, one group for each dim of `v`:

    v: [15, 8]      fine: [5, 3, 8]      sizes: ((5, 3), (8,))

A rule (see `rules`) writes a node on the fine forms of its inputs. The node's own result becomes a
view of the fine one: readers without a rule read it, and it is dropped where there are none. Where
a view gives a tensor its fine shape, it is that tensor and vanishes. A view that both merges and
splits is a view to the common refinement of both shapes, merged: [3, 8] -> [6, 4] is [3, 2, 4] with
the sizes ((3, 2), (4,)).

The same elements are multiplied and added, in another order at most: values are equal up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphwright.describe import Types, find, properties
from graphwright.ir import Attr, Edit, Graph, Node, Phase, Role, TensorType

Sizes = tuple[tuple[int, ...], ...]
"""For each dim of a tensor, the sizes of the dims that it merges."""

Rule = Callable[["Unmerging", Node], bool]
"""Writes a node on fine tensors; False where there is nothing to gain, and the node stays."""


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor's elements in finer dims: the name of the tensor that has them so."""

    fine: str
    sizes: Sizes


def flat(sizes: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """The shape that groups of sizes make one after the other."""
    return tuple(n for group in sizes for n in group)


def start(sizes: Sizes, dim: int) -> int:
    """The first fine dim of a merged one."""
    return len(flat(sizes[:dim]))


def merges(group: tuple[int, ...]) -> bool:
    """Whether a dim is made of two or more that could be split."""
    return sum(n > 1 for n in group) > 1


def refinement(source: Sequence[int], target: Sequence[int]) -> Sizes | None:
    """The finest dims of a view in groups, one for each dim of `target`; None where they do not
    fit.

    [5, 3, 8] seen as [15, 2, 4] is ((5, 3), (2,), (4,)). Dims of size 1 stay where `source` has
    them.
    """
    sizes: list[list[int]] = []
    left = list(reversed(source))
    for size in target:
        group: list[int] = []
        if size == 1 and left and left[-1] == 1:
            group.append(left.pop())
        while size > 1:
            if not left:
                return None
            n = left.pop()
            if size % n == 0:
                group.append(n)
                size //= n
            elif n % size == 0:
                group.append(size)
                left.append(n // size)
                size = 1
            else:
                return None
        sizes.append(group)
    if left and not sizes:
        return None
    sizes[-1:] = [sizes[-1] + left[::-1]] if sizes else []
    return tuple(map(tuple, sizes))


class Unmerging:
    """One walk over a graph, which `edit` writes anew; tensors are meant by their names."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edit = Edit(graph)
        self.forms: dict[str, Form] = {}
        self.transposed: dict[str, str] = {}
        self._inputs = set(graph.inputs)
        gradients = {f"{name}.grad" for name in graph.inputs}
        self.given_back = {*graph.outputs, *(gradients & graph.tensors.keys())}
        self._computed: dict[str, str] = {}  # the fine result of a node, by its merged one
        self._stands_for: dict[str, str] = {}  # a merged tensor in the dims that its readers see
        self._shaped: dict[tuple[str, tuple[int, ...]], str] = {}

    def run(self, rules: Mapping[str, Rule], otherwise: Rule) -> Graph:
        """Apply the rules of operators by their names, and `otherwise` to all other readers of
        merged tensors, in program order.
        """
        for old in self.graph.nodes:
            node = self.edit.updated(old)
            rule = rules.get(node.op)
            if rule is None and any(name in self.forms for name in node.inputs):
                rule = otherwise
            able = node.phase is not Phase.UPDATE and len(node.outputs) == 1
            if not (able and rule is not None and rule(self, node)):
                self.edit.keep(node)
        for name, tensor in self.edit.tensors.items():
            if tensor.of is not None and name not in self._inputs:
                of = self._of(name, tensor.of)
                self.edit.label(name, Role.ACTIVATION if of is None else tensor.role, of)
        return self.edit.build(renumber=True)

    # What rules ask for.

    def type(self, name: str) -> TensorType:
        """The type of a tensor, which may not be written yet."""
        return (self.edit.tensors.get(name) or self.graph.tensors[name]).type

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.type(name).shape

    def readers(self, name: str) -> list[str]:
        """The nodes of the old graph that read a tensor."""
        known = name in self.graph.tensors
        return [node.name for node in self.graph.consumers(name)] if known else []

    def sizes(self, name: str) -> Sizes:
        """A tensor's dims in groups."""
        form = self.forms.get(name)
        return tuple((n,) for n in self.shape(name)) if form is None else form.sizes

    def root(self, name: str) -> str:
        """What a tensor is a view of: a view of a view is a view."""
        node = self.edit.producer(name)
        return (node.inputs[0] or name) if node is not None and node.op == "aten.view" else name

    def shaped(self, name: str, sizes: Sizes, reader: Node) -> str:
        """The tensor with the dims that `sizes` name, by a view if it has none such yet."""
        shape = flat(sizes)
        if shape == self.shape(name):
            return name
        form = self.forms.get(name)
        fine = name if form is None else form.fine
        if self.shape(fine) == shape:
            return fine
        if self.is_uniform(name):
            made = self._made_anew(name, shape, reader)
            self._inherit(made, name)
            self.forms[name] = Form(made, sizes)
            self._computed[name] = made
            return made
        made = self.view(fine, shape, self.edit.producer(name), reader)
        if self.edit.nodes and made == self.edit.nodes[-1].name:
            self._stands_for[name] = made
            if self.edit.nodes[-1].phase is reader.phase:
                self._inherit(made, name)
        return made

    def view(self, fine: str, shape: tuple[int, ...], like: Node | None, reader: Node) -> str:
        """A view of a tensor; it belongs where `like` does, if that is in the reader's phase."""
        source = self.root(fine)
        if self.shape(source) == shape:
            return source
        key = (source, shape)
        if key not in self._shaped:
            place = like if like is not None and like.phase is reader.phase else reader
            type = TensorType(shape, self.type(fine).dtype)
            self._shaped[key] = self.edit.add(
                "aten.view", (source,), {"size": shape}, type, beside=place
            )
        return self._shaped[key]

    def is_uniform(self, name: str) -> bool:
        """Whether a tensor is one number everywhere by its making, so that it can be made anew with
        any shape.
        """
        node = self.edit.producer(name)
        if node is None or self.type(name).numel == 1 or len(node.outputs) > 1:
            return False
        if node.op == "aten.expand":
            return all(x is not None and self._is_number(x) for x in node.inputs)
        if node.op not in ("aten.full", "aten.view") and not self.is_elementwise(node):
            return False
        return all(x is None or self._is_number(x) or self.is_uniform(x) for x in node.inputs)

    def is_elementwise(self, node: Node) -> bool:
        """Whether an operator does the same to every element, whatever the dims are."""
        description = find(node.op)
        if description is None or description.restated:  # attributes that hold a shape
            return False
        inputs = [None if name is None else self.type(name) for name in node.inputs]
        outputs = [self.type(name) for name in node.outputs]
        call = properties(node.op, node.attrs, Types(tuple(inputs), tuple(outputs)))
        return call.elementwise and not call.random

    def _is_number(self, name: str) -> bool:
        """Whether a tensor can stand beside others of any shape."""
        type = self.type(name)
        return type.numel == 1 and type.rank < 2

    def _made_anew(self, name: str, shape: tuple[int, ...], reader: Node) -> str:
        """A uniform tensor of another shape."""
        node = self.edit.producer(name)
        assert node is not None
        if node.op == "aten.view":
            return self._made_anew(self.root(name), shape, reader)
        inputs = [
            x if x is None or self._is_number(x) else self._made_anew(x, shape, reader)
            for x in node.inputs
        ]
        key = (name, shape)
        if key not in self._shaped:
            place = node if node.phase is reader.phase else reader
            attrs = {**node.attrs, "size": shape} if "size" in node.attrs else node.attrs
            type = TensorType(shape, self.type(name).dtype)
            self._shaped[key] = self.edit.add(node.op, inputs, attrs, type, beside=place)
        return self._shaped[key]

    # What rules write.

    def write(
        self,
        node: Node,
        op: str,
        inputs: Sequence[str | None],
        attrs: Mapping[str, Attr],
        sizes: Sizes,
    ) -> bool:
        """Write a node on fine tensors; `sizes` are the dims of its result. True, for rules to
        return.
        """
        type = self.type(node.name)
        if flat(sizes) == type.shape:
            self.edit.keep(node, op=op, inputs=inputs, attrs=attrs)
            return True
        fine = self.edit.add(op, inputs, attrs, TensorType(flat(sizes), type.dtype), beside=node)
        self._inherit(fine, node.name)
        self._computed[node.name] = fine
        self.show(node, fine, sizes)
        self.edit.move(node.name, fine)
        return True

    def show(self, node: Node, fine: str, sizes: Sizes) -> None:
        """Make a node's result a view of a fine tensor, and remember its form."""
        shape = self.shape(node.name)
        self.forms[node.name] = Form(fine, sizes)
        self.edit.keep(node, op="aten.view", inputs=(self.root(fine),), attrs={"size": shape})

    def refine(self, node: Node, fine: str, sizes: Sizes) -> None:
        """Write a view that merges as one of `fine`, or of a view of it in the dims of `sizes`."""
        num_nodes = len(self.edit.nodes)
        shape = flat(sizes)
        finer = self.view(fine, shape, node, node) if shape != self.shape(fine) else fine
        if len(self.edit.nodes) > num_nodes:
            self._computed[node.name] = finer
        self.show(node, finer, sizes)

    def vanish(self, node: Node, merged: str, fine: str) -> None:
        """Let the result of a view be the fine tensor that it shows."""
        self.edit.replace(node.name, fine)
        is_computed = self._computed.get(merged) == fine
        if is_computed and merged not in self.given_back and self.readers(merged) == [node.name]:
            self._stands_for[node.name] = fine
        maker = self.edit.producer(fine)
        is_alike = maker is not None and maker.phase is node.phase
        if self._label(node.name)[1] is not None and (
            is_computed or (is_alike and self.edit.tensors[fine].of is None)
        ):
            self._inherit(fine, node.name)

    # Whose gradient a tensor is.

    def _inherit(self, new: str, old: str) -> None:
        """Let a tensor be what another one is."""
        self.edit.label(new, *self._label(old))

    def _label(self, name: str) -> tuple[Role, str | None]:
        """What a tensor's fine form is; that of an input, of its gradient or of its new value is
        not that itself.
        """
        tensor = self.edit.tensors.get(name) or self.graph.tensors[name]
        if tensor.of is not None and tensor.of not in self._inputs:
            return tensor.role, tensor.of
        return Role.CONSTANT if tensor.role is Role.CONSTANT else Role.ACTIVATION, None

    def _of(self, name: str, of: str) -> str | None:
        """Whose gradient a tensor is, now that what it was the gradient of may be gone."""
        for other in (self._computed.get(of), self._stands_for.get(of), of):
            if other is None or other in self.edit.replaced:
                continue
            if self.shape(other) == self.shape(name):
                return other
        return None
