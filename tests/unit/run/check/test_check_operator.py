"""`check_operator` finds true descriptions true in every precision, and names what is wrong with a call."""

import pytest
import torch

from graphwright.describe import make_description, properties
from graphwright.describe.language.syntax import Sum
from graphwright.errors import InvalidCall, WrongDescription
from graphwright.ir import TensorType
from graphwright.run import check_operator, complete_call, infer_types
from graphwright.run.check import parts

PRECISIONS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "num_splits"),
    [
        ("aten.mm", {}, [(6, 40), (40, 8)], 3),
        ("aten.gelu", {}, [(4, 6)], 2),
        ("aten.sum.dim_IntList", {"dim": (0,)}, [(300, 4)], 2),
        ("aten._softmax", {"dim": 1, "half_to_float": False}, [(4, 30)], 1),
        ("aten._to_copy", {"dtype": "bfloat16"}, [(4, 6)], 2),
        ("aten.max_pool2d_with_indices", {"kernel_size": 2}, [(2, 3, 6, 6)], 2),
    ],
)
def test_true_in_every_precision(dtype, op, attrs, shapes, num_splits):
    inputs = [draw(*shape, dtype=dtype) for shape in shapes]
    assert len(check_operator(op, attrs, inputs)) == num_splits


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_wrong_in_every_precision(dtype):
    wrong = make_description(
        "aten.mm", lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j] + 0.1)
    )
    inputs = [draw(4, 6, dtype=dtype), draw(6, 5, dtype=dtype)]
    with pytest.raises(WrongDescription, match="by its description differs"):
        check_operator("aten.mm", {}, inputs, description=wrong)


def test_a_tolerance_that_is_given_counts():
    inputs = [draw(4, 60, dtype=torch.float32), draw(60, 5, dtype=torch.float32)]
    with pytest.raises(WrongDescription):
        check_operator("aten.mm", {}, inputs, tolerance=1e-12)


def test_a_part_of_another_dtype_is_wrong(monkeypatch):
    monkeypatch.setattr(parts, "hide_rows", lambda value, held, dims: value.to(torch.int64))
    table, index = draw(6, 3) > 0, torch.tensor([0, 4, 5])
    with pytest.raises(
        WrongDescription, match=r"along x.0, .* has the types .*int64.*, not .*bool"
    ):
        check_operator("aten.index_select", {"dim": 0}, [table, index])


def test_truth_values_do_not_pass_on_as_terms():
    for dtype, terms in ((torch.bool, 0), (torch.int64, 1)):
        types = infer_types(
            "aten._to_copy", [TensorType((4,), str(dtype)[6:])], {"dtype": "float64"}
        )
        attrs = complete_call("aten._to_copy", {"dtype": "float64"}, [0])[0]
        assert len(properties("aten._to_copy", attrs, types).linear) == terms


def test_parameters_of_a_model_can_be_given():
    assert check_operator("aten.mm", {}, [draw(4, 6).requires_grad_(), draw(6, 5)])


X = draw(3, 4)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "message"),
    [
        (
            "aten.mm",
            {},
            [X],
            r"needs mat2 \(tensor 1\); 1 of 2 tensors given. Its schema: aten::mm",
        ),
        ("aten.mm", {}, [X, X, X], r"takes 2 tensors \(self, mat2\); 3 given"),
        ("aten.mm", {}, [X, X], "mat1 and mat2 shapes cannot be multiplied"),
        ("aten.mm", {}, [X.numpy(), X.T], "input 0 is a numpy.ndarray, not a torch.Tensor"),
        ("aten.mm", {"dim": 0}, [X, X.T], "has no attribute 'dim'; it has none"),
        ("aten._softmax", {"dim": 0}, [X], "needs the attribute half_to_float"),
        ("aten._softmax", {"dim": 7, "half_to_float": False}, [X], "Dimension out of range"),
        ("aten._to_copy", {"dtype": "float31"}, [X], "'float31' is not a dtype"),
        ("aten.cat", {}, [], "expected a non-empty list"),
        ("aten.scatter.src", {"dim": 0}, [X], "needs index"),
    ],
)
def test_calls_that_the_operator_does_not_take(op, attrs, inputs, message):
    with pytest.raises(InvalidCall, match=message):
        check_operator(op, attrs, inputs)


def test_a_call_is_completed_from_the_schema():
    attrs, inputs = complete_call("aten.avg_pool2d", {"kernel_size": 3}, ["x"])
    assert attrs["kernel_size"] == (3, 3)
    assert attrs["padding"] == (0, 0)
    assert attrs["ceil_mode"] is False
    assert inputs == ["x"]
    _, inputs = complete_call("aten.native_layer_norm", {"normalized_shape": [4], "eps": 1e-5}, [1])
    assert inputs == [1, None, None]


def test_outputs_are_inferred_without_allocating():
    huge = TensorType((1 << 20, 1 << 20), "bfloat16")
    assert infer_types("aten.mm", [huge, huge], {}).outputs == (huge,)
