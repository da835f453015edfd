"""Kernels that capture took apart, put together again where a plan leaves their parts together.

    sum --> div --> sub --> mul --> sum --> ... --> add        sixteen kernels for a batch norm,
    [                 native_batch_norm                ]        one where no device has to wait

Capture writes a batch norm as sums and element-wise operators, so that a plan may split its batch.
Where a plan does not, the parts would run one by one. `rejoin` writes the kernel itself in their
place, after the plan is chosen and before anything is timed or lowered: what is simulated is what
runs. A graph says which nodes were one kernel (`Graph.composites`), and its description says how
that splits. One is put together if

    its parts      do what they did when they were captured, and nobody else reads what is between,
                   unless it is an output but for its shape: a reader gets a view of that output
    one strategy   of the kernel needs its inputs, and makes its outputs, in the very shardings in
                   which the parts needed and made them: nothing else of the plan changes
    its place      in the program order lies behind its inputs and before its readers

Values are those of the parts up to rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from graphwright.describe import Combine, Concat, Types, is_described, splits
from graphwright.errors import GraphwrightError
from graphwright.ir import Attrs, Composite, Edit, Graph, Node, Role, region_between
from graphwright.plans import (
    Along,
    Choice,
    Mesh,
    Partial,
    Plan,
    Replicate,
    Sharding,
    Split,
    Strategy,
    check_plan,
    whole_mesh,
)
from graphwright.tasks import Placed, place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Join:
    """A composite that becomes one node, the nodes that it stands for, and where it runs; `views`
    of its outputs are written behind it."""

    composite: Composite
    members: tuple[Node, ...]
    strategy: Strategy
    views: tuple[_Join, ...] = ()

    @property
    def outputs(self) -> list[str]:
        """What there is once it has run."""
        made = (self.composite, *(view.composite for view in self.views))
        return [name for composite in made for name in composite.outputs if name is not None]


def rejoin(
    graph: Graph, plan: Plan, *, optimizer: bool = True, in_memory: bool = False
) -> tuple[Graph, Plan]:
    """The graph with composites in the place of their parts where the plan allows it, and the plan
    for that graph.

    Without `optimizer` updates of parameters and their state stay in parts; `in_memory`, those that
    read more at once than any other node, as they write over what they read.
    """
    check_plan(plan, graph)
    joins = find_joins(graph, plan)
    if not optimizer or in_memory:
        updated = (Role.PARAMETER, Role.OPTIMIZER_STATE)
        news = {new for old, new in graph.updates.items() if graph.tensors[old].role in updated}
        most = _most_read(graph) if optimizer else -1
        joins = tuple(
            join
            for join in joins
            if news.isdisjoint(join.composite.outputs)
            or _bytes_read(graph, join.composite.inputs) <= most
        )
    return write_joins(graph, plan, joins) if joins else (graph, plan)


def _most_read(graph: Graph) -> int:
    """The most bytes that a node reads: no step can do with less memory."""
    return max((_bytes_read(graph, node.inputs) for node in graph.nodes), default=0)


def _bytes_read(graph: Graph, names: Sequence[str | None]) -> int:
    return sum(graph.tensors[name].type.nbytes for name in {*names} if name is not None)


def find_joins(graph: Graph, plan: Plan) -> tuple[_Join, ...]:
    """The composites that a plan leaves together."""
    leaves = {*graph.outputs, *graph.updates.values()}
    joins: list[_Join] = []
    taken: set[str] = set()
    largest_first = sorted(_intact(graph), key=lambda pair: -len(pair[1]))
    for composite, region in largest_first:
        made = {name for name in composite.outputs if name is not None}
        members = [node for node in region if not _is_shared(graph, node, made)]
        names = {node.name for node in members}
        if not taken.isdisjoint(names) or not is_described(composite.op):
            continue
        inner = {name for node in members for name in node.outputs} - made
        if not inner.isdisjoint(leaves):
            continue
        read = {n for n in inner if any(r.name not in names for r in graph.consumers(n))}
        views = [view for node in members if (view := _view(graph, plan, node, read, members))]
        if len(views) < len(read):
            continue
        strategy = _strategy(graph, plan, composite, members)
        if strategy is not None:
            joins.append(
                _Join(
                    composite=composite,
                    members=tuple(members),
                    strategy=strategy,
                    views=tuple(views),
                )
            )
            taken |= names
    while isinstance(late := _order(graph, joins), _Join):
        joins.remove(late)
    return tuple(joins)


def _view(
    graph: Graph, plan: Plan, node: Node, read: Collection[str], members: Sequence[Node]
) -> _Join | None:
    """If `node` gives one of `read` another shape: how that is made from what the node makes."""
    inner, like = node.inputs[0] if node.inputs else None, node.name
    if node.op != "aten.view" or inner is None or inner not in read:
        return None
    type = graph.tensors[inner].type
    view = Composite("aten.view", (like,), Attrs({"size": type.shape}), (inner,), (type,), "")
    strategy = _strategy(graph, plan, view, members)
    maker = graph.producer(inner)
    if strategy is None or maker is None:
        return None
    return _Join(composite=view, members=(maker,), strategy=strategy)


def _is_shared(graph: Graph, node: Node, made: set[str]) -> bool:
    """Whether a part makes single numbers, which others may read as well: it stays as it is, and
    goes if nobody is left to read it."""
    return made.isdisjoint(node.outputs) and all(
        graph.tensors[name].type.numel <= 1 for name in node.outputs
    )


def _intact(graph: Graph) -> Iterator[tuple[Composite, list[Node]]]:
    """The composites whose parts do what they did when they were captured, and these parts."""
    for composite in graph.composites:
        between = region_between(graph.producer, graph.tensors, composite.inputs, composite.outputs)
        if between is not None and between[1] == composite.digest:
            yield composite, between[0]
    yield from _linear_layers(graph)


def _linear_layers(graph: Graph) -> Iterator[tuple[Composite, list[Node]]]:
    """A product with a transposed matrix and a vector that is added to its rows: a linear layer.

    Capture takes `addmm` apart, and passes write the product on dims that are not merged.
    """
    for add in graph.nodes:
        if add.op != "aten.add.Tensor" or add.attrs.get("alpha") != 1:
            continue
        product, bias = add.inputs
        maker = None if product is None else graph.producer(product)
        if product is None or bias is None or maker is None:
            continue
        turned = maker.inputs[1] if maker.op in ("aten.mm", "aten.matmul") else None
        turn = None if turned is None else graph.producer(turned)
        if turn is None or turn.op != "aten.permute" or turn.attrs.get("dims") != (1, 0):
            continue
        made = graph.tensors[add.name].type
        types = {graph.tensors[name].type.dtype for name in (product, bias, add.name)}
        is_row = graph.tensors[bias].type.shape == made.shape[-1:]
        if not is_row or len(types) != 1 or graph.tensors[product].type.shape != made.shape:
            continue
        inputs = (maker.inputs[0], turn.inputs[0], bias)
        yield Composite("aten.linear", inputs, {}, (add.name,), (made,), ""), [turn, maker, add]


# -- where it runs --------------------------------------------------------------------------------


def _strategy(
    graph: Graph, plan: Plan, composite: Composite, members: Sequence[Node]
) -> Strategy | None:
    """The strategy by which a kernel meets the same shardings as its parts, if there is one."""
    strategies = {plan.strategy(node.name) for node in members}
    meshes = {strategy.mesh for strategy in strategies}
    if len(meshes) != 1:
        return None
    mesh = next(iter(meshes)) or whole_mesh(plan.cluster)
    needed: dict[str, set[Sharding | None]] = {n: set() for n in composite.inputs if n is not None}
    made: dict[str, Sharding] = {}
    for node in members:
        placed = _placed(graph, node, plan.strategy(node.name), mesh)
        for name, sharding in zip(node.inputs, placed.inputs, strict=True):
            if name in needed:
                needed[name].add(sharding)
        made.update(zip(node.outputs, placed.outputs, strict=True))
    for name in needed.keys() & made.keys():
        needed[name].add(made[name])
    types = Types(
        tuple(None if n is None else graph.tensors[n].type for n in composite.inputs),
        composite.types,
    )
    wanted = tuple(None if name is None else made[name] for name in composite.outputs)
    attrs = composite.attrs
    assert isinstance(attrs, Attrs)
    choices = _choices(composite.op, attrs, types, wanted, mesh)
    strategy = Strategy(choices, next(iter(meshes)))
    try:
        placed = place(composite.op, attrs, types, strategy, mesh)
    except GraphwrightError:
        return None
    for name, sharding in zip(composite.inputs, placed.inputs, strict=True):
        if name is not None and not needed[name] <= {sharding}:
            return None
    for sharding, as_before in zip(placed.outputs, wanted, strict=True):
        if as_before is not None and sharding != as_before:
            return None
    return strategy


def _placed(graph: Graph, node: Node, strategy: Strategy, mesh: Mesh) -> Placed:
    types = Types(
        tuple(None if name is None else graph.tensors[name].type for name in node.inputs),
        tuple(graph.tensors[name].type for name in node.outputs),
    )
    attrs = node.attrs if isinstance(node.attrs, Attrs) else Attrs(node.attrs)
    return place(node.op, attrs, types, strategy, mesh)


@lru_cache(maxsize=4096)
def _choices(
    op: str, attrs: Attrs, types: Types, wanted: tuple[Sharding | None, ...], mesh: Mesh
) -> tuple[Choice, ...]:
    """For every axis the first split of a kernel that makes its outputs as they are wanted."""
    known = splits(op, attrs, types) if any(size > 1 for size in mesh.shape) else ()
    choices: list[Choice] = []
    for axis in range(len(mesh.shape)):
        placements = [None if s is None else s.placements[axis] for s in wanted]
        choice: Choice = Replicate()
        for split in known:
            if all(
                placement is None
                or (isinstance(join, Concat) and placement == Split(join.dim))
                or (isinstance(join, Combine) and placement == Partial(join.reducer))
                for join, placement in zip(split.joins, placements, strict=True)
            ):
                choice = Along(split.index)
                break
        choices.append(choice)
    return tuple(choices)


# -- in the program order -------------------------------------------------------------------------


def _order(graph: Graph, joins: Sequence[_Join]) -> list[Node | _Join] | _Join:
    """Nodes and composites in an order in which they can run, or one that finds no place in it.

    A composite comes where the first of its parts was, or as soon as all that it reads is there.
    """
    join_of = {node.name: join for join in joins for node in join.members}
    maker = {name: join for join in joins for name in join.outputs}
    order: list[Node | _Join] = []
    there: set[str | None] = {None, *graph.inputs}
    begun: list[_Join] = []
    left = list(joins)
    for node in graph.nodes:
        join = join_of.get(node.name)
        if join is not None:
            if join in left:
                left.remove(join)
                begun.append(join)
        else:
            missing = [name for name in node.inputs if name not in there]
            if missing:
                return maker[str(missing[0])]
            order.append(node)
            there.update(node.outputs)
        while ready := [each for each in begun if there.issuperset(each.composite.inputs)]:
            for each in ready:
                begun.remove(each)
                there.update(each.outputs)
            order += ready
    return begun[0] if begun else order


def write_joins(graph: Graph, plan: Plan, joins: Sequence[_Join]) -> tuple[Graph, Plan]:
    """Write composites in the place of their parts."""
    order = _order(graph, joins)
    assert isinstance(order, list)
    edit, strategies = Edit(graph), dict(plan.strategies)
    for item in order:
        if isinstance(item, Node):
            edit.keep(item)
            continue
        for node in item.members:
            strategies.pop(node.name, None)
        for join in (item, *item.views):
            strategies[edit.join(join.composite, join.members)] = join.strategy
    made = edit.build()
    there = {node.name for node in made.nodes}
    return made, replace(
        plan,
        strategies={name: s for name, s in strategies.items() if name in there},
        keep={name: kept for name, kept in plan.keep.items() if name in made.tensors},
        graph_hash=made.hash,
    )
