"""The README's Python runs as it is written, from top to bottom."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})
    printed = capsys.readouterr().out
    assert "aten.mm" in printed
    assert "row: concatenate dim 0" in printed
    assert (tmp_path / "step.json").exists()
