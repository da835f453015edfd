"""Losses with every reduction, and their gradients."""

from collections.abc import Callable

from hypothesis import strategies as st

from cases import Call, Draw, case, shape
from cases.elementwise import POSITIVE, floats, maybe, units

LENGTH = POSITIVE.map(float)


def losses(ops: str, *makes: Callable, backward: bool = False, **attrs: st.SearchStrategy) -> None:
    """Draw calls of `ops` on equal shapes; the gradient of a reduced loss is a scalar."""

    @case(*ops.split())
    def draw_call(draw: Draw) -> Call:
        dims, reduction = shape(draw, high=5), draw(st.integers(0, 2))
        inputs = [make(draw, *dims) for make in makes]
        if backward:
            inputs.insert(0, floats(draw, *(() if reduction else dims)))
        return {"reduction": reduction} | {n: draw(s) for n, s in attrs.items()}, inputs


losses("aten.mse_loss aten.soft_margin_loss", floats, floats)
losses("aten.smooth_l1_loss", floats, floats, beta=LENGTH)
losses("aten.huber_loss", floats, floats, delta=LENGTH)
losses("aten.binary_cross_entropy", units, units, maybe(units))
losses("aten.binary_cross_entropy_with_logits", floats, units, maybe(units), maybe(units))
losses("aten.mse_loss_backward aten.soft_margin_loss_backward", floats, floats, backward=True)
losses("aten.smooth_l1_loss_backward", floats, floats, backward=True, beta=LENGTH)
losses("aten.huber_loss_backward", floats, floats, backward=True, delta=LENGTH)
losses("aten.binary_cross_entropy_backward", units, units, maybe(units), backward=True)
