"""Read a piece of an inference graph into a pool: which ATen calls are operators of substitutions?

A call is an operator where it is that operator's own call for the shapes at hand, or the same in
other words:

    conv2d, linear, addmm      a product, and a bias that is spread and added
    batch norm                 of a convolution: its factors go into the weights, the rest is a bias
    cat of n                   n - 1 concatenations of two
    clone, dropout at rest     nothing

Everything else is a `call`, which stays as it is. Inputs of a piece are numbered in the order in
which they are met, so that equal pieces of a model are one graph of the pool and searched once.

Merging a batch norm into its convolution is the one step here that no rule proves: with s = w /
sqrt(var + eps), (conv(x, k) - mean) s + b = conv(x, k s) + (b - mean s), as convolution is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphwright.ir import Attr, Attrs, Graph, Node, TensorType
from graphwright.rewrite.optimize.pool import AtenCall, Pool, is_random
from graphwright.rewrite.optimize.regions import Region

SAME = frozenset(
    {"aten.clone", "aten.alias", "aten.detach", "aten.contiguous", "aten.lift_fresh_copy"}
)
BATCH_NORMS = frozenset({"aten.batch_norm", "aten._native_batch_norm_legit_no_training"})


class Reader:
    """Reads one piece; `leaves` are the names of what it is given, by their numbers, and `last` are
    tensors that have their channels last in memory.
    """

    def __init__(
        self,
        pool: Pool,
        graph: Graph,
        fixed: Iterable[str],
        last: frozenset[str] = frozenset(),
    ) -> None:
        self.pool, self.graph, self.fixed, self.last = pool, graph, frozenset(fixed), last
        self.leaves: list[str] = []
        self._numbers: dict[str, int] = {}

    def read(self, region: Region) -> tuple[int, ...]:
        """The outputs of a piece, as terms of the pool."""
        for node in region.nodes:
            self._read(node)
        return tuple(self._term(name) for name in region.outputs)

    def _term(self, name: str) -> int:
        """The term of a tensor: a weight is read with all that it is made from."""
        known = self._numbers.get(name)
        if known is not None:
            return known
        maker = self.graph.producer(name)
        if maker is not None and name in self.fixed:
            self._read(maker)
            return self._numbers[name]
        number = self._leaf(name)
        self.leaves.append(name)
        self._numbers[name] = number
        return number

    def _leaf(self, name: str) -> int:
        """A tensor that is given."""
        type = self.graph.tensors[name].type
        fixed, last = name in self.fixed, name in self.last
        return self.pool.input(len(self.leaves), type, fixed=fixed, last=last)

    def _drawn(self, node: Node) -> str:
        """What tells a call from another like it, empty where they give the same."""
        return node.name if is_random(node.op) else ""

    def _read(self, node: Node) -> None:
        terms = [None if name is None else self._term(name) for name in node.inputs]
        made = self._operator(node, terms) if _is_float(self.graph, node) else None
        if made is not None:
            self._numbers[node.outputs[0]] = made
            unread = node.outputs[1:]
            assert not any(self.graph.consumers(name) for name in unread)
            return
        given = [t for t in terms if t is not None]
        places = iter(range(len(given)))
        inputs = tuple(None if t is None else next(places) for t in terms)
        types = tuple(self.graph.tensors[name].type for name in node.outputs)
        made_by = AtenCall(node.op, Attrs(node.attrs), inputs, types, self._drawn(node))
        call = self.pool.call(made_by, given)
        for which, name in enumerate(node.outputs):
            self._numbers[name] = self.pool.item(call, which)

    # -- operators -----------------------------------------------------------------------------

    def _operator(self, node: Node, terms: Sequence[int | None]) -> int | None:
        pool, attrs = self.pool, node.attrs
        given = tuple(t for t in terms if t is not None)
        shape = self.graph.tensors[node.outputs[0]].type.shape
        match node.op:
            case "aten.conv2d" | "aten.convolution":
                return self._convolution(node, terms)
            case op if op in BATCH_NORMS:
                return self._batch_norm(node, terms)
            case "aten.linear":
                return self._linear(terms, shape)
            case "aten.addmm" if attrs.get("beta", 1) == 1 == attrs.get("alpha", 1):
                return self._biased(pool.make("matmul", (), given[1:]), given[0])
            case "aten.mm" | "aten.bmm" | "aten.matmul":
                return pool.make("matmul", (), given)
            case "aten.add.Tensor" if attrs.get("alpha", 1) == 1 and len(given) == 2:
                return self._same_shape("ewadd", given)
            case "aten.mul.Tensor" if len(given) == 2:
                if not pool.sizes[given[1]] and pool.sizes[given[0]]:
                    return pool.make("smul", (), given)
                return self._same_shape("ewmul", given)
            case "aten.relu":
                return pool.make("relu", (), given)
            case "aten.dropout" if attrs["train"] is False:
                return given[0]
            case op if op in SAME:
                return given[0]
            case "aten.t" | "aten.transpose.int" | "aten.permute":
                return self._transposed(node, given)
            case "aten.cat":
                return self._concatenated(attrs, given)
            case "aten.avg_pool2d" | "aten.max_pool2d":
                return self._pooled(node, given[0], shape)
            case _:
                return None

    def _same_shape(self, op: str, given: tuple[int, ...]) -> int | None:
        a, b = given
        return self.pool.make(op, (), given) if self.pool.sizes[a] == self.pool.sizes[b] else None

    def _biased(self, product: int | None, bias: int | None) -> int | None:
        """A product and a vector along its channels; rows have theirs at the end."""
        if product is None or bias is None:
            return product
        sizes = self.pool.sizes[product]
        if self.pool.sizes[bias] != (sizes[1],) or not self.pool.fixed[bias]:
            return None
        return self.pool.make("ewadd", (), (product, self.pool.spread(bias, sizes, 1)))

    def _convolution(self, node: Node, terms: Sequence[int | None]) -> int | None:
        attrs = node.attrs
        x, w = terms[0], terms[1]
        assert x is not None and w is not None
        stride, padding = _pair(attrs["stride"]), _pair(attrs["padding"])
        if attrs.get("transposed") or stride is None or padding is None:
            return None
        if attrs["dilation"] != (1, 1) or stride[0] != stride[1] or len(self.pool.sizes[w]) != 4:
            return None
        sizes = self.pool.sizes[w]
        for kind in ("valid", "same"):
            pads = tuple((k - 1) // 2 if kind == "same" else 0 for k in sizes[2:])
            if pads == padding:
                made = self.pool.make("conv", (stride[0], kind, "none"), (x, w))
                shape = self.graph.tensors[node.outputs[0]].type.shape
                if made is None or self.pool.sizes[made] != shape:
                    return None
                if attrs["groups"] != self.pool.sizes[x][1] // sizes[1]:
                    return None
                return self._biased(made, terms[2])
        return None

    def _batch_norm(self, node: Node, terms: Sequence[int | None]) -> int | None:
        """Factors go into the weights of the convolution before it, and the rest is a bias."""
        pool = self.pool
        x, weight, bias, mean, variance = terms[:5]
        name = node.inputs[0]
        if node.attrs.get("training") or None in (x, mean, variance) or name is None:
            return None
        assert x is not None and mean is not None and variance is not None
        if len(self.graph.consumers(name)) > 1 or name in self.graph.outputs:
            return None
        if any(self.graph.consumers(other) for other in node.outputs[1:]):
            return None
        held = pool.bias_of(x)
        conv, old = (x, None) if held is None else held
        entry = pool.entries[conv]
        vectors = [v for v in (weight, bias, mean, variance) if v is not None]
        if entry.op != "conv" or not all(pool.fixed[v] for v in (*vectors, entry.args[1])):
            return None
        if any(pool.dtypes[v] != pool.dtypes[x] for v in vectors):
            return None
        sizes = pool.sizes[x]
        factor = self._vector("aten.add.Scalar", [variance], other=node.attrs["eps"], alpha=1)
        factor = self._vector("aten.rsqrt", [factor])
        if weight is not None:
            factor = self._vector("aten.mul.Tensor", [factor, weight])
        shift = self._vector("aten.neg", [self._vector("aten.mul.Tensor", [mean, factor])])
        if bias is not None:
            shift = self._vector("aten.add.Tensor", [shift, bias], alpha=1)
        kernel = pool.sizes[entry.args[1]]
        scaled = pool.make("ewmul", (), (entry.args[1], pool.spread(factor, kernel, 0)))
        assert scaled is not None
        made = pool.make("conv", entry.params, (entry.args[0], scaled))
        added: int | None = pool.spread(shift, sizes, 1)
        if old is not None:
            more = pool.make("ewmul", (), (old, pool.spread(factor, sizes, 1)))
            assert more is not None and added is not None
            added = pool.make("ewadd", (), (more, added))
        assert made is not None and added is not None
        return pool.make("ewadd", (), (made, added))

    def _vector(self, op: str, args: Sequence[int], **attrs: Attr) -> int:
        """A call on vectors of one size."""
        type = self.pool.type(args[0])
        call = AtenCall(op, Attrs(attrs), tuple(range(len(args))), (type,))
        return self.pool.item(self.pool.call(call, args), 0)

    def _linear(self, terms: Sequence[int | None], shape: tuple[int, ...]) -> int | None:
        """A product with the transposed weights; leading dims are joined for it."""
        pool = self.pool
        x, w, bias = (*terms, None)[:3]
        assert x is not None and w is not None
        sizes = pool.sizes[x]
        weights = pool.make("transpose", (), (w,))
        if weights is None or len(sizes) < 2:
            return None
        rows = x
        if len(sizes) > 2:
            count = 1
            for size in sizes[:-1]:
                count *= size
            rows = self._view(x, (count, sizes[-1]))
        made = self._biased(pool.make("matmul", (), (rows, weights)), bias)
        return made if made is None or len(sizes) == 2 else self._view(made, shape)

    def _view(self, x: int, shape: tuple[int, ...]) -> int:
        """The same elements in another shape; a view of a view is one."""
        pool = self.pool
        entry = pool.entries[x]
        if entry.op == "item" and (call := pool.entries[entry.args[0]]).op == "call":
            made = call.params[0]
            assert isinstance(made, AtenCall)
            if made.op == "aten.view":
                x = call.args[0]
        if pool.sizes[x] == shape:
            return x
        type = TensorType(shape, pool.dtypes[x])
        view = AtenCall("aten.view", Attrs({"size": shape}), (0,), (type,))
        return pool.item(pool.call(view, (x,)), 0)

    def _transposed(self, node: Node, given: tuple[int, ...]) -> int | None:
        rank = len(self.pool.sizes[given[0]])
        attrs = node.attrs
        if node.op == "aten.permute":
            order = [d % rank for d in _integers(attrs["dims"])]
            swaps = order == [*range(rank - 2), rank - 1, rank - 2]
        elif node.op == "aten.t":
            swaps = rank == 2
        else:
            dims = _integers((attrs["dim0"], attrs["dim1"]))
            swaps = sorted(d % rank for d in dims) == [rank - 2, rank - 1]
        return self.pool.make("transpose", (), given) if swaps else None

    def _concatenated(self, attrs: Mapping[str, Attr], given: tuple[int, ...]) -> int | None:
        rank = len(self.pool.sizes[given[0]])
        dim = attrs["dim"]
        assert isinstance(dim, int)
        axis = dim % rank if rank == 4 else dim % rank - rank
        if axis not in (0, 1, -1, -2) or len(given) < 2:
            return None
        made: int | None = given[0]
        for part in given[1:]:
            made = None if made is None else self.pool.make("concat", (axis,), (made, part))
        return made

    def _pooled(self, node: Node, x: int, shape: tuple[int, ...]) -> int | None:
        attrs = node.attrs
        kernel, stride, padding = (_pair(attrs[k]) for k in ("kernel_size", "stride", "padding"))
        stride = stride or kernel
        averages = node.op == "aten.avg_pool2d"
        if kernel is None or stride is None or padding is None or attrs["ceil_mode"]:
            return None
        if kernel[0] != kernel[1] or stride[0] != stride[1]:
            return None
        if averages:
            if attrs["divisor_override"] is not None:
                return None
            if padding != (0, 0) and not attrs["count_include_pad"]:
                return None
        elif _pair(attrs["dilation"]) != (1, 1):
            return None
        pads = {(0, 0): "valid", ((kernel[0] - 1) // 2,) * 2: "same"}
        if padding not in pads:
            return None
        op = "pool_avg" if averages else "pool_max"
        made = self.pool.make(op, (kernel[0], stride[0], pads[padding]), (x,))
        return made if made is not None and self.pool.sizes[made] == shape else None


def _integers(value: Attr) -> list[int]:
    assert isinstance(value, tuple)
    return [v for v in value if isinstance(v, int)]


def _pair(value: Attr) -> tuple[int, int] | None:
    """Two integers, of one or two that are given."""
    match value:
        case int(n) | (int(n),):
            return n, n
        case (int(a), int(b)):
            return a, b
        case _:
            return None


def _is_float(graph: Graph, node: Node) -> bool:
    types = [graph.tensors[n].type for n in (*node.inputs, node.outputs[0]) if n is not None]
    return all(t.dtype.startswith(("float", "bfloat")) and 0 not in t.shape for t in types)
