"""Programs as people write them for NumPy, after well-known examples; `xp` is the import that is changed."""

# ruff: noqa: N806, E741

import numpy as np


def heat(xp):
    u = xp.zeros((50, 50))
    u[0, :] = 100.0
    u[:, -1] = 50
    for _ in range(40):
        u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.2 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return u


def pca(xp):
    x = xp.asarray(
        np.random.default_rng(0).normal(size=(200, 8))
        @ np.random.default_rng(1).normal(size=(8, 8))
    )
    x = x - xp.mean(x, axis=0)
    c = xp.cov(x, rowvar=False)
    w, v = xp.linalg.eigh(c)
    i = xp.argsort(w)[::-1]
    v = v[:, i]
    v = v * xp.sign(v[0])
    return xp.dot(x, v[:, :2])


def mandelbrot(xp):
    y, x = xp.ogrid[-1.4:1.4:60j, -2:0.8:80j]
    c = x + y * 1j
    z = c
    div = xp.full(z.shape, 20)
    z = z + xp.zeros_like(c)
    for i in range(20):
        z = z**2 + c
        diverge = z * xp.conj(z) > 4
        now = diverge & (div == 20)
        div[now] = i
        z[diverge] = 2
    return div


def montecarlo(xp):
    p = xp.asarray(np.random.default_rng(0).random((100000, 2)))
    inside = (p**2).sum(axis=1) <= 1
    return 4 * inside.sum() / len(p)


def life(xp):
    g = xp.zeros((32, 32), dtype=int)
    g[1, 25] = 1
    g[2, [23, 25]] = 1
    g[3:7, 5:9] = [[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1]]
    for _ in range(20):
        n = sum(
            xp.roll(xp.roll(g, i, 0), j, 1)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if (i, j) != (0, 0)
        )
        g = xp.where((n == 3) | ((g == 1) & (n == 2)), 1, 0)
    return g


def life_slices(xp):
    Z = xp.asarray(np.random.default_rng(0).integers(0, 2, (30, 40)))
    for _ in range(10):
        N = (
            Z[0:-2, 0:-2]
            + Z[0:-2, 1:-1]
            + Z[0:-2, 2:]
            + Z[1:-1, 0:-2]
            + Z[1:-1, 2:]
            + Z[2:, 0:-2]
            + Z[2:, 1:-1]
            + Z[2:, 2:]
        )
        birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
        survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
        Z[...] = 0
        Z[1:-1, 1:-1][birth | survive] = 1
    return Z


def knn(xp):
    r = np.random.default_rng(0)
    X = xp.asarray(r.normal(size=(100, 5)))
    y = xp.asarray(r.integers(0, 3, 100))
    T = xp.asarray(r.normal(size=(20, 5)))
    d = xp.sqrt(((T[:, None, :] - X[None]) ** 2).sum(-1))
    n = xp.argsort(d, axis=1)[:, :5]
    v = y[n]
    return xp.array([xp.bincount(row, minlength=3).argmax() for row in v])


def convolution(xp):
    im = xp.asarray(np.random.default_rng(0).random((40, 40)))
    k = xp.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    p = xp.pad(im, 1, mode="edge")
    out = xp.zeros_like(im)
    for i in range(3):
        for j in range(3):
            out += k[i, j] * p[i : i + 40, j : j + 40]
    return out


def histogram_text(xp):
    t = xp.frombuffer(b"the quick brown fox jumps over the lazy dog" * 20, dtype=xp.uint8)
    v, c = xp.unique(t, return_counts=True)
    h = xp.bincount(t, minlength=128)
    return xp.concatenate([v.astype(int), c, h])


def kalman(xp):
    r = np.random.default_rng(0)
    z = xp.asarray(np.cumsum(r.normal(size=30)))
    F = xp.array([[1, 1], [0, 1.0]])
    H = xp.array([[1.0, 0]])
    Q = xp.eye(2) * 0.01
    R = xp.array([[0.5]])
    x = xp.zeros((2, 1))
    P = xp.eye(2)
    out = []
    for k in range(30):
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ xp.linalg.inv(S)
        x = x + K @ (z[k] - H @ x)
        P = (xp.eye(2) - K @ H) @ P
        out.append(x[0, 0])
    return xp.array(out)


def fftfilter(xp):
    t = xp.linspace(0, 1, 500, endpoint=False)
    s = xp.sin(2 * xp.pi * 5 * t) + 0.5 * xp.sin(2 * xp.pi * 50 * t)
    f = xp.fft.fft(s)
    fr = xp.fft.fftfreq(len(s), d=t[1] - t[0])
    f[xp.abs(fr) > 10] = 0
    return xp.fft.ifft(f).real


def kmeans(xp):
    x = xp.asarray(np.random.default_rng(0).normal(size=(300, 2)))
    c = x[:4].copy()
    for _ in range(10):
        l = xp.argmin(xp.linalg.norm(x[:, None] - c[None], axis=2), axis=1)
        c = xp.array([x[l == k].mean(axis=0) for k in range(4)])
    return c


def sir(xp):
    S, I, R = xp.empty(100), xp.empty(100), xp.empty(100)
    S[0], I[0], R[0] = 0.99, 0.01, 0
    for t in range(99):
        S[t + 1] = S[t] - 0.3 * S[t] * I[t]
        I[t + 1] = I[t] + 0.3 * S[t] * I[t] - 0.1 * I[t]
        R[t + 1] = R[t] + 0.1 * I[t]
    return xp.stack([S, I, R])


def gradient_descent(xp):
    r = np.random.default_rng(0)
    X = xp.asarray(r.normal(size=(100, 3)))
    y = X @ xp.array([1, -2, 0.5]) + 0.1
    w = xp.zeros(3)
    b = 0.0
    for _ in range(50):
        e = X @ w + b - y
        w -= 0.1 * X.T @ e / len(y)
        b -= 0.1 * e.mean()
    return xp.append(w, b)


def rowsort(xp):
    a = xp.arange(24).reshape(4, 6) % 7
    a[::2] = a[::2][:, ::-1]
    a[:, 1::2] *= 2
    a[a > 8] -= 3
    a[-1] += a[0]
    a[[0, 2]] = a[[2, 0]]
    return a


def sieve(xp):
    s = xp.ones(200, dtype=bool)
    s[:2] = False
    for i in range(2, 15):
        if s[i]:
            s[i * i :: i] = False
    return xp.nonzero(s)[0]


def nbody(xp):
    r = np.random.default_rng(0)
    p = xp.asarray(r.normal(size=(20, 3)))
    v = xp.zeros((20, 3))
    m = xp.asarray(r.random(20))
    for _ in range(5):
        d = p[None] - p[:, None]
        q = (d**2).sum(-1) + 0.01
        a = (d * (m[None, :, None] / q[..., None] ** 1.5)).sum(1)
        v += 0.01 * a
        p += 0.01 * v
    return p


def lu(xp):
    A = xp.asarray(np.random.default_rng(0).normal(size=(8, 8))) + 8 * xp.eye(8)
    n = 8
    L = xp.eye(n)
    U = A.copy()
    for k in range(n - 1):
        for i in range(k + 1, n):
            L[i, k] = U[i, k] / U[k, k]
            U[i, k:] -= L[i, k] * U[k, k:]
    return xp.stack([L, U])


def moving(xp):
    x = xp.asarray(np.random.default_rng(0).normal(size=200))
    c = xp.cumsum(xp.insert(x, 0, 0))
    return (c[10:] - c[:-10]) / 10


def logistic_map(xp):
    r = xp.linspace(2.5, 4, 50)
    x = 1e-5 * xp.ones(50)
    out = []
    for i in range(60):
        x = r * x * (1 - x)
        if i >= 50:
            out.append(x)
    return xp.vstack(out)


SCRIPTS = [
    heat,
    pca,
    mandelbrot,
    montecarlo,
    life,
    life_slices,
    knn,
    convolution,
    histogram_text,
    kalman,
    fftfilter,
    kmeans,
    sir,
    gradient_descent,
    rowsort,
    sieve,
    nbody,
    lu,
    moving,
    logistic_map,
]
