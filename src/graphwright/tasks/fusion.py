"""Which operators a compiler makes one kernel of, from what descriptions say of them.

    x --> [ mul --> sum over the last dim --> rsqrt --> mul ] --> y     one kernel reads x, writes y

A kernel reads what comes from outside once, writes what is read outside, and keeps the rest on
chip. These join one, in the order of the graph (TorchInductor's rules):

    element-wise      with what it reads, or with who reads the same, over as many elements; an
                      operator that reads from two kernels makes them one
    a reduction       with what makes its elements, or with another reduction of them
    after one         if its rows stay on chip: the last dims, up to ROW elements; after another one
                      (the sums of a batch norm) only what is as small as its result
    after a product   the addition of a vector, as matrix libraries do it

Fusion within `modules` joins what one call of a module does, as the kernels of PyTorch's own norms,
losses and optimizers with ``fused=True`` do in eager code; `foreach` does the same, but optimizers
take one operator at a time for all parameters, which is PyTorch's default; fusion of `all` is what
a compiler does.

Not one that depends on a kernel through something else: that would have to run before and after it.
What optimizers do to many parameters is launched for all of them at once.

`Fused` says it operator by operator, so that a step of fused kernels is timed as the same blocks:
the parts of a kernel follow each other, each with what it adds. A tensor that a plan moves between
two of them is priced by its move alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphwright.describe import Iteration, Types, arithmetic, iteration
from graphwright.ir import CONSTANT_OP, Attrs, Graph, Phase

Fusion = Literal["none", "modules", "foreach", "all"]
EAGER: frozenset[Fusion] = frozenset({"modules", "foreach"})
"""What PyTorch runs without a compiler."""
ROW = 1 << 17
"""The most elements of a row that a kernel reduces and then reads again from its caches."""
VECTOR = 64
"""A vector has this many times fewer elements than the matrix that it is added to, or fewer."""


@dataclass(frozen=True, slots=True)
class Fused:
    """Which share of inputs and outputs stays inside the kernel of an operator; whether it launches
    that."""

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    launches: bool


ALONE = Fused((), (), True)
"""An operator that is a kernel of its own, and not one that a compiler writes."""


@dataclass(slots=True, eq=False)
class _Kernel:
    """Operators that run as one, over `size` elements.

    bits      its number as a bit, with those of kernels that it has taken over
    behind    the kernels that what it reads from outside depends on
    across    what it has reduced in other ways than row by row, and what is made of that
    """

    phase: Phase
    module: str
    size: int
    bits: int
    is_product: bool = False
    behind: int = 0
    members: list[int] = field(default_factory=list)
    across: set[str] = field(default_factory=set)

    def like(self, other: _Kernel) -> bool:
        """Whether two kernels belong to the same pass of one call of a module."""
        return self.module == other.module and self.phase is other.phase


def fuse(
    graph: Graph,
    types: Sequence[Types],
    attrs: Sequence[Attrs],
    is_view: Sequence[bool],
    root: Mapping[str, str],
    readers: Mapping[str, Sequence[tuple[int, int]]],
    within: Fusion,
) -> list[Fused]:
    """What of each node stays inside a kernel."""
    if within == "none":
        return [ALONE] * len(graph.nodes)
    fusion = _Fusion(graph, types, attrs, is_view, root, within in EAGER)
    for i in range(len(graph.nodes)):
        fusion.add(i)
    kept = _Kept(fusion, readers)
    return [
        Fused((0.0,) * len(node.inputs), (0.0,) * len(node.outputs), False)
        if within == "foreach" and node.phase is Phase.UPDATE
        else kept.of_node(i)
        for i, node in enumerate(graph.nodes)
    ]


class _Fusion:
    """The kernels of the nodes so far: who has made a tensor, who was the last to read it."""

    def __init__(
        self,
        graph: Graph,
        types: Sequence[Types],
        attrs: Sequence[Attrs],
        is_view: Sequence[bool],
        root: Mapping[str, str],
        within_modules: bool,
    ) -> None:
        self.within_modules = within_modules
        self.graph, self.types, self.attrs = graph, types, attrs
        self.is_view, self.root = is_view, root
        self.kernel_of: dict[int, _Kernel] = {}
        self._made_by: dict[str, int] = {}
        self._read_by: dict[str, int] = {}
        self._behind: dict[str, int] = {}
        self._count = 0
        self._iterations: dict[tuple[str, Attrs, Types], Iteration] = {}

    def made_by(self, name: str) -> _Kernel | None:
        """The kernel that makes a tensor, or what it is a view of."""
        return self.kernel_of.get(self._made_by.get(self.root[name], -1))

    def maker(self, name: str) -> int | None:
        """The node of a kernel that makes a tensor."""
        return self._made_by.get(name)

    def add(self, i: int) -> None:
        """Place one more node."""
        node = self.graph.nodes[i]
        given = [name for name in node.inputs if name is not None]
        kernel = None
        if not self.is_view[i] and node.op != CONSTANT_OP:
            kernel = self._place(i, given)
        behind = 0
        for name in given:
            behind |= self._behind.get(name, 0)
        if kernel is not None:
            behind |= kernel.bits
            for name in given:
                self._read_by[self.root[name]] = i
            self._made_by.update(dict.fromkeys(node.outputs, i))
        self._behind.update(dict.fromkeys(node.outputs, behind))

    def _place(self, i: int, given: Sequence[str]) -> _Kernel | None:
        """The kernel that a node joins, or a new one; none for what is never fused."""
        runs = self._iteration(i)
        if runs.shape == "other":
            return None
        kernel: _Kernel | None = None
        for candidate in self._candidates(given) if runs.shape != "product" else ():
            if kernel is None:
                if self._may_join(i, candidate, runs):
                    kernel = candidate
            elif self._are_one(kernel, candidate, runs) and self._may_join(i, candidate, runs):
                self._merge(kernel, candidate)
        if kernel is None:
            bits, self._count = 1 << self._count, self._count + 1
            node = self.graph.nodes[i]
            is_product = runs.shape == "product"
            kernel = _Kernel(node.phase, node.module, runs.size, bits, is_product)
        self.kernel_of[i] = kernel
        kernel.members.append(i)
        for name in given:
            if self.made_by(name) is not kernel:
                kernel.behind |= self._behind.get(name, 0)
        by_rows = runs.row is not None and runs.row <= ROW
        if (runs.shape in ("reduction", "rows") and not by_rows) or any(
            self.root[name] in kernel.across for name in given
        ):
            kernel.across.update(self.graph.nodes[i].outputs)
        return kernel

    def _candidates(self, given: Sequence[str]) -> list[_Kernel]:
        """The kernels of what a node reads, the newest first, then those that read the same."""
        makers = sorted({self._made_by.get(self.root[n], -1) for n in given}, reverse=True)
        others = sorted({self._read_by.get(self.root[n], -1) for n in given}, reverse=True)
        found = (self.kernel_of.get(i) for i in (*makers, *others))
        return list({id(kernel): kernel for kernel in found if kernel is not None}.values())

    def _may_join(self, i: int, kernel: _Kernel, runs: Iteration) -> bool:
        node = self.graph.nodes[i]
        given = [
            (n, t) for n, t in zip(node.inputs, self.types[i].inputs, strict=True)
            if n is not None and t is not None
        ]  # fmt: skip
        inside = {n for n, _ in given if self.made_by(n) is kernel}
        outside = [(n, t) for n, t in given if n not in inside]
        if self.within_modules and kernel.module != node.module:
            return False
        if kernel.phase is not node.phase or any(
            self._behind.get(n, 0) & kernel.bits for n, _ in outside if not self._is_free(n, kernel)
        ):
            return False
        if kernel.is_product:
            vectors = [t.numel * VECTOR <= runs.size for _, t in outside]
            adds = bool(inside and vectors) and all(vectors)
            return adds and runs == Iteration("elementwise", kernel.size)
        smaller = bool(inside) and runs.shape == "elementwise" and runs.size < kernel.size
        if any(self.root[n] in kernel.across for n in inside):
            return smaller
        return smaller or runs.size == kernel.size

    def _is_free(self, name: str, kernel: _Kernel) -> bool:
        """Whether a tensor comes from another kernel that depends on this one in no way."""
        other = self.made_by(name)
        return other is not None and not other.behind & kernel.bits

    def _are_one(self, kernel: _Kernel, other: _Kernel, runs: Iteration) -> bool:
        """Whether two kernels could run as one."""
        return (
            kernel.size == other.size == runs.size
            and not (kernel.is_product or other.is_product)
            and not (kernel.behind & other.bits or other.behind & kernel.bits)
        )

    def _merge(self, kernel: _Kernel, other: _Kernel) -> None:
        kernel.bits |= other.bits
        kernel.behind |= other.behind
        kernel.across |= other.across
        kernel.members = sorted((*kernel.members, *other.members))
        for i in other.members:
            self.kernel_of[i] = kernel

    def is_cast(self, i: int) -> bool:
        """Whether a node only changes the dtype."""
        return arithmetic(self.graph.nodes[i].op, self.attrs[i], self.types[i]).kind == "cast"

    def is_elementwise(self, i: int) -> bool:
        """Whether a node makes one tensor, each element from elements of the same place."""
        node = self.graph.nodes[i]
        return len(node.outputs) == 1 and self._iteration(i).shape == "elementwise"

    def _iteration(self, i: int) -> Iteration:
        key = (self.graph.nodes[i].op, self.attrs[i], self.types[i])
        known = self._iterations.get(key)
        if known is None:
            known = self._iterations[key] = iteration(*key)
        return known


class _Kept:
    """What stays inside the kernels of a fusion.

    What is made element by element from no more bytes than it has itself is not stored: a kernel
    that needs it reads those and makes it again. So a batch norm reads its input once for each
    sum and once to scale it, and never writes the difference from the mean.
    """

    def __init__(self, fusion: _Fusion, readers: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self.fusion, self.graph, self.readers = fusion, fusion.graph, readers
        self.leaves = frozenset((*self.graph.outputs, *self.graph.updates.values()))
        self._again: dict[str, dict[str, int] | None] = {}

    def of_node(self, i: int) -> Fused:
        node, kernel = self.graph.nodes[i], self.fusion.kernel_of.get(i)
        in_bulk = node.phase is Phase.UPDATE
        if kernel is None or (kernel.is_product and len(kernel.members) == 1):
            return ALONE
        read = self._read_before(i, kernel)
        inputs: list[float] = []
        for name, type in zip(node.inputs, self.fusion.types[i].inputs, strict=True):
            if name is None or type is None or self.fusion.made_by(name) is kernel:
                inputs.append(0.0 if name is None else 1.0)
                continue
            parts = self._parts(name, type.nbytes, kernel)
            missing = sum(nbytes for part, nbytes in parts.items() if part not in read)
            inputs.append(max(0.0, 1.0 - missing / max(type.nbytes, 1)))
            read |= parts.keys()
        return Fused(
            tuple(inputs),
            tuple(float(self._stays(i, name, kernel)) for name in node.outputs),
            i == kernel.members[0] and not in_bulk,
        )

    def _read_before(self, i: int, kernel: _Kernel) -> set[str]:
        """What members of a kernel before node `i` have read."""
        read: set[str] = set()
        for member in kernel.members:
            if member >= i:
                break
            for name, type in zip(
                self.graph.nodes[member].inputs, self.fusion.types[member].inputs, strict=True
            ):
                if name is not None and type is not None:
                    read |= self._parts(name, type.nbytes, kernel).keys()
        return read

    def _parts(self, name: str, nbytes: int, kernel: _Kernel) -> dict[str, int]:
        """The stored tensors that a kernel reads where it needs one, and their bytes."""
        root = self.fusion.root[name]
        made = self.fusion.maker(root)
        if made is None or self.fusion.kernel_of[made] is kernel:
            return {root: nbytes}
        again = self._made_again(root)
        if again is None or not self._may_redo(made, kernel):
            return {root: nbytes}
        return again

    def _may_redo(self, made: int, kernel: _Kernel) -> bool:
        """Whether a kernel may do again what another one does: a cast, or its own module's work.

        Eager kernels know nothing of other modules, and a step keeps what the backward pass needs.
        """
        by = self.fusion.kernel_of[made]
        if kernel.is_product:
            return False
        if self.fusion.is_cast(made):
            return len(by.members) > 1 and (not self.fusion.within_modules or by.like(kernel))
        return by.like(kernel) if self.fusion.within_modules else by.phase is kernel.phase

    def _made_again(self, root: str) -> dict[str, int] | None:
        """What a tensor is made from, element by element, if that has no more bytes than itself."""
        if root not in self._again:
            self._again[root] = None
            made = self.fusion.maker(root)
            if made is not None and self.fusion.is_elementwise(made):
                parts: dict[str, int] = {}
                types = self.fusion.types[made]
                for name, type in zip(self.graph.nodes[made].inputs, types.inputs, strict=True):
                    if name is not None and type is not None:
                        source = self.fusion.root[name]
                        parts.update(self._made_again(source) or {source: type.nbytes})
                if sum(parts.values()) <= types.outputs[0].nbytes * (1 + 1 / VECTOR):
                    self._again[root] = parts
        return self._again[root]

    def _stays(self, i: int, name: str, kernel: _Kernel) -> bool:
        """Whether nobody reads what node `i` makes but the same kernel, and those that do it again,
        directly or by views."""
        if name in self.leaves:
            return False
        for reader, _ in self.readers[name]:
            if self.fusion.is_view[reader]:
                if not all(self._stays(i, n, kernel) for n in self.graph.nodes[reader].outputs):
                    return False
                continue
            other = self.fusion.kernel_of.get(reader)
            if other is kernel:
                continue
            if other is None or self._made_again(self.fusion.root[name]) is None:
                return False
            if not self._may_redo(i, other):
                return False
        return bool(self.readers[name])
