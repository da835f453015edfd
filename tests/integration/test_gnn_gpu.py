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
ends = [("u", "e"), ("v", "u"), ("e", "v")]
cases = [("mul", ends[number % 3], pair, "uve") for number, pair in enumerate(shapes)]
cases += [("mul", pair_of_ends, shapes[1], "uve") for pair_of_ends in ends[:1] + ends[2:]]
for number, (op, pair) in enumerate(product(("copy", "add", "sub", "dot", "div"), shapes)):
    cases.append((op, ends[number % 3], pair, "veu"[number // 2 % 3]))  # each kernel takes time to compile
move = lambda x: None if x is None else x.to(device)


def compare(op, a, a_end, b, b_end, note, out_ends="uve", both=True):
    b_shape = () if b is None else tuple(b.shape[1:])
    shape = result_shape(op, tuple(a.shape[1:]), b_shape)
    for out_end in out_ends:
        for wanted in {shape, tuple(a.shape[1:]) if op in ("mul", "copy") else shape}:
            theirs = choice.contract(host, op, a, a_end, b, b_end, out_end, wanted)
            ours = gpu.contract(there, op, move(a), a_end, move(b), b_end, out_end, wanted)
            torch.testing.assert_close(ours.cpu(), theirs, msg=f"{note} {out_end}", equal_nan=True)
    for least in (False, True) if both else (len(note) % 2 == 0,):
        theirs = choice.extreme(host, op, a, a_end, b, b_end, least, shape)
        ours = gpu.extreme(there, op, move(a), a_end, move(b), b_end, least, shape)
        torch.testing.assert_close(ours[0].cpu(), theirs[0], equal_nan=True)
        assert (ours[1].cpu() == theirs[1]).all(), f"{note} {least}: {ours[1]} {theirs[1]}"


for op, (a_end, b_end), (a_shape, b_shape), out_ends in cases:
    b_shape = a_shape if op == "dot" else b_shape
    a = torch.rand(counts[a_end], *a_shape) + 0.5
    b = None if op == "copy" else torch.rand(counts[b_end], *b_shape) + 0.5
    compare(op, a, a_end, b, b_end, f"{op} {a_end} {b_end} {a_shape}", out_ends, False)

# Of equal messages the first is chosen, of those that are no numbers the last; infinities are numbers.
ties = torch.randint(2, (6, 5)).double()
ties[0, 0], ties[1, 1], ties[2, 2], ties[:, 3] = float("nan"), float("inf"), -float("inf"), -float("inf")
compare("copy", ties, "u", None, "e", "ties")
half = torch.randn(6, 40).half()
compare("copy", half, "u", None, "e", "half")
wide = torch.randn(6, 300)
compare("mul", wide, "u", torch.rand(20, 1), "e", "wide")
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
