"""The README's Python runs as it is written, from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "aten.mm" in done.stdout
    assert "Timeline(" in done.stdout
    assert "row: concatenate dim 0" in done.stdout
    assert (tmp_path / "step.json").exists()
    assert (tmp_path / "step.trace.json").exists()
