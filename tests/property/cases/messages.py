"""Messages along edges: every operator, ends in every order, nodes without edges, results at nodes and at edges."""

import torch
from hypothesis import strategies as st

import graphwright.gnn  # its operators
from cases import Call, Draw, case, integer, real, size

assert graphwright.gnn
ENDS = st.sampled_from(["u", "v", "e"])
SHAPES = [
    ((3, 2), (3, 2)),
    ((3, 2), (3, 1)),
    ((1, 4), (3, 1)),
    ((4,), (2, 1)),
    ((), ()),
    ((2,), ()),
]


def away_from_zero(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() < 0.3, x + 0.6, x)


def drawn(draw: Draw) -> tuple[dict[str, object], list[torch.Tensor | None], dict[str, int]]:
    counts = {"u": size(draw), "v": size(draw), "e": size(draw, 1, 12)}
    src = integer(draw, counts["e"], high=counts["u"])
    dst = integer(draw, counts["e"], high=counts["v"])
    op = draw(st.sampled_from(["copy", "add", "sub", "mul", "div"]))
    shapes = draw(st.sampled_from(SHAPES))
    ends = draw(ENDS), draw(ENDS)
    a, b = (
        away_from_zero(real(draw, counts[end], *shape))
        for end, shape in zip(ends, shapes, strict=True)
    )
    made = shapes[0] if op == "copy" else torch.broadcast_shapes(*shapes)
    attrs = {"op": op, "a_end": ends[0], "b_end": ends[1], "made": made}
    return attrs, [src, dst, a, None if op == "copy" else b], counts


@case("graphwright.message_sum")
def message_sum(draw: Draw) -> Call:
    attrs, inputs, counts = drawn(draw)
    made = attrs.pop("made")
    end = draw(ENDS)
    if made and draw(st.booleans()):  # as gradients of what was broadcast are
        made = (*made[:-1], 1) if draw(st.booleans()) else made[1:]
    rows, first = counts[end], 0
    if end in "uv" and end not in (attrs["a_end"], attrs["b_end"]):  # some of the rows
        first = draw(st.integers(0, rows - 1))
        rows -= first
    return {**attrs, "out_end": end, "size": (rows, *made), "first": first}, inputs


@case("graphwright.message_extreme")
def message_extreme(draw: Draw) -> Call:
    attrs, inputs, counts = drawn(draw)
    made = attrs.pop("made")
    if attrs["op"] == "mul" and made and inputs[2].shape[-1:] == inputs[3].shape[-1:]:
        attrs["op"], made = "dot", (*made[:-1], 1)
    least = draw(st.booleans())
    return {**attrs, "least": least, "size": (counts["v"], *made), "first": 0}, inputs
