"""The package as a whole: a quick import, a small surface, dependencies where they belong."""

import subprocess
import sys
from pathlib import Path

import pytest

import graphwright as gw

SOURCE = Path(gw.__file__).parent


def test_import_takes_under_half_a_second_and_no_torch():
    program = (
        "import sys, time; start = time.perf_counter(); import graphwright; "
        "print(time.perf_counter() - start, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, torch_loaded = done.stdout.split()
    assert float(seconds) < 0.5
    assert torch_loaded == "False"


def test_analysing_a_graph_needs_no_torch():
    program = (
        "import sys; from graphwright import describe; from graphwright.ir import TensorType as T; "
        "t = describe.Types((T((4, 6), 'float32'), T((6, 8), 'float32')), (T((4, 8), 'float32'),)); "
        "print(len(describe.splits('aten.mm', {}, t)), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "False"]


def test_every_public_name_is_there():
    assert len(gw.__all__) < 25
    for name in gw.__all__:
        assert getattr(gw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'plann'"):
        _ = gw.plann


@pytest.mark.parametrize(
    ("word", "home"),
    [("torch.distributed", "run"), ("dask", "run"), ("z3", "symbolic/prove.py"), ("pickle", None)],
)
def test_imports_that_have_one_home(word, home):
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if home is None or not place.startswith(home):
            lines = [
                line
                for line in path.read_text().splitlines()
                if line.strip().startswith(("import ", "from "))
            ]
            assert not any(word in line.split("#")[0].split() for line in lines), place


def test_no_file_is_longer_than_600_lines():
    long = [p for p in SOURCE.rglob("*.py") if len(p.read_text().splitlines()) > 600]
    assert not long
