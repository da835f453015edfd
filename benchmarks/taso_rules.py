"""TASO's table 2.3: substitutions after each step of generation, pruning and proof, beside TASO's own counts.

TASO enumerates graphs of up to four operators: 28,744 substitutions, 17,346 after renaming inputs, 743 after removing common subgraphs, all of them verified from 43
properties (thesis sections 2.4 and 2.5; "around 5 minutes"). Ours are of up to three operators. An operator is applied to one representative of each value only, so
what differs by an equal argument is not enumerated, and a pair is a graph and the representative of its value: the first two counts are of other sets than TASO's.
After TASO's two steps, ours leaves out what follows from smaller rules, and everything that is not proved.

--quick generates size 2 anew, and proves a part of the shipped rules again. Without it everything is generated anew and compared with the shipped file, byte by byte. It takes about seven minutes;
--proofs FILE keeps the proofs, and goes on behind the last one.
Targets: every shipped rule is proved, none is unknown; the counts of the file are those of the run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from _report import finish, parse_options, print_table, save_result
from graphwright.rewrite.substitutions import save_rules, shipped
from graphwright.rewrite.substitutions.generate import build
from graphwright.rewrite.substitutions.generate.__main__ import library_of, resuming
from graphwright.rewrite.substitutions.library import RULES
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.symbolic.prove import Verdict

TASO = {"initial": 28_744, "renamed": 17_346, "common": 743, "proved": 743}
STEPS = {
    "initial": "graphs with one fingerprint",
    "renamed": "input renaming",
    "common": "common subgraph",
    "coincidences": "  differ at a second seed",
    "derived": "  follow from smaller rules",
    "special": "  hold for special shapes only",
    "unknown": "  not proved, left out",
    "proved": "proved",
}


def show_counts(ours: dict[str, object], size: int) -> None:
    rows = [
        (f"graphs of size {level}", f"{count:,}", "") for level, count in ours["graphs"].items()
    ]
    rows += [
        (text, f"{ours[step]:,}", f"{TASO[step]:,}" if step in TASO else "")
        for step, text in STEPS.items()
    ]
    print_table(("step", f"ours, size {size}", "TASO, size 4"), rows)


def prove_again(stride: int) -> tuple[int, int, float]:
    """How many of the shipped rules were tried, how many were proved, and the seconds it took."""
    prover, tried, proved = Prover(), 0, 0
    start = perf_counter()
    for rule in shipped().rules[::stride]:
        proof, guards = prover.prove(rule.substitution.source, rule.substitution.target)
        tried += 1
        proved += proof.verdict is Verdict.PROVED and guards == rule.substitution.guards
    return tried, proved, perf_counter() - start


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--proofs",
        type=Path,
        help="a file of proofs, to go on from; then seconds are those of the rest",
    )
    chosen, _ = own.parse_known_args()
    options = parse_options(__doc__, own)
    misses: list[str] = []
    size = 2 if options.quick else shipped().size
    start = perf_counter()
    outcome = build(size, prover=resuming(chosen.proofs))
    seconds = perf_counter() - start
    show_counts(outcome.counts.to_dict(), size)
    if options.quick:
        print("\nThe shipped file:")
        show_counts(dict(shipped().counts), shipped().size)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rules.json"
            save_rules(library_of(outcome, size), path)
            if path.read_bytes() != RULES.read_bytes():
                misses.append("the generated file is not the shipped one")
    tried, proved, proving = prove_again(10 if options.quick else 1)
    if proved != tried:
        misses.append(f"{tried - proved} of {tried} shipped rules were not proved again")
    if shipped().counts["proved"] != len(shipped()):
        misses.append("the shipped file has other rules than were proved")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nsize {size} generated and proved in {seconds:.0f} s; {peak:.0f} MiB at most")
    print(f"{proved} of {tried} shipped rules proved again in {proving:.1f} s")
    save_result(
        "taso_rules",
        options,
        {
            "size": size, "counts": outcome.counts.to_dict(), "seconds": seconds,
            "peak_mib": peak, "tried": tried, "proved_again": proved, "published": TASO,
        },
    )  # fmt: skip
    figure = f"{len(shipped())} rules shipped, all proved; TASO: 743 of size 4"
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
