"""Triton's kernels compute what the CPU's do: interpreted on any machine, and run where there is a GPU."""

import os
import subprocess
import sys

import pytest
import torch

from limits import HANG

PROGRAM = """
import sys
from itertools import product
import torch
from graphwright.gnn.kernels import choice, gpu
from graphwright.gnn.kernels.broadcast import result_shape
from graphwright.gnn.storage import Relation

device = sys.argv[1]
gpu.PART = 4  # rows in several parts
torch.manual_seed(0)
dst = torch.cat([torch.zeros(11, dtype=torch.int64), torch.randint(4, (9,))])
src = torch.randint(6, (20,))
host = Relation(num_src=6, num_dst=6, made_coo=(src, dst))
there = host.convert(device=device)
counts = {"u": 6, "v": 6, "e": 20}
shapes = [((3,), (3,)), ((2, 4), (2, 1)), ((2, 1), (2, 4)), ((), ()), ((2, 1, 3), (2, 1))]
for op, (a_end, b_end), (a_shape, b_shape) in product(
    ("copy", "add", "sub", "mul", "div", "dot"), (("u", "e"), ("v", "u"), ("e", "v")), shapes
):
    b_shape = a_shape if op == "dot" else b_shape
    a = torch.rand(counts[a_end], *a_shape) + 0.5
    b = None if op == "copy" else torch.rand(counts[b_end], *b_shape) + 0.5
    shape = result_shape(op, a_shape, b_shape)
    move = lambda x: None if x is None else x.to(device)
    for out_end in ("u", "v", "e"):
        for wanted in {shape, a_shape if op in ("mul", "copy") else shape}:
            theirs = choice.contract(host, op, a, a_end, b, b_end, out_end, wanted)
            ours = gpu.contract(there, op, move(a), a_end, move(b), b_end, out_end, wanted)
            torch.testing.assert_close(ours.cpu(), theirs, msg=f"{op} {a_end} {b_end} {out_end} {a_shape}")
    for least in (False, True):
        theirs = choice.extreme(host, op, a, a_end, b, b_end, least, shape)
        ours = gpu.extreme(there, op, move(a), a_end, move(b), b_end, least, shape)
        torch.testing.assert_close(ours[0].cpu(), theirs[0])
        assert (ours[1].cpu() == theirs[1]).all()
print("same")
"""


def run(device, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, device],
        capture_output=True, text=True, timeout=HANG, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.stdout.endswith("same\n"), done.stderr[-3000:]


def test_interpreted():
    pytest.importorskip("triton", reason="Triton is not installed")
    run("cpu", TRITON_INTERPRET="1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu():
    pytest.importorskip("triton", reason="Triton is not installed")
    run("cuda")
