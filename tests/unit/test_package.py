"""The package as a whole: quick import, small surface, closed rooms, dependencies in one place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import graphwright as gw

SOURCE = Path(gw.__file__).parent


def test_import_takes_under_half_a_second_of_the_processor_and_no_torch():
    program = (
        "import sys, time; start = time.process_time(); import graphwright; "
        "print(time.process_time() - start, 'torch' in sys.modules)"
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
    assert len(gw.__all__) <= 20
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


def test_rooms_are_entered_by_the_front_door():
    """Between two packages, imports name a package, not a module inside it; lazy imports may."""
    modules = {_module(path): path for path in SOURCE.rglob("*.py")}
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    past = []
    for name, path in modules.items():
        if name == "graphwright":
            continue
        inside = name.split(".") if name in packages else name.split(".")[:-1]
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.ImportFrom) and statement.module in modules:
                target = statement.module.split(".")
                shared = sum(1 for _ in _common(inside, target))
                door = ".".join(target[: shared + 1])
                if door in packages and door != statement.module:
                    past.append(f"{name}: {statement.module} (import from {door})")
    assert not past


def test_no_folder_has_grown_flat():
    """A folder has at most a dozen entries, but for lists of operators and of models."""
    flat = {
        folder.relative_to(SOURCE).as_posix(): entries
        for folder in SOURCE.rglob("*")
        if folder.is_dir()
        and folder.name not in ("library", "zoo", "presets", "__pycache__")
        and (entries := _entries(folder)) > 12
    }
    assert not flat


def _entries(folder):
    return sum(p.suffix == ".py" or (p / "__init__.py").exists() for p in folder.iterdir()) - 1


def _module(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _common(first, second):
    for a, b in zip(first, second, strict=False):
        if a != b:
            return
        yield a
