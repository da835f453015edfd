"""The same program with NumPy, and with one import changed: k-means on standardised data.

    python examples/numpy_on_workers.py

Nothing in `cluster_points` says how arrays are cut or where they are. On Graphwright the five iterations are one
program, planned as a whole: each of two worker processes keeps half of the points, and only sums go between them.
"""

import sys

import numpy

import graphwright.arrays as ga


def cluster_points(np, points, count, iterations=5):
    x = (points - points.mean(axis=0)) / points.std(axis=0)
    centres = x[:count]
    for _ in range(iterations):
        apart = (x * x).sum(axis=1)[:, None] - 2 * (x @ centres.T) + (centres * centres).sum(axis=1)
        nearest = np.argmin(apart, axis=1)
        member = (nearest[:, None] == np.arange(count)).astype(np.float64)
        centres = (member.T @ x) / member.sum(axis=0)[:, None]
    return centres


def main():
    points = numpy.random.default_rng(0).normal(size=(200_000, 8))
    points[::2] += 4.0
    with_numpy = cluster_points(numpy, points, 4)

    ga.use_workers(2)
    centres = cluster_points(ga, ga.from_array(points), 4)
    print(ga.explain(centres).splitlines()[-1])
    print(centres)
    same = numpy.allclose(with_numpy, centres)
    print("the same as NumPy's" if same else "not what NumPy has")
    ga.disconnect()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
