"""Tofu's Table 2: total weight sizes of its benchmarks, beside the zoo's.

The paper counts three times the weights (weight, gradient and history), in units of 2^30 bytes: only then do its
figures agree with the models it describes. A target is met where ours is within 10%, or the difference is explained.
"""

from __future__ import annotations

import sys

from _report import finish, parse_options, print_table, save_result
from graphwright import zoo

GIB = 2**30
RNN = {
    4: {6: 8.4, 8: 11.4, 10: 14.4},
    6: {6: 18.6, 8: 28.5, 10: 32.1},
    8: {6: 33.0, 8: 45.3, 10: 57.0},
}
WRESNET = {
    4: {50: 4.2, 101: 7.8, 152: 10.5},
    6: {50: 9.6, 101: 17.1, 152: 23.4},
    8: {50: 17.1, 101: 30.6, 152: 41.7},
    10: {50: 26.7, 101: 47.7, 152: 65.1},
}
EXPLAINED = {
    "rnn-8-6k": "28.5 is 3 x 9.5 and does not lie between its neighbours 18.6 and 32.1 on a line, as weights of "
    "equal layers must (25.35); 3 x 8.5 = 25.5 would, so the printed figure looks like a slip"
}


def main() -> int:
    options = parse_options(__doc__)
    rows, results, misses = [], {}, []
    published = {f"rnn-{layers}-{h}k": gb for h, row in RNN.items() for layers, gb in row.items()}
    published |= {f"wresnet-{d}-{w}": gb for w, row in WRESNET.items() for d, gb in row.items()}
    for name, paper in published.items():
        workload = zoo.load(name)
        weights = sum(p.numel() * p.element_size() for p in workload.model.parameters())
        ours = 3 * weights / GIB
        off = ours / paper - 1
        if abs(off) > 0.10 and name not in EXPLAINED:
            misses.append(f"{name}: {ours:.1f} against {paper} ({off:+.1%})")
        results[name] = {"paper": paper, "ours": ours, "difference": off}
        rows.append(
            (
                name,
                f"{paper:.1f}",
                f"{ours:.2f}",
                f"{off:+.1%}",
                "explained" if abs(off) > 0.1 else "",
            )
        )
    print_table(("model", "paper, GB", "ours, GiB", "difference", ""), rows)
    for name, why in EXPLAINED.items():
        print(f"{name}: {why}.")
    save_result("tofu_table2", options, results)
    worst = max(abs(r["difference"]) for n, r in results.items() if n not in EXPLAINED)
    return finish(
        options,
        misses,
        f"largest unexplained difference {worst:.1%} over {len(rows)} models (target 10%)",
    )


if __name__ == "__main__":
    sys.exit(main())
