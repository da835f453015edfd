"""Short programs that mean the same with NumPy and with graphwright.arrays, by the name that they are about.

Each takes the namespace and arrays of its own choice of shapes. `NAMES` has a program, or several, for every public
function; `test_arrays_numpy.py` says so.
"""

import numpy as np

SHAPES = [(6, 4), (1, 5), (7,), (2, 3, 4), (), (0, 3)]
MATRICES = [(5, 5), (6, 3), (2, 4, 4)]
SQUARE = [(4, 4), (2, 3, 3)]
LINES = [(7,), (1,)]
FULL = [(6, 4), (1, 5), (7,), (2, 3, 4)]  # no empty ones, and a dim at least


def positive(xp, x):
    """Positive definite matrices."""
    return xp.matmul(x, xp.swapaxes(x, -1, -2)) + 4.0 * xp.eye(x.shape[-1])


NAMES = {
    # -- shapes
    "reshape": (SHAPES, lambda xp, x: xp.reshape(x, (-1,)) if x.size else xp.reshape(x, x.shape[::-1])),
    "permute_dims": (SHAPES, lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1])),
    "transpose": (SHAPES, lambda xp, x: xp.transpose(x)),
    "matrix_transpose": (MATRICES, lambda xp, x: xp.matrix_transpose(x)),
    "swapaxes": (MATRICES, lambda xp, x: xp.swapaxes(x, 0, -1)),
    "moveaxis": ([(2, 3, 4)], lambda xp, x: xp.moveaxis(x, (0, 2), (1, 0))),
    "expand_dims": (SHAPES, lambda xp, x: xp.expand_dims(x, axis=-1)),
    "squeeze": ([(1, 5), (1, 3, 1), ()], lambda xp, x: xp.squeeze(x)),
    "broadcast_to": ([(4,), (1, 4), ()], lambda xp, x: xp.broadcast_to(x, (3, 4))),
    "broadcast_arrays": ([(4, 1), ()], lambda xp, x: list(xp.broadcast_arrays(x, xp.ones((4, 3))))),
    "flip": (SHAPES, lambda xp, x: xp.flip(x)),
    "roll": (SHAPES, lambda xp, x: [xp.roll(x, 3), *[xp.roll(x, -1, axis=d) for d in range(x.ndim)]]),
    "concat": (FULL, lambda xp, x: xp.concat([x, x + 1], axis=-1)),
    "concatenate": (FULL, lambda xp, x: xp.concatenate([x, x + 1], axis=0)),
    "stack": (SHAPES, lambda xp, x: xp.stack([x, x * 2], axis=-1)),
    "unstack": (FULL, lambda xp, x: list(xp.unstack(x))),
    "tile": (SHAPES, lambda xp, x: [xp.tile(x, (2,)), xp.tile(x, (2, 1, 3))]),
    "repeat": (FULL, lambda xp, x: [xp.repeat(x, 2, axis=-1), xp.repeat(x, 3), xp.repeat(x, np.arange(x.shape[0]), axis=0)]),
    "pad": (FULL, lambda xp, x: xp.pad(x, 2, constant_values=1)),
    "tril": (MATRICES, lambda xp, x: [xp.tril(x), xp.tril(x, k=-1)]),
    "triu": (MATRICES, lambda xp, x: [xp.triu(x), xp.triu(x, k=2)]),
    "ravel": (SHAPES, lambda xp, x: xp.ravel(x)),
    "atleast_1d": (SHAPES, lambda xp, x: xp.atleast_1d(x)),
    "atleast_2d": (SHAPES, lambda xp, x: xp.atleast_2d(x)),
    "vstack": (FULL, lambda xp, x: xp.vstack([x, x])),
    "hstack": (FULL, lambda xp, x: xp.hstack([x, x])),
    "column_stack": ([(5,), (5, 2)], lambda xp, x: xp.column_stack([x, x])),
    "split": ([(6, 4), (6,)], lambda xp, x: [*xp.split(x, 3), *xp.split(x, [1, 4])]),
    "diagonal": ([(4, 5), (2, 3, 4)], lambda xp, x: [xp.diagonal(x), xp.diagonal(x, offset=1), xp.diagonal(x, offset=-2)]),
    # -- lookups
    "take": (FULL, lambda xp, x: [xp.take(x, xp.asarray([0, -1, 0]), axis=0), xp.take(x, xp.asarray([2, 1]))]),
    "take_along_axis": (FULL, lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=-1), axis=-1)),
    "getitem": ([(6, 5, 4)], lambda xp, x: [
        x[1], x[-1, 2], x[1:4], x[::2, ::-1], x[5:1:-2, None, ..., 1], x[[0, 2]], x[:, [1, -1]], x[[0, 1], [2, 3]],
        x[1, :, [0, 2, 3]], x[[[0], [1]], [2, 3]], x[..., None], x[2:2], x[xp.asarray([3, 0]), 1:3],
        x[:, None, [0, 1], 2:], x[x > 0], x[x[:, 0, 0] > 0], x[-2:, [True, False, True, False, True]],
    ]),
    # -- reductions
    **{
        name: (SHAPES, lambda xp, x, name=name: [getattr(xp, name)(x), *[getattr(xp, name)(x, axis=d, keepdims=True) for d in range(x.ndim)]])
        for name in ("sum", "prod", "any", "all", "count_nonzero")
    },
    **{
        name: (FULL, lambda xp, x, name=name: [getattr(xp, name)(x), *[getattr(xp, name)(x, axis=d) for d in range(x.ndim)]])
        for name in (
            "max", "min", "amax", "amin", "mean", "var", "std", "ptp", "argmax", "argmin", "median", "average",
            "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd",
        )
    },
    "cumulative_sum": (FULL, lambda xp, x: [xp.cumulative_sum(x, axis=0), xp.cumulative_sum(x, axis=-1, include_initial=True)]),
    "cumulative_prod": (FULL, lambda xp, x: [xp.cumulative_prod(x, axis=-1, include_initial=True)]),
    "cumsum": (SHAPES, lambda xp, x: xp.cumsum(x)),
    "cumprod": (FULL, lambda xp, x: xp.cumprod(x, axis=0)),
    "diff": ([(7,), (3, 5)], lambda xp, x: [xp.diff(x), xp.diff(x, axis=0), xp.diff(x, n=2), xp.diff(x, prepend=x[..., :1])]),
    # -- order
    "sort": (FULL, lambda xp, x: [xp.sort(x), xp.sort(x, axis=0)]),
    "argsort": (FULL, lambda xp, x: [xp.argsort(x, stable=True), xp.argsort(x, axis=0, stable=True)]),
    "nonzero": (FULL, lambda xp, x: list(xp.nonzero(x > 0))),
    "argwhere": (FULL, lambda xp, x: xp.argwhere(x > 0)),
    "where": (SHAPES, lambda xp, x: [xp.where(x > 0, x, 1), xp.where(x > 0, 1.5, x)]),
    "searchsorted": (LINES, lambda xp, x: [xp.searchsorted(xp.sort(x), x), xp.searchsorted(xp.sort(x), x, side="right")]),
    "unique_all": (FULL, lambda xp, x: list(xp.unique_all(x))),
    "unique_counts": (FULL, lambda xp, x: list(xp.unique_counts(x))),
    "unique_inverse": (FULL, lambda xp, x: list(xp.unique_inverse(x))),
    "unique_values": (FULL, lambda xp, x: xp.sort(xp.unique_values(x))),
    "unique": (FULL, lambda xp, x: xp.unique(x)),
    "isin": (FULL, lambda xp, x: [xp.isin(x, x[0]), xp.isin(x, np.arange(50.0)), xp.isin(x, x[0], invert=True)]),
    "quantile": (FULL, lambda xp, x: [xp.quantile(x, 0.3), xp.quantile(x, [0.1, 0.8], axis=-1)]),
    "nanquantile": (FULL, lambda xp, x: xp.nanquantile(x, 0.25, axis=0)),
    "percentile": (FULL, lambda xp, x: xp.percentile(x, [10, 90], axis=0)),
    "histogram": (FULL, lambda xp, x: [*xp.histogram(x, 4), *xp.histogram(x, [-1.0, 0.0, 2.0])]),
    "bincount": (LINES, lambda xp, x: xp.bincount(xp.astype(xp.abs(x), np.int64))),
    "allclose": (FULL, lambda xp, x: [np.asarray(xp.allclose(x, x)), np.asarray(xp.allclose(x, x + 1))]),
    "array_equal": (FULL, lambda xp, x: [np.asarray(xp.array_equal(x, x)), np.asarray(xp.array_equal(x, x + 1))]),
    # -- products
    "matmul": (SQUARE, lambda xp, x: [xp.matmul(x, x + 1), xp.matmul(x, x[..., 0, :, None])]),
    "tensordot": ([(3, 4), (2, 3, 4)], lambda xp, x: [xp.tensordot(x, x, axes=((0,), (0,))), xp.tensordot(x, x.T, axes=1)]),
    "vecdot": (FULL, lambda xp, x: xp.vecdot(x, x + 1)),
    "dot": ([(3, 3), (4,)], lambda xp, x: xp.dot(x, x)),
    "inner": ([(3, 4), (4,)], lambda xp, x: xp.inner(x, x)),
    "outer": (LINES, lambda xp, x: xp.outer(x, x + 1)),
    "einsum": (SQUARE, lambda xp, x: [
        xp.einsum("...ij,...jk->...ik", x, x), xp.einsum("...ii->...i", x), xp.einsum("...ij->...j", x), xp.einsum("...ij,...ij", x, x),
    ]),
    "cross": ([(3,), (4, 3)], lambda xp, x: xp.linalg.cross(x, x[..., ::-1] + 1)),
    "trace": ([(4, 4)], lambda xp, x: [xp.trace(x), xp.trace(x, offset=1)]),
    "kron": ([(2, 3), (4,)], lambda xp, x: xp.kron(x, x)),
    # -- new arrays
    "arange": ([()], lambda xp, x: [xp.arange(5), xp.arange(2, 9, 3), xp.arange(1.5, 4, 0.3), xp.arange(5, 0, -2), xp.arange(4, dtype=np.float32), xp.arange(0)]),
    "linspace": ([()], lambda xp, x: [xp.linspace(0, 1, 7), xp.linspace(2.0, -3, 5, endpoint=False), xp.linspace(1, 1, 1), xp.linspace(0, 10, 5, dtype=np.int64)]),
    "eye": ([()], lambda xp, x: [xp.eye(3), xp.eye(2, 4, k=1), xp.eye(4, k=-1, dtype=np.int32)]),
    "identity": ([()], lambda xp, x: xp.identity(3)),
    "tri": ([()], lambda xp, x: [xp.tri(3), xp.tri(2, 4, 1)]),
    "diag": ([(4,), (4, 5)], lambda xp, x: [xp.diag(x), xp.diag(x, k=1), xp.diag(x, k=-2)]),
    "full": ([()], lambda xp, x: [xp.full((2, 3), 7), xp.full((2,), 1.5), xp.full((), True)]),
    "zeros": ([()], lambda xp, x: [xp.zeros((2, 3)), xp.zeros(4, dtype=np.int8)]),
    "ones": ([()], lambda xp, x: [xp.ones((2, 3)), xp.ones(4, dtype=np.complex64)]),
    "full_like": (SHAPES, lambda xp, x: xp.full_like(x, 3)),
    "zeros_like": (SHAPES, lambda xp, x: xp.zeros_like(x)),
    "ones_like": (SHAPES, lambda xp, x: xp.ones_like(x, dtype=np.int64)),
    "meshgrid": (LINES, lambda xp, x: [*xp.meshgrid(x, x[:2]), *xp.meshgrid(x, x[:2], indexing="ij")]),
    "asarray": (SHAPES, lambda xp, x: [xp.asarray(x), xp.asarray([[1, 2], [3, 4]]), xp.asarray(2.5)]),
    "array": (SHAPES, lambda xp, x: xp.array(x)),
    "fromfunction": ([()], lambda xp, x: xp.fromfunction(lambda i, j: i * 2 + j, (3, 4))),
    "from_dlpack": (FULL, lambda xp, x: xp.from_dlpack(np.array(x))),
    # -- dtypes
    "astype": (SHAPES, lambda xp, x: [xp.astype(x, np.float32), xp.astype(x, np.int64), xp.astype(x, np.bool_)]),
    "can_cast": ([()], lambda xp, x: np.asarray([xp.can_cast(np.int8, np.int64), xp.can_cast(np.float64, np.int8)])),
    "result_type": ([()], lambda xp, x: np.zeros(0, xp.result_type(np.int8, np.uint8))),
    "isdtype": ([()], lambda xp, x: np.asarray([xp.isdtype(np.dtype(np.int8), "integral"), xp.isdtype(np.dtype(np.int8), "bool")])),
    "finfo": ([()], lambda xp, x: np.asarray(float(xp.finfo(np.float32).eps))),
    "iinfo": ([()], lambda xp, x: np.asarray(xp.iinfo(np.int16).max)),
    # -- elements, in other forms than one and two operands
    "round": (SHAPES, lambda xp, x: [xp.round(x), xp.round(x, 1)]),
    "around": (SHAPES, lambda xp, x: xp.around(x)),
    "clip": (SHAPES, lambda xp, x: [xp.clip(x, -1, 1), xp.clip(x, None, 0.5), xp.clip(x, 0, None)]),
    "nan_to_num": (SHAPES, lambda xp, x: xp.nan_to_num(x / (x - x))),
    "isclose": (SHAPES, lambda xp, x: xp.isclose(x, x + 1e-9)),
    # -- operators and methods
    "operators": (SHAPES, lambda xp, x: [x + 1, 1 - x, x * 2.5, x / 3, x // 2, x % 3, x**2, 2**x, -x, +x, abs(x), x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1]),
    "bits": ([(6,)], lambda xp, x: [n := xp.astype(x * 4, np.int64), n & 3, n | 1, n ^ 5, ~n, n << 2, n >> 1, 3 & n]),
    "methods": (FULL, lambda xp, x: [
        x.sum(), x.sum(0), x.mean(axis=-1), x.std(), x.var(0), x.max(), x.min(0), x.T, x.reshape(-1), x.ravel(), x.astype(np.float32),
        x.argmax(), x.argmin(0), x.cumsum(0), x.prod(), x.any(), x.all(0), x.round(1), x.clip(0, 1), x.squeeze(), x.flatten(), x.copy(),
        x.dot(x.T) if x.ndim < 3 else x, x.repeat(2), x.swapaxes(0, -1), x.real, x.imag, x.conj(), x.transpose(), x.take(xp.asarray([0, 1])), x.ptp() if xp is not np else np.ptp(x),
    ]),
    "matrix operators": (SQUARE, lambda xp, x: [x @ x, x @ np.ones((x.shape[-1], 2)), x.mT, x.trace() if x.ndim == 2 else x, x.diagonal()]),
}  # fmt: skip

LINALG = {
    "cholesky": (SQUARE, lambda xp, x: xp.linalg.cholesky(positive(xp, x))),
    "det": (SQUARE, lambda xp, x: xp.linalg.det(x)),
    "inv": (SQUARE, lambda xp, x: xp.linalg.inv(positive(xp, x))),
    "slogdet": (SQUARE, lambda xp, x: list(xp.linalg.slogdet(x))),
    "eigvalsh": (SQUARE, lambda xp, x: xp.linalg.eigvalsh(positive(xp, x))),
    "eigh": (SQUARE, lambda xp, x: list(xp.linalg.eigh(positive(xp, x)))),
    "qr": (MATRICES, lambda xp, x: [*xp.linalg.qr(x), *xp.linalg.qr(x, mode="complete")]),
    "svd": (MATRICES, lambda xp, x: [*xp.linalg.svd(x), *xp.linalg.svd(x, full_matrices=False)]),
    "svdvals": (MATRICES, lambda xp, x: xp.linalg.svdvals(x)),
    "pinv": (MATRICES, lambda xp, x: xp.linalg.pinv(x)),
    "matrix_rank": (MATRICES, lambda xp, x: xp.linalg.matrix_rank(x)),
    "matrix_power": (SQUARE, lambda xp, x: [xp.linalg.matrix_power(x, 3), xp.linalg.matrix_power(x, 0)]),
    "solve": (SQUARE, lambda xp, x: [xp.linalg.solve(positive(xp, x), x)]),
    "matrix_norm": (MATRICES, lambda xp, x: [xp.linalg.matrix_norm(x, ord=n) for n in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]),
    "vector_norm": (FULL, lambda xp, x: [xp.linalg.vector_norm(x, axis=-1, ord=n) for n in (0, 1, 2, 3, np.inf, -np.inf)]),
    "norm": ([(3, 4), (4,)], lambda xp, x: [xp.linalg.norm(x), xp.linalg.norm(x, axis=0)]),
    "diagonal": (SQUARE, lambda xp, x: xp.linalg.diagonal(x)),
    "trace": (SQUARE, lambda xp, x: xp.linalg.trace(x)),
    "multi_dot": ([(4, 4)], lambda xp, x: xp.linalg.multi_dot([x, x, x])),
    "lstsq": ([(6, 3), (3, 5)], lambda xp, x: list(xp.linalg.lstsq(x, x[:, 0] * 2))),
    **{
        name: (SQUARE, lambda xp, x, name=name: getattr(xp.linalg, name)(x, x))
        for name in ("matmul", "vecdot")
    },
    "tensordot": ([(4, 4)], lambda xp, x: xp.linalg.tensordot(x, x, axes=1)),
    "matrix_transpose": (SQUARE, lambda xp, x: xp.linalg.matrix_transpose(x)),
    "cross": ([(4, 3)], lambda xp, x: xp.linalg.cross(x, x[::-1])),
    "outer": (LINES, lambda xp, x: xp.linalg.outer(x, x)),
}  # fmt: skip

FFT = {
    **{
        name: (FULL, lambda xp, x, name=name: [getattr(xp.fft, name)(x, n=4), *[getattr(xp.fft, name)(x, axis=d, norm="ortho", n=6) for d in range(x.ndim)]])
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        name: ([(4, 6), (2, 3, 4)], lambda xp, x, name=name: [getattr(xp.fft, name)(x), getattr(xp.fft, name)(x, axes=(0, 1), s=(3, 4))])
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
    },
    "fftfreq": ([()], lambda xp, x: [xp.fft.fftfreq(7), xp.fft.fftfreq(8, d=0.5)]),
    "rfftfreq": ([()], lambda xp, x: xp.fft.rfftfreq(7)),
    "fftshift": (FULL, lambda xp, x: xp.fft.fftshift(x)),
    "ifftshift": (FULL, lambda xp, x: xp.fft.ifftshift(x)),
}  # fmt: skip

ONLY_HERE = {  # compared with NumPy in tests of their own, or nothing to compare with
    "empty", "empty_like", "from_array", "update", "map", "filter", "fold", "scan", "join_update", "newaxis",
    "__array_namespace_info__",
}  # fmt: skip
