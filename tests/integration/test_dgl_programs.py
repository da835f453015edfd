"""Programs written for DGL train to the accuracy expected, with one line before them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from limits import HANG

FOLDER = Path(__file__).parent / "dgl_programs"
EXPECTED = {
    "gcn": 0.9, "gat": 0.85, "sage": 0.75, "gin": 0.95, "rgcn": 0.9, "treelstm": 0.9,
    "junction_trees": 0.9, "link_prediction": 0.75, "mini_batches": 0.85,
}  # fmt: skip
START = (
    "import sys, graphwright.gnn; sys.modules['dgl'] = graphwright.gnn; sys.path.insert(0, {folder!r}); "
    "import torch; torch.set_num_threads(1); import {name}; print({name}.main())"
)


def test_every_program_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*EXPECTED, "data"}


@pytest.mark.parametrize("name", EXPECTED)
def test_program_trains(name):
    if name == "mini_batches" and importlib.util.find_spec("graphwright.gnn.dataloading") is None:
        pytest.skip("needs graphwright.gnn.dataloading")
    program = START.format(folder=str(FOLDER), name=name)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) >= EXPECTED[name], done.stdout
