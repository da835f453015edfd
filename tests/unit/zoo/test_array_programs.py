"""Array programs compute the same with NumPy and PyTorch, and in parts on several workers."""

import numpy as np
import pytest
import torch

import threads
from graphwright.partition.tiling import plan_tilings
from graphwright.zoo.programs import PROGRAMS, TORCH


def arrays(program):
    rng = np.random.default_rng(7)
    made = []
    for shape in program.small:
        match program.domain:
            case "positive":
                made.append(rng.uniform(0.5, 2.0, shape))
            case "counts":
                made.append(rng.integers(0, 4, shape).astype(float))
            case "definite" if len(shape) == 2 and shape[0] == shape[1]:
                root = rng.standard_normal(shape)
                made.append(root @ root.T + shape[0] * np.eye(shape[0]))
            case _:
                made.append(rng.standard_normal(shape))
    return made


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_the_same_in_every_namespace(name):
    program = PROGRAMS[name]
    given = arrays(program)
    expected = flat(program.function(np, *given, **program.options))
    torch.set_default_dtype(torch.float64)
    try:
        tensors = [torch.from_numpy(array) for array in given]
        found = flat(program.function(TORCH, *tensors, **program.options))
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(np.abs(other.numpy()), np.abs(one), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_in_parts(name):
    program = PROGRAMS[name]
    graph = program.capture(program.small)
    given = [torch.from_numpy(array).float() for array in arrays(program)]
    plan = plan_tilings(graph, 2, small=0)
    worst, tensor = threads.largest_difference(
        graph, plan.plan, dict(zip(graph.inputs, given, strict=True)), steps=1
    )
    assert worst < 1e-3, tensor


def test_results_are_what_they_are_called():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((12, 12))
    definite, target = root @ root.T + np.eye(12), rng.standard_normal((12, 1))
    factor = PROGRAMS["cholesky"].function(np, definite)
    np.testing.assert_allclose(factor, np.linalg.cholesky(definite))
    solution = PROGRAMS["conjugate gradient"].function(np, definite, target, steps=12)
    np.testing.assert_allclose(solution, np.linalg.solve(definite, target), rtol=1e-4, atol=1e-4)
    low = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 20))
    _, values = PROGRAMS["ssvd"].function(np, low, rng.standard_normal((20, 3)))
    singular = np.linalg.svd(low, compute_uv=False)[:3]
    np.testing.assert_allclose(np.sort(values)[::-1], singular)
