"""Learning from samples: one row each, in arrays far too tall for one machine.

Every function takes a namespace first (NumPy, PyTorch, or any with the same names), then arrays.
"""

from __future__ import annotations

from typing import Any

Array = Any
Namespace = Any


def kmeans(xp: Namespace, points: Array, centres: Array, steps: int = 5) -> Array:
    """Lloyd's algorithm: assign every point to its nearest centre, move centres to the means."""
    for _ in range(steps):
        far = xp.sum(centres * centres, axis=1) - 2 * (points @ centres.T)
        nearest = xp.argmin(far, axis=1)
        member = xp.where(nearest[:, None] == xp.arange(centres.shape[0]), 1.0, 0.0)
        count = xp.sum(member, axis=0)
        centres = (member.T @ points) / xp.clip(count, 1, None)[:, None]
    return centres


def als(xp: Namespace, ratings: Array, items: Array, steps: int = 3) -> tuple[Array, Array]:
    """Alternating least squares: users from items, items from users; reads ratings both ways."""
    ridge = 0.1 * xp.eye(items.shape[1])
    users = items
    for _ in range(steps):
        users = xp.linalg.solve(items.T @ items + ridge, (ratings @ items).T).T
        items = xp.linalg.solve(users.T @ users + ridge, (ratings.T @ users).T).T
    return users, items


def linear_regression(
    xp: Namespace, samples: Array, targets: Array, weights: Array, steps: int = 5
) -> Array:
    """Least squares by gradient descent."""
    rate = 1.0 / samples.shape[0]
    for _ in range(steps):
        residual = samples @ weights - targets
        weights = weights - rate * (samples.T @ residual)
    return weights


def ridge_regression(xp: Namespace, samples: Array, targets: Array) -> Array:
    """Least squares with a penalty, by the normal equations."""
    gram = samples.T @ samples + 0.1 * xp.eye(samples.shape[1])
    return xp.linalg.solve(gram, samples.T @ targets)


def logistic_regression(
    xp: Namespace, samples: Array, targets: Array, weights: Array, steps: int = 5
) -> Array:
    """Classification by gradient descent on the logistic loss; targets are 0 or 1."""
    rate = 1.0 / samples.shape[0]
    for _ in range(steps):
        predicted = 1.0 / (1.0 + xp.exp(-(samples @ weights)))
        weights = weights - rate * (samples.T @ (predicted - targets))
    return weights


def svm(xp: Namespace, samples: Array, targets: Array, weights: Array, steps: int = 5) -> Array:
    """A linear support vector machine by subgradients of the hinge loss; targets are -1 or 1."""
    rate = 1.0 / samples.shape[0]
    for _ in range(steps):
        inside = xp.where(targets * (samples @ weights) < 1.0, targets, 0.0 * targets)
        weights = 0.99 * weights + rate * (samples.T @ inside)
    return weights


def naive_bayes(xp: Namespace, samples: Array, labels: Array, classes: int = 16) -> Array:
    """Multinomial naive Bayes: log-likelihoods of features by class, from counts."""
    member = xp.where(labels[:, None] == xp.arange(classes), 1.0, 0.0)
    counts = member.T @ samples + 1.0
    likelihoods = xp.log(counts) - xp.log(xp.sum(counts, axis=1))[:, None]
    priors = xp.log(xp.sum(member, axis=0) / samples.shape[0])
    return likelihoods + priors[:, None]
