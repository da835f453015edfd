"""Mistakes on the command line end with one clear line and exit status 1 or 2, without a traceback."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from graphwright import cli
from graphwright.errors import InvalidModelName, UnknownModel, UnknownOperator

RUN = CliRunner()


def failure(*arguments: str) -> str:
    result = RUN.invoke(cli.app, list(arguments))
    assert result.exit_code != 0
    return str(result.exception) + result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe",), "name an operator, or give --coverage"),
        (("describe", "aten.mmm"), "did you mean"),
        (("describe", "aten.mm", "--input", "float32[2, 3]"), "need --output too"),
        (("describe", "aten.mm", "--input", "float32[2, x]", "--output", "float32[2]"), "is not a tensor type"),
        (("describe", "aten.mm", "--parts", "1"), "greater than or equal to 2"),
        (("describe", "aten.mm", "--attr", "x", "--output", "float32[2]"), "is not name=value"),
        (("capture", "resnet51"), "resnet50"),
        (("capture", "nowhere.py:make"), "is not a file"),
        (("capture", "nowhere.py"), "name the function too"),
        (("capture", "alexnet", "--batch-size", "0"), "greater than or equal to 1"),
        (("nonsense",), "No such command"),
    ],
)  # fmt: skip
def test_messages(arguments, message):
    assert message in failure(*arguments).replace("\n", " ")


def test_types_of_the_errors():
    assert isinstance(RUN.invoke(cli.app, ["describe", "aten.mmm"]).exception, UnknownOperator)
    assert isinstance(RUN.invoke(cli.app, ["capture", "resnet51"]).exception, UnknownModel)
    assert isinstance(RUN.invoke(cli.app, ["capture", "a.py"]).exception, InvalidModelName)


def test_a_function_that_returns_something_else(tmp_path):
    (tmp_path / "mine.py").write_text("def make():\n    return 3\n")
    assert "return (model, loss_fn, batch)" in failure("capture", f"{tmp_path}/mine.py:make")


def test_a_function_that_is_not_there(tmp_path):
    (tmp_path / "mine.py").write_text("")
    assert "has no function 'make'" in failure("capture", f"{tmp_path}/mine.py:make")


def test_no_traceback_reaches_the_user():
    done = subprocess.run(
        [sys.executable, "-m", "graphwright", "describe", "aten.mmm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("UnknownOperator: aten.mmm has no description")
