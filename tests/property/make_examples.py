"""Draw one example call of every described operator, for ``graphwright describe OPERATOR`` to show.

The call with the most elements among a few draws is taken, so that most splits have something to cut. Run by
``make examples``, which draws for operators without an example, and with ``--all`` for every one; what it writes is part
of the package.
"""

import json
import random
import sys
import warnings
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from cases import complete, load_cases

from graphwright.aten.invoke import call_kernel
from graphwright.describe import descriptions, splits
from graphwright.ir import write_atomically
from graphwright.run.check.operator import types_of

TARGET = Path(__file__).parents[2] / "src/graphwright/report/tables/examples.json"
NUM_DRAWS = 60


def draw_example(op: str, case) -> dict[str, object]:
    """The richest of some random calls: the one with the most splits, then the most elements."""
    best: tuple[tuple[int, int], dict[str, object]] | None = None

    @settings(max_examples=NUM_DRAWS, database=None, derandomize=True, deadline=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(data=st.data())
    def look(data):
        nonlocal best
        attrs, inputs = case(data.draw)
        attrs = complete(op, attrs)
        types = types_of(inputs, call_kernel(op, inputs, attrs))
        size = sum(t.numel for t in (*types.inputs, *types.outputs) if t is not None)
        rank = (len(splits(op, attrs, types)), size)
        if best is None or rank > best[0]:
            call = {
                "attrs": attrs,
                "inputs": [None if t is None else str(t) for t in types.inputs],
                "outputs": [str(t) for t in types.outputs],
            }
            best = (rank, call)

    look()
    assert best is not None
    return best[1]


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    cases = load_cases()
    kept = {} if "--all" in sys.argv else json.loads(TARGET.read_text())
    operators = [d.op for d in descriptions() if d.op in cases]
    examples = {op: kept.get(op) or draw_example(op, cases[op]) for op in operators}
    lines = [f"  {json.dumps(op)}: {json.dumps(call)}" for op, call in sorted(examples.items())]
    write_atomically(TARGET, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    print(f"{len(examples)} examples, {len(examples.keys() - kept)} of them new")


if __name__ == "__main__":
    main()
