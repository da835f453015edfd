"""Plan how the arrays of a NumPy-like program are tiled over workers, and what that costs."""

from graphwright.partition.tiling import plan_tilings
from graphwright.zoo.programs import PROGRAMS


def main() -> None:
    graph = PROGRAMS["ridge regression"].capture()  # a million samples; nothing is allocated
    plan = plan_tilings(graph, workers=4)
    print(plan.explain(), end="\n\n")
    print("MB received by 4 workers: by the exact search, Spartan's greedy one, and rows alone")
    for name in ("kmeans", "ssvd", "cholesky", "power iteration", "jacobi"):
        graph = PROGRAMS[name].capture()
        plans = [plan_tilings(graph, 4, algorithm=a) for a in ("exact", "greedy", "rows")]
        print(f"{name:20}", *(f"{plan.nbytes / 1e6:12,.3f}" for plan in plans))


if __name__ == "__main__":
    main()
