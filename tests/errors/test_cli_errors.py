"""Mistakes on the command line end with one clear line and exit status 1 or 2, without a traceback."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from graphwright import cli
from graphwright.errors import GraphFileError, InvalidModelName, UnknownModel, UnknownOperator

RUN = CliRunner()


def failure(*arguments: str) -> str:
    result = RUN.invoke(cli.app, list(arguments))
    assert result.exit_code != 0
    return str(result.exception) + result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe",), "name an operator, or give --coverage or --list"),
        (("describe", "--zoo"), "--zoo goes with --coverage"),
        (("describe", "aten.mmm"), "did you mean"),
        (("describe", "aten.add"), "did you mean aten.add.Tensor, aten.add.Scalar?"),
        (("describe", "aten.conv"), "did you mean aten.convolution"),
        (("describe", "sum"), "did you mean aten.sum,"),
        (("describe", "aten.nonzero"), "the shape of its result depends on values"),
        (("describe", "aten.mm", "--input", "float32[2, 3]"), "needs mat2 (tensor 1); 1 of 2 tensors given"),
        (("describe", "aten.mm", "--attr", "dim=1"), "no attribute 'dim'; it has none"),
        (("describe", "aten._softmax", "--input", "float32[2]", "--attr", "dims=0"), "it has dim, half_to_float"),
        (("describe", "aten._softmax", "--input", "float32[2]", "--attr", "dim=0"), "needs the attribute half_to_float"),
        (("describe", "aten.mm", "--input", "float32[2, 3]", "--input", "float32[2, 3]"), "must have same reduction dim"),
        (("describe", "aten.mm", "--input", "float32[2, 3]", "--input", "float32[3, 4]", "--output", "float32[2]"),
         "aten.mm makes float32[2, 4] of these inputs, not float32[2]"),
        (("describe", "aten.mm", "--input", "float32[2, x]", "--output", "float32[2]"), "is not a tensor type"),
        (("describe", "aten.mm", "--parts", "1"), "greater than or equal to 2"),
        (("describe", "aten.mm", "--attr", "x", "--output", "float32[2]"), "is not name=value"),
        (("capture", "resnet51"), "resnet50"),
        (("capture", "nowhere.py:make"), "is not a file"),
        (("capture", "nowhere.py"), "nowhere.py: name the function too, as in nowhere.py:make_model"),
        (("capture", "nowhere.py:"), "nowhere.py: name the function too, as in nowhere.py:make_model"),
        (("capture", "mlp", "-o", "graph.pt"), "has to end in .json, .json.gz, .txt"),
        (("capture", "mlp", "-o", "no/such/folder/graph.json"), "there is no folder no/such/folder"),
        (("demo", "-o", "picture.pdf"), "has to end in .png, .svg"),
        (("demo", "--model", "mine.py:make"), "the demo trains models of the zoo"),
        (("capture", "alexnet", "--batch-size", "0"), "greater than or equal to 1"),
        (("calibrate", "--small"), "--batch-size, --small and --plan"),
        (("calibrate", "--cluster", "dgx-h100"), "--cluster local:4"),
        (("calibrate", "--cluster", "local:1"), "nobody to talk to"),
        (("calibrate", "mlp", "--device", "tpu"), "there is no device 'tpu' to calibrate"),
        (("calibrate", "mlp", "--limit", "0"), "greater than or equal to 1"),
        (("calibrate", "mlp", "-o", "report.txt"), "has to end in .json, .png, .svg"),
        (("calibrate", "resnet51"), "resnet50"),
        (("doctor", "--cluster", "dgx-h10"), "dgx-h100"),
        (("simulate", "mlp"), "say on which machine"),
        (("simulate", "mlp", "--cluster", "local:2", "--strategy", "best"), "'best' is not one of"),
        (("simulate", "mlp", "--cluster", "local:2", "--plan", "p.json", "--strategy", "data"), "give one of them"),
        (("simulate", "mlp", "--cluster", "local:2", "-o", "t.pdf"), "has to end in .json, .json.gz, .png, .svg"),
        (("simulate", "mlp", "--cluster", "local:2", "-o", "no/folder/t.png"), "there is no folder no/folder"),
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
    (tmp_path / "mine.py").write_text("def make():\n    return 3, 4\n")
    assert "returned a tuple of 2" in failure("capture", f"{tmp_path}/mine.py:make")


def test_a_function_that_is_not_there(tmp_path):
    (tmp_path / "mine.py").write_text("")
    assert "has no function 'make'" in failure("capture", f"{tmp_path}/mine.py:make")


def test_the_functions_that_could_be_meant_are_named(tmp_path):
    code = "from os import getcwd\ndef make_model(): pass\ndef helper(x): pass\ndef tiny(): pass\n"
    (tmp_path / "mine.py").write_text(code)
    message = failure("capture", f"{tmp_path}/mine.py:make")
    assert "has no function 'make'; it has make_model, tiny" in message
    assert "helper" not in message and "getcwd" not in message


@pytest.mark.parametrize("name", ["step.json", "step.json.gz", "model.onnx", "model.pt2"])
def test_a_file_of_data_is_no_model(name):
    error = RUN.invoke(cli.app, ["capture", name]).exception
    assert isinstance(error, InvalidModelName)
    assert "name its code, file.py:function" in str(error)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere\n", "mine.py:1: importing it raised ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\ndef make(:\n", "mine.py:2: importing it raised SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('enough')\n", "mine.py:2: importing it raised SystemExit: enough"),
        ("def make(width, depth=2):\n    pass\n", "make needs width, but is called without arguments"),
        ("def make():\n    return {}['key']\n", "mine.py:2: make() raised KeyError: 'key'"),
        ("import json\ndef make():\n    json.loads('x')\n", "mine.py:3: make() raised JSONDecodeError: Expecting value"),
    ],
)  # fmt: skip
def test_mistakes_in_a_users_file_are_named_with_their_line(tmp_path, code, message):
    (tmp_path / "mine.py").write_text(code)
    path = f"{tmp_path}/mine.py:make"
    assert message in failure("capture", path)
    assert isinstance(RUN.invoke(cli.app, ["capture", path]).exception, InvalidModelName)


@pytest.mark.parametrize("flags", [["--small"], ["--batch-size", "3"]])
def test_a_users_file_takes_no_sizes(tmp_path, flags):
    (tmp_path / "mine.py").write_text("")
    assert "are for models of the zoo" in failure("capture", f"{tmp_path}/mine.py:make", *flags)


def test_output_is_refused_before_the_capture(tmp_path):
    (tmp_path / "mine.py").write_text("raise RuntimeError('was imported')\n")
    (tmp_path / "folder.json").mkdir()
    for name in ("graph.pt", "none/graph.json", "folder.json"):
        result = RUN.invoke(
            cli.app, ["capture", f"{tmp_path}/mine.py:make", "-o", f"{tmp_path}/{name}"]
        )
        assert isinstance(result.exception, GraphFileError)


def test_an_impossible_call_is_one_line():
    arguments = ["--input", "float32[2, 3]", "--input", "float32[2, 3]"]
    done = subprocess.run(
        [sys.executable, "-m", "graphwright", "describe", "aten.mm", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("InvalidCall: PyTorch refuses aten.mm(float32[2, 3], float32[2")
    assert done.stderr.count("\n") == 1


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
