"""What all tests share: helper modules beside the tests are importable, golden files can be written anew."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "property")]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


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
