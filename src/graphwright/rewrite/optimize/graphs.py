"""Optimise an inference graph: read it piece by piece, search each piece, write what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Literal, get_args

from graphwright.describe import Types
from graphwright.errors import InvalidOption
from graphwright.ir import PERSISTENT_ROLES, Graph, GraphBuilder, Role
from graphwright.rewrite.optimize.backtracking import ALPHA, Found, backtrack
from graphwright.rewrite.optimize.layouts import ChannelsLast, Price, layouts_of
from graphwright.rewrite.optimize.patterns import Matcher, patterns_of, usual_patterns
from graphwright.rewrite.optimize.pool import Pool, is_steady
from graphwright.rewrite.optimize.reading import Reader
from graphwright.rewrite.optimize.regions import Region, cut
from graphwright.rewrite.optimize.saturation import saturate, saturating
from graphwright.rewrite.optimize.writing import Writer
from graphwright.rewrite.substitutions import Rule

Algorithm = Literal["backtracking", "saturation"]
"""How graphs are searched: one after the other, or all at once in an e-graph."""
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
NODES = 10
"""Nodes of an e-graph for each graph of the budget."""

Tell = Callable[[str, int, int], None]
"""What is done, how much of it, of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """An optimised graph and how it came about.

    `original` is the cost of the graph as it was given, `merged` that after batch norms and biases
    have become part of convolutions and products, `cost` that after all rules; each in seconds.
    `applied` counts the rules by their numbers, over all pieces.
    """

    graph: Graph
    cost: float
    merged: float
    original: float
    applied: dict[int, int]
    pieces: int
    distinct: int
    seen: int
    seconds: float


def rewrite_graph(
    graph: Graph,
    price: Price,
    *,
    last: ChannelsLast | None = None,
    rules: Iterable[Rule] | None = None,
    algorithm: Algorithm = "backtracking",
    alpha: float = ALPHA,
    budget: int = 1000,
    seconds: float = float("inf"),
    tell: Tell = lambda what, done, total: None,
) -> Rewritten:
    """The cheapest graph that rules lead to; a piece may take its share of the seconds.

    `budget` is how many graphs backtracking looks at in a piece, and a tenth of the nodes that an
    e-graph may have. With `last` each call has images in the layout that is cheapest for the whole:
    a piece is given them as the graph before the rules would make them.
    """
    started = monotonic()
    fixed = fixed_tensors(graph)
    before = None if last is None else layouts_of(graph, price, last, fixed)
    pool = Pool(price, last)
    search = _search(algorithm, pool, rules, alpha, budget)
    regions = cut(graph, fixed)
    alone = tuple(name for name in graph.outputs if name in fixed)
    if alone:
        regions.append(Region((), alone))
    read = []
    for region in regions:
        reader = Reader(pool, graph, fixed, frozenset() if before is None else before.made)
        read.append((reader.read(region), reader.leaves))
    distinct = list(dict.fromkeys(outputs for outputs, _ in read))
    found: dict[tuple[int, ...], Found] = {}
    for done, outputs in enumerate(distinct):
        tell("searching", done, len(distinct))
        left = started + seconds - monotonic()
        deadline = monotonic() + left / (len(distinct) - done)
        found[outputs] = search(outputs, deadline)
    build = GraphBuilder()
    for name in graph.inputs:
        tensor = graph.tensors[name]
        build.add_input(name, tensor.type, tensor.role, tensor.of)
    names = {name: name for name in graph.inputs}
    writer = Writer(pool, build)
    for region, (outputs, leaves) in zip(regions, read, strict=True):
        written = writer.write(found[outputs].graph, [names[leaf] for leaf in leaves])
        names.update(zip(region.outputs, written, strict=True))
    applied = Counter(pattern.rule for outputs, _ in read for pattern in found[outputs].applied)
    return Rewritten(
        graph=build.build(_outputs(build, graph, names)),
        cost=sum(found[outputs].cost for outputs, _ in read),
        merged=sum(found[outputs].original for outputs, _ in read),
        original=cost_of(graph, price) if before is None else before.cost,
        applied=dict(applied.most_common()),
        pieces=len(regions),
        distinct=len(distinct),
        seen=sum(each.seen for each in found.values()),
        seconds=monotonic() - started,
    )


def _search(
    algorithm: Algorithm, pool: Pool, rules: Iterable[Rule] | None, alpha: float, budget: int
) -> Callable[[tuple[int, ...], float], Found]:
    """A search over graphs of a pool, of which it may remember what it has matched."""
    patterns = usual_patterns() if rules is None else patterns_of(rules)
    match algorithm:
        case "backtracking":
            matcher = Matcher(pool, patterns)
            return lambda graph, deadline: backtrack(
                matcher, graph, alpha=alpha, budget=budget, deadline=deadline
            )
        case "saturation":
            taken = saturating(patterns)
            return lambda graph, deadline: saturate(
                pool, taken, graph, nodes=NODES * budget, deadline=deadline
            )
    raise InvalidOption(
        f"algorithm={algorithm!r}: it has to be {' or '.join(map(repr, ALGORITHMS))}"
    )


def _outputs(build: GraphBuilder, graph: Graph, names: dict[str, str]) -> list[str]:
    """The names of all outputs; what is an input, or returned twice, is copied."""
    taken = {*graph.inputs}
    outputs: list[str] = []
    for name in graph.outputs:
        made = names[name]
        if made in taken:
            (made,) = build.add("aten.clone", [made], {}, graph.tensors[name].type)
        taken.add(made)
        outputs.append(made)
    return outputs


def fixed_tensors(graph: Graph) -> frozenset[str]:
    """Weights, and all that depends on weights alone."""
    given = PERSISTENT_ROLES | {Role.CONSTANT}
    fixed = {name for name in graph.inputs if graph.tensors[name].role in given}
    for node in graph.nodes:
        inputs = [name for name in node.inputs if name is not None]
        if fixed.issuperset(inputs) and is_steady(node.op, inputs):
            fixed.update(node.outputs)
    return frozenset(fixed)


def cost_of(graph: Graph, price: Price) -> float:
    """Seconds of all nodes that depend on more than weights."""
    fixed = fixed_tensors(graph)
    total = 0.0
    for node in graph.nodes:
        if not fixed.issuperset(node.outputs):
            inputs = (None if n is None else graph.tensors[n].type for n in node.inputs)
            outputs = (graph.tensors[n].type for n in node.outputs)
            total += price(node.op, node.attrs, Types(tuple(inputs), tuple(outputs)))
    return total
