"""Searches, simulation and training steps against an earlier commit, in one run.

The earlier commit is checked out into a temporary worktree. Processes take turns, A B B A A B ...,
each with the code of one tree, and with nothing known but compiled code and captured graphs. They
time what `_house_cases.py` lists: Tofu's table 1, TensorOpt's table 3, growth, FlexFlow's table 3.4
(full and delta), and steps of an MLP and a GPT on two processes.

A case is slower when the ratio of the medians is over 1.10 and the times lie apart: the lower
quartile of the new ones above the upper quartile of the old. Whether results are the same is shown
beside; they need not be where a change means to find better ones.

    python benchmarks/house.py --check              against e2e7d8f, the last one before the rooms
    python benchmarks/house.py --quick --base HEAD~3 --only "table 3.4"
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from _report import finish, parse_options, print_table, save_result

ROOT = Path(__file__).parents[1]
BASE = "e2e7d8f"
SLOWER = 1.10
ROUNDS, QUICK_ROUNDS = 7, 3


@dataclass(kw_only=True)
class Times:
    """The seconds of a case in both trees, and what came out."""

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    results: dict[str, set[float]] = field(default_factory=lambda: {"old": set(), "new": set()})

    @property
    def ratio(self) -> float:
        return median(self.new) / median(self.old)

    @property
    def noise(self) -> float:
        """Half the distance of the quartiles as a share of the median, the larger of both."""
        each = ((median(times), *quartiles(times)) for times in (self.old, self.new))
        return max((high - low) / 2 / middle for middle, low, high in each)

    @property
    def is_slower(self) -> bool:
        return self.ratio > SLOWER and quartiles(self.new)[0] > quartiles(self.old)[1]

    @property
    def same(self) -> bool:
        """Whether all results are the same, up to rounding."""
        every = self.results["old"] | self.results["new"]
        return max(every) - min(every) <= 1e-6 * max(map(abs, every))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit, in a worktree that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="graphwright-house-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def start(tree: Path, folder: Path, cases: Sequence[str], tiny: bool) -> subprocess.Popen[str]:
    """A process with the code of a tree; both run the same file of cases."""
    program = [sys.executable, str(Path(__file__).with_name("_house_cases.py")), str(folder)]
    program += ["--cases", ";".join(cases), *(["--tiny"] if tiny else [])]
    costs = {"GRAPHWRIGHT_COSTS": str(folder / "none.sqlite")}
    variables = os.environ | costs | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=variables)


def read(process: subprocess.Popen[str], tree: Path) -> dict[str, dict[str, object]]:
    """What a process found; the code has to be that of its tree."""
    try:
        said, _ = process.communicate()
    finally:
        process.kill()  # it has ended, unless this one is to end
    if process.returncode:
        raise SystemExit(f"the cases failed with the code in {tree}")
    found = json.loads(said.splitlines()[-1])
    assert Path(found["package"]).is_relative_to(tree), found["package"]
    return found["cases"]


def chosen_cases(quick: bool, only: str | None) -> list[str]:
    """The names of the cases, read without the package."""
    from _house_cases import CASES

    words = only or ""
    return [n for n, case in CASES.items() if words in n and (case.quick or not quick)]


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--base", default=BASE, help=f"the commit to compare with ({BASE})")
    parser.add_argument("--only", help="cases whose name has this in it")
    parser.add_argument("--rounds", type=int, help=f"processes of each tree ({ROUNDS})")
    parser.add_argument("--tiny", action="store_true", help="all cases with the smallest model")
    options, own = parse_options(__doc__, parser), parser.parse_known_args()[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # and leave no worktree
    names = chosen_cases(options.quick, own.only)
    rounds = own.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    times = {name: Times() for name in names}
    with checked_out(own.base) as old, tempfile.TemporaryDirectory() as scratch:
        trees = {"old": old, "new": ROOT}
        folders = {which: Path(scratch) / which for which in trees}
        print("compiling and capturing in both trees", file=sys.stderr, flush=True)
        warm = {w: start(tree, folders[w], names, own.tiny) for w, tree in trees.items()}
        for which, process in warm.items():
            read(process, trees[which])  # not timed: kernels compile, graphs are captured
        for number in range(rounds):
            order = ("old", "new") if number % 2 == 0 else ("new", "old")
            for which in order:
                print(f"round {number + 1} of {rounds}, {which}", file=sys.stderr, flush=True)
                process = start(trees[which], folders[which], names, own.tiny)
                for name, found in read(process, trees[which]).items():
                    getattr(times[name], which).extend(found["seconds"])  # type: ignore[arg-type]
                    times[name].results[which].add(found["result"])  # type: ignore[arg-type]
    print_table(
        ("case", "old s", "new s", "ratio", "noise", "slower", "same result"),
        [
            (name, median(t.old), median(t.new), f"{t.ratio:.3f}", f"±{t.noise:.1%}",
             "yes" if t.is_slower else "no", "yes" if t.same else "no")
            for name, t in times.items()
        ],
    )  # fmt: skip
    misses = [
        f"{name}: {t.ratio:.2f} of the time before, beyond the noise of {t.noise:.1%}"
        for name, t in times.items()
        if t.is_slower
    ]
    shown = ("old", "new", "ratio", "noise", "same")
    cases = {name: {key: getattr(t, key) for key in shown} for name, t in times.items()}
    save_result("house", options, {"base": own.base, "cases": cases})
    worst = max(times, key=lambda name: times[name].ratio)
    figure = (
        f"{len(misses)} of {len(times)} cases slower than {own.base}; "
        f"highest ratio {times[worst].ratio:.2f} ({worst})"
    )
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
