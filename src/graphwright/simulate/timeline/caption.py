"""The line that says where a picture, a trace or a table comes from."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from graphwright.version import __version__

CHECKOUT = Path(__file__).parents[4]


@cache
def version() -> str:
    """The version, and the commit where the package runs from a checkout: `0.1.0 (7ea8e12)`."""
    if not (CHECKOUT / ".git").exists() or not (CHECKOUT / "src/graphwright").is_dir():
        return __version__
    describe = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty=-modified"]
    try:
        done = subprocess.run(
            [*describe, "--exclude=*"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return __version__
    commit = done.stdout.strip()
    return f"{__version__} ({commit})" if commit else __version__


def caption(cluster: str, plan: str, seed: int | None, graph_hash: str) -> str:
    """Where something comes from, in one line."""
    parts = [f"graphwright {version()}", cluster, plan]
    if seed is not None:
        parts.append(f"seed {seed}")
    parts.append(f"graph {graph_hash[:12]}")
    return " · ".join(part for part in parts if part)
