"""Splits are true for any description: parts joined equal the whole, for expressions drawn at random.

The reference evaluator is the kernel. It traces the description again on a part's own sizes and attributes, so whatever the
language can say is tested, whether or not an operator is like that. A read outside of a tensor is an error here.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graphwright.describe import Types, linear_sets, reference_of, splits_of, trace
from graphwright.describe.reference import _Evaluator
from graphwright.errors import DescriptionError, MisalignedSplit
from graphwright.ir import TensorType
from graphwright.run.check.parts import run_split
from graphwright.symbolic import Poly
from random_descriptions import RandomCall

NO_CALL = (DescriptionError, ValueError, ArithmeticError, LookupError, TypeError)


class Outside(LookupError):
    """A read that leaves its tensor where nothing is said to lie there."""


@pytest.fixture(autouse=True)
def strict_reads(monkeypatch):
    read = _Evaluator._access

    def strict(self, access):
        shape = self.inputs[access.tensor].shape
        for size, i in zip(shape, access.index, strict=True):
            at = np.asarray(i.evaluate(self.values) if isinstance(i, Poly) else self.evaluate(i))
            if access.fill is None and np.any((at < 0) | (at >= size)):
                raise Outside(access)
        return read(self, access)

    monkeypatch.setattr(_Evaluator, "_access", strict)


def run_reference(split, part, local):
    """A kernel: the description itself, on the shapes it is given."""
    call = split.call
    outputs = [tuple(piece.size for piece in region) for region in part.outputs]
    types = Types(
        tuple(TensorType(tuple(t.shape), i.dtype) for t, i in zip(local, call.types.inputs, strict=True)),
        tuple(TensorType(shape, o.dtype) for shape, o in zip(outputs, call.types.outputs, strict=True)),
    )  # fmt: skip
    arrays = [t.numpy() for t in local]
    found = reference_of(call.trace.description, part.attrs, arrays, types)
    return tuple(torch.from_numpy(np.array(array)) for array in found)


def draw_cuts(random, split):
    """Cuts at any aligned positions."""
    inner = range(1, split.max_parts)
    chosen = sorted(random.sample(inner, random.randint(1, len(inner))))
    return (0, *(position * split.quantum for position in chosen), split.extent)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(
    max_examples=500,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=False))
def test_parts_of_a_random_description_make_the_whole(random):
    call = RandomCall(random)
    description, inputs = call.description(), call.inputs()
    try:
        whole = reference_of(description, call.call_attrs, inputs, call.types)
    except NO_CALL:
        assume(False)
    assume(all(np.all(np.abs(array) < 1e9) for array in whole))
    tensors = [torch.from_numpy(array) for array in inputs]
    for split in splits_of(description, call.call_attrs, call.types):
        cuts = draw_cuts(random, split)
        try:
            for lo, end in pairwise(cuts):
                split.part(lo, end)
        except MisalignedSplit:
            continue  # said before anything runs
        joined = run_split(split, tensors, cuts, run_reference)
        for want, got in zip(whole, joined, strict=True):
            np.testing.assert_allclose(got.numpy(), want, err_msg=f"{split} at {cuts}")
    for arguments in linear_sets(trace(description, call.call_attrs, call.types)):
        first = [a * 0.25 + 1 if n in arguments else a for n, a in enumerate(inputs)]
        second = [a - b if n in arguments else a for n, (a, b) in enumerate(zip(inputs, first, strict=True))]  # fmt: skip
        if all(n < call.num_reals for n in arguments):
            halves = [
                reference_of(description, call.call_attrs, h, call.types) for h in (first, second)
            ]
            for want, a, b in zip(whole, *halves, strict=True):
                np.testing.assert_allclose(a + b, want, rtol=1e-6, atol=1e-6)
