"""Models of torchvision, timm, transformers and diffusers, captured as they are; twenty of them trained on two workers.

    pip install -e .[models]; python benchmarks/real_models.py --check

Every model is captured with its training step (AdamW) in a process of its own, so that none can end the run. The table
says how many nodes its graph has, which operators have no description, and how long capture took; or why it could
not be captured. Those of `EXACT` are trained for three steps in float64 on two workers and compared with the same steps of the model
itself: eager PyTorch and its optimizer.
Targets: 95% are captured with no change to the model, no failure is without an error type of its own, and nothing differs by
more than 1e-9 of a tensor's largest element.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

import torch

import graphwright as gw
from _models import Case, Made, cases, squares
from _report import finish, parse_options, print_table, save_result
from graphwright.describe import is_described
from graphwright.errors import CaptureError
from graphwright.ir import CONSTANT_OP, Graph

SHARE = 0.95
LIMIT = 1e-9
STEPS = 3
SECONDS = 300.0
OPTIONS: dict[str, Any] = {"lr": 1e-3}
QUICK = 6
"""Every so many-th model is tried with --quick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What came of a capture; `error` and `reason` are empty where it succeeded."""

    name: str
    nodes: int = 0
    opaque: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    reason: str = ""

    @property
    def is_own_error(self) -> bool:
        return (
            bool(self.error)
            and hasattr(gw.errors, self.error)
            and self.error != CaptureError.__name__
        )


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", default="", help="those with one of these words in their name")
    options, own = parse_options(__doc__, parser), parser.parse_known_args()[0]
    listed = cases()
    words = own.models.split(",")
    names = [name for name in listed if any(word in name for word in words)]
    if options.quick:
        names = names[::QUICK]
    _capture(
        Made(model=torch.nn.Linear(2, 2), loss_fn=squares, batch=(torch.zeros(2, 2), ()))
    )  # imports what is left
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda name: isolated(listed[name]), names))
    print_table(
        ("model", "nodes", "seconds", "opaque operators, or why not"),
        [(o.name, o.nodes, o.seconds, o.reason or ", ".join(o.opaque)) for o in outcomes],
    )
    captured = [o for o in outcomes if not o.error]
    share = len(captured) / len(outcomes)
    misses = [] if share >= SHARE else [f"{share:.1%} captured, not {SHARE:.0%}"]
    misses += [
        f"{o.name} has no error of its own: {o.error}"
        for o in outcomes
        if o.error and not o.is_own_error
    ]
    save_result("real_models", options, {"captured": [asdict(o) for o in outcomes]})
    per_library = Counter(o.name.partition("/")[0] for o in captured)
    figure = f"{len(captured)} of {len(outcomes)} captured ({share:.1%}): " + ", ".join(
        f"{n} of {k}" for k, n in per_library.items()
    )
    return finish(options, misses, figure)


def isolated(case: Case) -> Captured:
    """Capture a model in a process of its own."""
    name = f"{case.library}/{case.name}"
    context = get_context("fork")  # the libraries are imported already
    ours, theirs = context.Pipe()
    process = context.Process(target=_capture_into, args=(theirs, name, case))
    process.start()
    theirs.close()
    try:
        if not ours.poll(SECONDS):
            process.kill()
            return Captured(name=name, error="Timeout", reason=f"more than {SECONDS:.0f} s")
        return ours.recv()
    except EOFError:
        return Captured(name=name, error="Crash", reason="the process ended")
    finally:
        process.join()
        print(name, flush=True, file=sys.stderr)


def _capture(made: Made) -> Graph:
    return gw.capture(
        made.model, made.loss_fn, made.batch, optimizer=torch.optim.AdamW, optimizer_options=OPTIONS
    )


def _capture_into(pipe: Connection, name: str, case: Case) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        made = case.make()
    except Exception as error:
        pipe.send(Captured(name=name, error="NotMade", reason=f"{type(error).__name__}: {error}"))
        return
    begun = process_time()
    try:
        graph = _capture(made)
    except Exception as error:
        pipe.send(
            Captured(
                name=name,
                seconds=process_time() - begun,
                error=type(error).__name__,
                reason=f"{type(error).__name__}: {' '.join(str(error).split())}",
            )
        )
        return
    seconds = process_time() - begun
    operators = {node.op for node in graph.nodes} - {CONSTANT_OP}
    pipe.send(
        Captured(
            name=name,
            nodes=len(graph.nodes),
            opaque=tuple(sorted(op for op in operators if not is_described(op))),
            seconds=seconds,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
