"""Tensors made from attributes, and random ones (of which only types can be compared)."""

from hypothesis import strategies as st

from cases import Call, Draw, boolean, case, integer, real, shape, size
from cases.elementwise import NUMBER, anything, calls, floats, units

DTYPE = st.sampled_from(["float64", "float32", "int64", "bool"])
FILL = st.sampled_from([0, 1, -2, True, 0.5])


@case("aten.full")
def full(draw: Draw) -> Call:
    return {"size": shape(draw), "fill_value": draw(FILL), "dtype": draw(DTYPE)}, []


@case("aten.zeros", "aten.ones")
def filled(draw: Draw) -> Call:
    return {"size": shape(draw), "dtype": draw(DTYPE)}, []


@case("aten.new_full")
def new_full(draw: Draw) -> Call:
    return {"size": shape(draw), "fill_value": draw(FILL)}, [floats(draw, *shape(draw))]


@case("aten.new_zeros", "aten.new_ones", "aten.new_empty")
def new_filled(draw: Draw) -> Call:
    return {"size": shape(draw)}, [anything(draw, *shape(draw))]


@case("aten.scalar_tensor")
def scalar_tensor(draw: Draw) -> Call:
    return {"s": draw(FILL), "dtype": "float64"}, []


calls("aten.full_like", floats, fill_value=FILL)
calls("aten.zeros_like aten.ones_like", anything, dtype=st.none() | DTYPE)


@case("aten.arange.start_step")
def arange_step(draw: Draw) -> Call:
    start, step = draw(st.sampled_from([0, 3, -2, 0.5])), draw(st.sampled_from([1, 2, -3, 0.5]))
    end = start + step * size(draw) - draw(st.sampled_from([0, 0, step / 2 if step % 1 else 0]))
    dtype = draw(st.sampled_from(["float64", "float64", "int64"])) if step % 1 == 0 else "float64"
    return {"start": start, "end": end, "step": step, "dtype": dtype}, []


@case("aten.arange.start")
def arange_start(draw: Draw) -> Call:
    start = draw(st.integers(-3, 3))
    return {
        "start": start,
        "end": start + size(draw),
        "dtype": draw(st.sampled_from([None, "float64"])),
    }, []


@case("aten.arange")
def arange(draw: Draw) -> Call:
    return {"end": size(draw)}, []


@case("aten.linspace")
def linspace(draw: Draw) -> Call:
    dtype = draw(st.sampled_from(["float64", "float64", "int64"]))
    return {"start": draw(NUMBER), "end": draw(NUMBER), "steps": size(draw), "dtype": dtype}, []


@case("aten.eye")
def eye(draw: Draw) -> Call:
    return {"n": size(draw)}, []


@case("aten.eye.m")
def eye_m(draw: Draw) -> Call:
    return {"n": size(draw), "m": size(draw)}, []


# -- random -------------------------------------------------------------------------------------


@case("aten.empty.memory_format", "aten.rand", "aten.randn")
def drawn(draw: Draw) -> Call:
    return {"size": shape(draw), "dtype": draw(st.sampled_from(["float64", "float32"]))}, []


@case("aten.empty_strided")
def strided(draw: Draw) -> Call:
    m, n = size(draw), size(draw)
    return {"size": (m, n), "stride": (n, 1)}, []


@case("aten.new_empty_strided")
def new_strided(draw: Draw) -> Call:
    return strided(draw)[0], [real(draw, 2)]


@case("aten.empty_permuted")
def permuted(draw: Draw) -> Call:
    return {"size": (size(draw), size(draw)), "physical_layout": (1, 0)}, []


def some_dtype(draw: Draw) -> dict[str, object]:
    """A dtype, or the schema's default, which is a number."""
    return draw(st.sampled_from([{}, {"dtype": "int64"}, {"dtype": "int32"}]))


@case("aten.randint")
def randint(draw: Draw) -> Call:
    return {"high": 4, "size": shape(draw)} | some_dtype(draw), []


@case("aten.randint.low")
def randint_from(draw: Draw) -> Call:
    return {"low": 1, **randint(draw)[0]}, []


@case("aten.randperm")
def randperm(draw: Draw) -> Call:
    return {"n": size(draw)} | some_dtype(draw), []


@case("aten.multinomial")
def multinomial(draw: Draw) -> Call:
    rows, classes = size(draw), size(draw)
    return {"num_samples": size(draw), "replacement": True}, [units(draw, rows, classes)]


@case("aten.randint_like")
def randint_like(draw: Draw) -> Call:
    return {"high": 4}, [integer(draw, *shape(draw))]


@case("aten.randint_like.low_dtype")
def randint_like_from(draw: Draw) -> Call:
    return {"low": 1, "high": 4}, randint_like(draw)[1]


@case("aten.tril_indices", "aten.triu_indices")
def triangle_indices(draw: Draw) -> Call:
    row, col = size(draw), size(draw)
    offset = draw(st.integers(1 - row, col - 1))
    return {"row": row, "col": col, "offset": offset} | some_dtype(draw), []


calls("aten.log_normal aten.cauchy", floats)
calls("aten.geometric", floats, p=st.just(0.3))
calls("aten.normal.Tensor_float", floats)
calls("aten.normal.float_Tensor", units, mean=st.just(0.5))
calls("aten._standard_gamma", units)
calls("aten.normal.Tensor_Tensor", floats, units)


@case("aten._sample_dirichlet")
def dirichlet(draw: Draw) -> Call:
    return {}, [units(draw, *shape(draw, 1, 3))]


calls("aten.empty_like aten.rand_like aten.randn_like", floats)
calls("aten.uniform aten.normal_functional aten.exponential", floats)
calls("aten.bernoulli aten.poisson", units)
calls("aten.bernoulli.p", floats, p=st.sampled_from([0.0, 0.3, 1.0]))
calls(
    "aten.native_dropout",
    floats,
    p=st.sampled_from([0.0, 0.3]),
    train=st.sampled_from([None, True, False]),
)


@case("aten.native_dropout_backward")
def native_dropout_backward(draw: Draw) -> Call:
    dims = shape(draw)
    return {"scale": 1.25}, [real(draw, *dims), boolean(draw, *dims)]
