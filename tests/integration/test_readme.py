"""The Python of the README and of the page on running runs as it is written, and the page's commands exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from graphwright import cli

ROOT = Path(__file__).parents[2]


def programs(page):
    """The Python blocks of a page; one that imports torch begins a program, others go on with it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    found = []
    for block in blocks:
        if block.startswith("import torch\n"):
            found.append(block)
        else:
            found[-1] += "\n" + block
    return found


def run(program, folder):
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_trains_on_four_processes(tmp_path):
    output = run(programs("README.md")[0], tmp_path)
    assert "<- turning point" in output
    losses = [float(number) for number in output.splitlines()[-1].strip("[]").split(",")]
    assert len(losses) == 5
    assert losses[-1] < losses[0]


def test_the_readme_plans_simulates_and_describes(tmp_path):
    program = programs("README.md")[1]
    output = run(program, tmp_path)
    assert "aten.mm" in output
    assert "Timeline(" in output
    assert "row: concatenate dim 0" in output
    assert (tmp_path / "step.json").exists()
    assert (tmp_path / "step.trace.json").exists()


def test_the_readme_passes_messages(tmp_path):
    assert "tensor([[" in run(programs("README.md")[2], tmp_path)


def test_the_page_on_running_runs(tmp_path):
    (program,) = programs("docs/running.md")
    output = run(program, tmp_path)
    assert "loss of every step: [2." in output
    assert "steps made: [6, 6]" in output
    assert (tmp_path / "checkpoints" / "000001-step-6").is_dir()


@pytest.mark.parametrize("page", ["README.md", "docs/running.md", "docs/planning.md"])
def test_the_commands_of_the_pages_exist(page):
    """Every line parses; what a command does is tested elsewhere."""
    lines = re.findall(
        r"^    (?:torchrun .*-m )?graphwright (.*?)(?: #.*)?$", (ROOT / page).read_text(), re.M
    )
    assert lines
    commands = get_command(cli.app).commands
    for line in lines:
        verb, *arguments = shlex.split(line)
        commands[verb].make_context(verb, arguments)
