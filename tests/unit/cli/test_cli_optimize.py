"""graphwright optimize: what it prints, writes and refuses."""

import json

import pytest
import torch
from typer.testing import CliRunner

from graphwright import cli
from graphwright.errors import GraphFileError, InvalidOption
from graphwright.pipeline import load_optimized
from onnx_files import node, write

OPTIONS = ("--small", "--prices", "roofline", "--budget", "20")


def run(*arguments):
    result = CliRunner().invoke(cli.app, ["optimize", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_it_prints_kernels_times_and_rules():
    text = run("inception-v3", *OPTIONS).output
    assert "norms and biases merged" in text and "graphs in" in text and "differ" in text


def test_json_and_a_file(tmp_path):
    path = tmp_path / "model.pt"
    report = json.loads(run("squeeze.py:make", "--json", "-o", str(path), *OPTIONS[1:]).stdout)
    assert report["kernels_after"] < report["kernels_before"] and report["difference"] < 1e-4
    assert load_optimized(path)(torch.rand(1, 4, 6, 6)).shape == (1, 6, 6, 6)


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "squeeze.py").write_text(
        """
import torch
from torch import nn


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Conv2d(4, 3, 1), nn.BatchNorm2d(3)) for _ in range(2))

    def forward(self, x):
        return torch.cat([self.a(x).relu(), self.b(x).relu()], 1)


def make():
    return Two(), lambda y, t: y.sum(), (torch.rand(1, 4, 6, 6), torch.zeros(1))
"""
    )


def test_other_files_are_refused_before_the_work():
    with pytest.raises(GraphFileError, match="onnx"):
        run("inception-v3", "-o", "model.bin", *OPTIONS)


def test_the_rule_of_groups_is_drawn_too():
    result = CliRunner().invoke(cli.app, ["rules", "1360"])
    assert result.exit_code == 0 and "alike" in result.output


def test_an_onnx_file_is_optimised_for_given_shapes(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])]
    inputs = [("x", torch.float32, ("batch", 3))]
    path = write(tmp_path / "m.onnx", nodes, inputs, ["y"], {"w": torch.rand(3, 4)})
    with pytest.raises(InvalidOption, match="leaves dim 0"):
        run(str(path), *OPTIONS[1:])
    with pytest.raises(InvalidOption, match="--shape batch=many"):
        run(str(path), "--shape", "batch=many", *OPTIONS[1:])
    saved = tmp_path / "m.pt"
    run(str(path), "--shape", "batch=2", "-o", str(saved), *OPTIONS[1:])
    assert load_optimized(saved)(torch.rand(2, 3)).shape == (2, 4)
