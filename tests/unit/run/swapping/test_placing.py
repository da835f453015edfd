"""Operators write into the arena where PyTorch has a kernel for it, and never over what they still read."""

import pytest
import torch

from graphwright.run.program.swapping.placing import layouts_made, write_into

CALLS = {
    "aten.mm": ([(3, 4), (4, 5)], {}),
    "aten.add.Tensor": ([(3, 4), (4,)], {"alpha": 2}),
    "aten.relu": ([(3, 4)], {}),
    "aten.clone": ([(3, 4)], {}),
    "aten._to_copy": ([(3, 4)], {"dtype": "float64"}),
    "aten.max_pool2d_with_indices": ([(2, 3, 4, 4)], {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}),
    "aten.sum.dim_IntList": ([(3, 4)], {"dim": (1,), "keepdim": False, "dtype": None}),
    "aten._log_softmax": ([(3, 4)], {"dim": 1, "half_to_float": False}),
}  # fmt: skip


def made_by(op, inputs, attrs):
    from graphwright.aten import call_kernel

    return call_kernel(op, inputs, attrs)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("op", CALLS)
def test_what_is_written_is_what_the_operator_makes_in_its_layout(op, turned):
    shapes, attrs = CALLS[op]
    inputs = [torch.randn(shape) for shape in shapes]
    if turned:  # the same values, in another order of memory
        inputs = [t.mT.contiguous().mT if t.dim() > 1 else t for t in inputs]
    wanted = made_by(op, inputs, attrs)
    like = layouts_made(op, inputs, attrs)
    assert like is not None
    outs = [torch.empty_like(t, device="cpu") for t in like]
    call = write_into(op, inputs, attrs, outs, by_element=False)
    assert call is not None
    for _ in range(2):
        [out.view(torch.uint8).fill_(255) if out.is_contiguous() else out.fill_(7) for out in outs]
        call()
        for out, right in zip(outs, wanted, strict=True):
            assert out.stride() == right.stride() and out.dtype == right.dtype
            assert torch.equal(out, right)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("aten.convolution", {}),
        ("aten.native_layer_norm", {}),
        ("aten.embedding_dense_backward", {}),
    ],
)
def test_variants_that_allocate_and_copy_are_not_taken(op, attrs):
    assert layouts_made(op, [torch.ones(2, 2)], attrs) is None


def test_a_result_takes_the_place_of_an_operand_only_element_by_element_in_one_layout():
    memory = torch.randn(64)
    a, b = memory[:16].view(4, 4), memory[32:48].view(4, 4)
    add = {"alpha": 1}
    assert write_into("aten.add.Tensor", [a, b], add, [a], by_element=True) is not None
    assert write_into("aten.add.Tensor", [a, b], add, [a], by_element=False) is None
    assert write_into("aten.add.Tensor", [a.T, b], add, [a], by_element=True) is None
    assert write_into("aten.mm", [a, b], {}, [a], by_element=False) is None
    shifted = memory[8:24].view(4, 4)
    assert write_into("aten.add.Tensor", [a, b], add, [shifted], by_element=True) is None
    right = (a + b).clone()
    call = write_into("aten.add.Tensor", [a, b], add, [a], by_element=True)
    call()
    assert torch.equal(a, right)


def test_random_draws_are_those_of_the_operator():
    x, attrs = torch.empty(5, 7), {"p": 0.3}
    torch.manual_seed(3)
    wanted = made_by("aten.bernoulli.p", [x], attrs)[0]
    out = torch.empty(5, 7)
    torch.manual_seed(3)
    write_into("aten.bernoulli.p", [x], attrs, [out], by_element=False)()
    assert torch.equal(out, wanted)
