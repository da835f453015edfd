"""Margin losses of one row and of many, with every reduction, and their gradients."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, integer, real, size
from graphwright.aten.invoke import call_kernel


@case("aten.multi_margin_loss")
def multi_margin(draw: Draw) -> Call:
    classes, rows = size(draw), size(draw)
    x, target = real(draw, rows, classes), integer(draw, rows, high=classes)
    if draw(st.integers(0, 3)) == 0:
        x, target = x[0], target[0] if draw(st.booleans()) else target[:1]
        if draw(st.booleans()):
            x, target, classes = x[0], torch.zeros_like(target), 1
    weight = real(draw, classes) if draw(st.booleans()) else None
    attrs = {
        "p": draw(st.sampled_from([1, 2])),
        "margin": draw(st.sampled_from([1, 0.5])),
        "reduction": draw(st.integers(0, 2)),
    }
    return attrs, [x, target, weight]


@case("aten.multi_margin_loss_backward")
def multi_margin_backward(draw: Draw) -> Call:
    attrs, inputs = multi_margin(draw)
    (out,) = call_kernel("aten.multi_margin_loss", inputs, attrs)
    return attrs, [real(draw, *out.shape), *inputs]


@case("aten.multilabel_margin_loss_forward")
def multilabel_margin(draw: Draw) -> Call:
    classes, rows = size(draw), size(draw)
    x, target = real(draw, rows, classes), integer(draw, rows, classes, low=-1, high=classes)
    if draw(st.integers(0, 3)) == 0:
        x, target = x[0], target[0]
        if draw(st.booleans()):
            x, target = x[0], target[0].clamp(max=0)
    return {"reduction": draw(st.integers(0, 2))}, [x, target]


@case("aten.multilabel_margin_loss_backward")
def multilabel_margin_backward(draw: Draw) -> Call:
    attrs, inputs = multilabel_margin(draw)
    out, is_target = call_kernel("aten.multilabel_margin_loss_forward", inputs, attrs)
    return attrs, [real(draw, *out.shape), *inputs, is_target]
