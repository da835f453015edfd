"""Extra memory of a built-in pair, and of layers with a function in between, does not grow with edges times features."""

import json
import subprocess
import sys

import pytest

from limits import HANG

PROGRAM = """
import json, sys
from pathlib import Path
import torch
import graphwright.gnn as dgl
import graphwright.gnn.function as fn
from graphwright.gnn.nn import GATv2Conv, GINEConv

def memory(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024

def run(edges, wide, message, reduce):
    nodes = 200
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    g.create_formats_()
    x = torch.randn(nodes, wide, requires_grad=True)
    g.ndata["x"], g.edata["w"] = x, torch.rand(edges, 1, requires_grad=True)
    wider = torch.rand(edges, wide) if message[0] == "GINEConv" else None
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    name, *fields = message
    if name == "GATv2Conv":
        GATv2Conv(wide, wide // 2, 2, allow_zero_in_degree=True)(g, x).sum().backward()
    elif name == "GINEConv":
        GINEConv()(g, x, wider).sum().backward()
    else:
        g.update_all(getattr(fn, name)(*fields, "m"), getattr(fn, reduce)("m", "h"))
        g.ndata["h"].sum().backward()
    return memory("VmHWM") - before

pairs = [(["copy_u", "x"], "sum"), (["u_mul_e", "x", "w"], "sum"), (["u_add_v", "x", "x"], "sum"),
         (["u_mul_e", "x", "w"], "max"), (["u_dot_v", "x", "x"], "sum"), (["e_sub_u", "w", "x"], "mean"),
         (["GATv2Conv"], "attention"), (["GINEConv"], "sum")]
edges, wide = 400_000, 128
for message, reduce in pairs:
    run(1000, 8, message, reduce)
print(json.dumps([(message[0], reduce, run(edges, wide, message, reduce)) for message, reduce in pairs]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from /proc")
def test_messages_are_never_stored():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stderr[-2000:]
    messages = 400_000 * 128 * 4  # 205 MB
    for name, reduce, extra in json.loads(done.stdout):
        assert extra < messages / 8, f"{name} {reduce}: {extra / 1e6:.0f} MB"
