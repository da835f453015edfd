"""What all tests share: importable helper modules, Hypothesis profiles, golden files that can be written anew."""

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "property"), str(HERE.parent / "benchmarks")]

# local:N goes by estimates, the same everywhere, in modules of tests as well.
os.environ["GRAPHWRIGHT_MEASURE"] = "0"
os.environ["GRAPHWRIGHT_COSTS"] = str(HERE / "no-costs-while-importing.sqlite")
torch.set_num_threads(1)  # tensors are tiny here: threads would only wait for each other

# A test run is the same every time; `make test-all` hunts for what it has missed.
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("steady", max_examples=40, derandomize=True, database=None, **COMMON)
settings.register_profile("hunt", max_examples=300, **COMMON)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


def pytest_configure() -> None:
    """Modules of tests have no packages: two files of one name would hide each other."""
    names = [path.name for path in HERE.rglob("test_*.py")]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise pytest.UsageError(f"there are two files {', '.join(twice)}: give one another name")


@pytest.fixture(autouse=True)
def costs_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """No test reads or writes the user's measured costs."""
    path = tmp_path_factory.getbasetemp() / "costs" / f"{os.urandom(8).hex()}.sqlite"
    monkeypatch.setenv("GRAPHWRIGHT_COSTS", str(path))


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with the golden file of that name, or write it under --regenerate."""

    def check(name: str, text: str) -> None:
        path = HERE / "golden" / "files" / name
        if request.config.getoption("--regenerate"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{name} is not there; make golden writes it"
        assert text == path.read_text(), f"{name} has changed; if that is meant, make golden"

    return check
