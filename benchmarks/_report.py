"""What every benchmark shares: its options, its table, its saved result and its verdict.

    options = parse_options(__doc__)
    ...
    print_table(("stage", "seconds"), rows)
    path = save_result("ir_scale", options, results)
    sys.exit(finish(options, misses, figure))

A result is `results/<date>-<name>.json` with commit, machine and seed; `--check` turns a missed
target into exit status 1, and the last line printed is always the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from graphwright.ir import write_atomically

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that all benchmarks take."""

    quick: bool
    check: bool
    seed: int
    save: bool
    results: Path


def parse_options(description: str | None, own: argparse.ArgumentParser | None = None) -> Options:
    """Read the command line; the first line of `description` is the help text, and `own` knows a benchmark's own options."""
    parser = argparse.ArgumentParser(
        description=(description or "").strip().partition("\n")[0],
        parents=[own] if own else [],
    )
    parser.add_argument("--quick", action="store_true", help="finish within a minute or two")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (0)")
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    found = parser.parse_args()
    return Options(
        quick=found.quick,
        check=found.check,
        seed=found.seed,
        save=not found.no_save,
        results=found.results,
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under headings: words to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = zip(row, widths, numeric, strict=True)
        return "  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in parts).rstrip()

    print(line(headings))
    print("  ".join("-" * width for width in widths))
    for row in cells:
        print(line(row))


def save_result(name: str, options: Options, results: Mapping[str, object]) -> Path | None:
    """Save a dated result with commit, machine and seed; returns where, None with --no-save."""
    if not options.save:
        return None
    now = datetime.now(UTC)
    document = {
        "benchmark": name,
        "date": now.isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "seed": options.seed,
        "options": {k: v for k, v in asdict(options).items() if k in ("quick", "check")},
        "results": dict(results),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"{now:%Y-%m-%d-%H%M%S}-{name}.json"
    write_atomically(path, (json.dumps(document, indent=2) + "\n").encode())
    return path


def finish(options: Options, misses: Sequence[str], figure: str) -> int:
    """Print what was missed, then the figure as the last line; returns the exit status."""
    for miss in misses:
        print(f"missed: {miss}")
    print(figure)
    return 1 if options.check and misses else 0


def commit() -> str:
    """Return the commit of the checkout, marked where files differ from it."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    return f"{head}-modified" if _git("status", "--porcelain", "--untracked-files=no") else head


def machine() -> dict[str, object]:
    """Describe the machine: processor, cores, memory, system, Python; no names of hosts."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
