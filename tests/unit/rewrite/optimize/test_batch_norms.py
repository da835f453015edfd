"""Merging a batch norm into a convolution, by symbolic execution of the descriptions."""

from dataclasses import replace

import numpy as np
import pytest

from graphwright.describe import evaluate_stacked, require, types_of
from graphwright.ir import GraphBuilder, Role, TensorType
from graphwright.rewrite import rewrite_graph
from graphwright.rewrite.substitutions.validate.reals import REALS
from graphwright.symbolic import prove as logic
from inference_models import flops

NORM = "aten._native_batch_norm_legit_no_training"


def root(values):
    """An unknown for the square root of each value, the same for equal ones."""
    return np.frompyfunc(lambda value: logic.real(f"sqrt({value})"), 1, 1)(values)


SYMBOLS = replace(REALS, functions={**REALS.functions, "sqrt": root})


def outputs_of(graph, given):
    """The outputs of a graph over real symbols, by the descriptions of its operators."""
    values = dict(given)
    for node in graph.nodes:
        op, attrs = node.op, dict(node.attrs)
        if op == "aten.conv2d":
            op, attrs = "aten.convolution", {**attrs, "transposed": False, "output_padding": (0, 0)}
        inputs = [None if name is None else values[name][None] for name in node.inputs]
        made = evaluate_stacked(require(op), attrs, inputs, types_of(graph, node), SYMBOLS)
        values[node.outputs[0]] = np.asarray(made, object)[0]
    return [values[name] for name in graph.outputs]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_merging_holds_for_all_real_values(groups, kernel, biased, affine):
    build = GraphBuilder()
    x = build.add_input("x", TensorType((1, 2, kernel, kernel), "float32"), Role.INPUT)
    shapes = {"w": (2, 2 // groups, kernel, kernel), "mean": (2,), "variance": (2,)}
    shapes |= {"b": (2,)} if biased else {}
    shapes |= {"scale": (2,), "shift": (2,)} if affine else {}
    held = {
        name: build.add_input(name, TensorType(shape, "float32"), Role.PARAMETER)
        for name, shape in shapes.items()
    }
    attrs = {
        "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "transposed": False,
        "output_padding": (0, 0), "groups": groups,
    }  # fmt: skip
    image, none = TensorType((1, 2, 1, 1), "float32"), TensorType((0,), "float32")
    (conv,) = build.add("aten.convolution", [x, held["w"], held.get("b")], attrs, image)
    read = [conv, *(held.get(name) for name in ("scale", "shift", "mean", "variance"))]
    normed, _, _ = build.add(NORM, read, {"momentum": 0.1, "eps": 1.0}, [image, none, none])
    graph = build.build([normed])
    merged = rewrite_graph(graph, flops, rules=()).graph
    assert NORM not in {node.op for node in merged.nodes}
    given = {}
    for name in graph.inputs:
        array = given[name] = np.empty(graph.tensors[name].type.shape, object)
        for at in np.ndindex(array.shape):
            array[at] = logic.real(f"{name}{list(at)}")
    pairs = zip(outputs_of(graph, given), outputs_of(merged, given), strict=True)
    elements = [(a, b) for one, other in pairs for a, b in zip(one.flat, other.flat, strict=True)]
    assert logic.prove_equal(elements, 60).verdict is logic.Verdict.PROVED
