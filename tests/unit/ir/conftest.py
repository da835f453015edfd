"""Graphs that several tests of `ir` look at."""

from __future__ import annotations

import pytest

from graphwright.ir import Graph, GraphBuilder, Phase, Role, TensorType


@pytest.fixture
def training_step() -> Graph:
    """One linear layer, its gradient and a momentum step: every role but buffer and constant."""
    build = GraphBuilder()
    matrix = TensorType((5, 3), "float32")
    batch = TensorType((8, 3), "float32")
    x = build.add_input("inputs.0", TensorType((8, 5), "float32"))
    w = build.add_input("fc.weight", matrix, Role.PARAMETER)
    m = build.add_input("fc.weight.momentum", matrix, Role.OPTIMIZER_STATE, of=w)
    (y,) = build.add("aten.mm", [x, w], {}, batch, module="fc", layer=0)
    (loss,) = build.add(
        "aten.sum.dim_IntList",
        [y],
        {"dim": (0, 1), "keepdim": False, "dtype": None},
        TensorType((), "float32"),
        names="loss",
    )
    (dy,) = build.add(
        "aten.expand",
        [loss],
        {"size": (8, 3), "implicit": False},
        batch,
        phase=Phase.BACKWARD,
        role=Role.GRADIENT,
        of=y,
        partner=loss,
    )
    (xt,) = build.add(
        "aten.t", [x], {}, TensorType((5, 8), "float32"), phase=Phase.BACKWARD, partner=y
    )
    (dw,) = build.add(
        "aten.mm",
        [xt, dy],
        {},
        matrix,
        names="fc.weight.grad",
        phase=Phase.BACKWARD,
        role=Role.GRADIENT,
        of=w,
        partner=y,
        module="fc",
        layer=0,
    )
    (new_m,) = build.add(
        "aten.add.Tensor",
        [m, dw],
        {"alpha": 1},
        matrix,
        names="fc.weight.momentum.new",
        phase=Phase.UPDATE,
        role=Role.OPTIMIZER_STATE,
        of=m,
        parameter=w,
    )
    (new_w,) = build.add(
        "aten.add.Tensor",
        [w, new_m],
        {"alpha": -0.1},
        matrix,
        names="fc.weight.new",
        phase=Phase.UPDATE,
        role=Role.PARAMETER,
        of=w,
        parameter=w,
    )
    return build.build([loss, new_w, new_m], {w: new_w, m: new_m})
