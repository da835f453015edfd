"""Compute costs: measured where there is a measurement, the roofline elsewhere, nothing for views."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from graphwright import machine
from graphwright.describe import Types, widest
from graphwright.ir import CONSTANT_OP, Attrs, TensorType
from graphwright.machine import Device, FrozenDict, Measurement, Store
from graphwright.simulate.costs import AssumedRate, CostModel, measured_with, spell_types

DEVICE = Device(
    name="test device",
    memory=10**9,
    rates=FrozenDict({"float32": 1e12, "bfloat16": 4e12}),
    bandwidth=1e11,
    launch=1e-5,
)
NONE = Attrs()
WINDOW = {
    "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1,
    "transposed": False, "output_padding": (0, 0),
}  # fmt: skip


def types(*shapes: tuple[int, ...] | None, outputs, dtype="float32") -> Types:
    return Types(
        tuple(None if s is None else TensorType(s, dtype) for s in shapes),
        tuple(TensorType(s, dtype) for s in outputs),
    )


def mm(n: int, dtype: str = "float32") -> Types:
    return types((n, n), (n, n), outputs=[(n, n)], dtype=dtype)


@pytest.fixture
def roofline():
    return CostModel(measured=False)


def test_a_large_product_is_bound_by_arithmetic(roofline):
    n = 4096
    assert roofline.compute("aten.mm", NONE, mm(n), DEVICE) == pytest.approx(1e-5 + 2 * n**3 / 1e12)
    assert roofline.compute("aten.mm", NONE, mm(n, "bfloat16"), DEVICE) == pytest.approx(
        1e-5 + 2 * n**3 / 4e12
    )


def test_an_addition_is_bound_by_memory(roofline):
    call = types((1000, 1000), (1000, 1000), outputs=[(1000, 1000)])
    found = roofline.compute("aten.add.Tensor", Attrs({"alpha": 1}), call, DEVICE)
    assert found == pytest.approx(1e-5 + 12e6 / 1e11)


def test_views_and_constants_take_no_time(roofline):
    view = types((4, 6), outputs=[(6, 4)])
    assert roofline.compute("aten.permute", Attrs({"dims": (1, 0)}), view, DEVICE) == 0
    constant = types(outputs=[()])
    assert roofline.compute(CONSTANT_OP, Attrs({"value": 3.0}), constant, DEVICE) == 0


def test_an_operator_without_a_description_is_charged_for_its_bytes(roofline):
    found = roofline.compute("mine.op", NONE, types((10**6,), outputs=[(10**6,)]), DEVICE)
    assert found == pytest.approx(1e-5 + 8e6 / 1e11)


def test_a_measurement_is_preferred_to_the_roofline(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    call = ("aten.mm", "", spell_types(mm(8)))
    measured = Measurement(seconds=0.25, spread=0.01, repeats=7)
    store.put_compute(DEVICE.name, measured_with(), *call, measured)
    earlier = measured_with().partition(",")[0]  # before ways of measuring were counted
    for other in ("0.0", earlier):
        other_time = Measurement(seconds=9.0, spread=0.0, repeats=1)
        store.put_compute(DEVICE.name, other, *call, other_time)
    model = CostModel(store)
    assert model.compute("aten.mm", NONE, mm(8), DEVICE) == 0.25
    assert model.measurement("aten.mm", NONE, mm(8), DEVICE) == measured
    assert model.measurement("aten.mm", NONE, mm(9), DEVICE) is None
    expected = CostModel(measured=False).compute("aten.mm", NONE, mm(8), DEVICE)
    assert model.roofline("aten.mm", NONE, mm(8), DEVICE) == expected
    assert CostModel(store, measured=False).compute("aten.mm", NONE, mm(8), DEVICE) == expected
    assert model.compute("aten.mm", NONE, mm(9), DEVICE) == pytest.approx(expected, rel=0.1)


def test_attributes_tell_calls_apart(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    call, dims = types((8, 8), outputs=[(8,)]), {"dim": (0,), "dtype": None, "keepdim": False}
    where = ("aten.sum.dim_IntList", Attrs(dims).text, spell_types(call))
    measured = Measurement(seconds=0.5, spread=0.0, repeats=1)
    store.put_compute(DEVICE.name, measured_with(), *where, measured)
    model = CostModel(store)
    assert model.compute("aten.sum.dim_IntList", dims, call, DEVICE) == 0.5
    assert model.compute("aten.sum.dim_IntList", {**dims, "dim": (1,)}, call, DEVICE) < 0.5


def test_the_default_store_is_read(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHWRIGHT_COSTS", str(tmp_path / "mine.sqlite"))
    where = ("aten.mm", "", spell_types(mm(8)))
    measured = Measurement(seconds=0.5, spread=0.0, repeats=1)
    Store().put_compute(DEVICE.name, measured_with(), *where, measured)
    assert CostModel().compute("aten.mm", NONE, mm(8), DEVICE) == 0.5


def test_equal_devices_share_what_is_known(roofline):
    twin = Device(
        name=DEVICE.name, memory=DEVICE.memory, rates=DEVICE.rates, bandwidth=1e11, launch=1e-5
    )
    slow = Device(
        name=DEVICE.name, memory=DEVICE.memory, rates=DEVICE.rates, bandwidth=1e9, launch=1e-5
    )
    assert roofline.compute("aten.mm", NONE, mm(64), DEVICE) == roofline.compute(
        "aten.mm", NONE, mm(64), twin
    )
    assert roofline.compute("aten.mm", NONE, mm(64), slow) > roofline.compute(
        "aten.mm", NONE, mm(64), DEVICE
    )


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (["float32", "bfloat16"], "float32"),
        (["bfloat16", "int64"], "bfloat16"),
        (["int64", "int32"], "float32"),
        (["complex64"], "float32"),
        (["complex128", "float32"], "float64"),
        ([], "float32"),
    ],
)
def test_the_widest_float_sets_the_rate(dtypes, expected):
    assert widest(tuple(TensorType((2,), d) for d in dtypes)) == expected


def test_a_tensor_without_dims_does_not_set_the_rate():
    wide, narrow = TensorType((), "float64"), TensorType((2,), "float32")
    assert widest((narrow, wide), (narrow,)) == "float32"
    assert widest((wide,), (wide,)) == "float64"


def attention(length: int) -> Types:
    tensor = TensorType((1, 4, length, 64), "bfloat16")
    return Types((tensor,) * 3, (tensor, TensorType((1, 4, length), "float32")))


def test_attention_runs_at_the_rate_of_what_it_multiplies(roofline):
    found = roofline.compute(
        "graphwright.causal_attention", {"scale": None, "first": 0}, attention(2048), DEVICE
    )
    half = 4 * 4 * 64 * 2048 * 2049 / 2
    assert found == pytest.approx(1e-5 + half / 4e12, rel=0.03)  # a few operations are no products


def test_efficiency_is_by_kind_dtype_and_intensity(roofline):
    curve = [[100.0, 0.25], [400.0, 0.5]]
    device = replace(
        DEVICE, efficiency={"product": {"bfloat16": curve, "other": 0.8}, "elementwise": 0.5}
    )
    n = 4096
    narrow = roofline.compute("aten.mm", NONE, mm(n, "bfloat16"), device)
    assert narrow == pytest.approx(1e-5 + 2 * n**3 / (0.5 * 4e12))
    assert roofline.compute("aten.mm", NONE, mm(n), device) == pytest.approx(
        1e-5 + 2 * n**3 / (0.8 * 1e12)
    )
    n = 600  # 2 n^3 operations on 6 n^2 bytes: 200 for each
    between = roofline.compute("aten.mm", NONE, mm(n, "bfloat16"), device)
    assert between == pytest.approx(1e-5 + 2 * n**3 / (0.375 * 4e12))
    call = types((1000, 1000), (1000, 1000), outputs=[(1000, 1000)])
    found = roofline.compute("aten.add.Tensor", Attrs({"alpha": 1}), call, device)
    assert found == pytest.approx(1e-5 + 12e6 / 0.5e11)


def test_a_product_whose_rows_are_not_aligned_reaches_less(roofline):
    device = replace(DEVICE, efficiency={"unaligned": 0.5})
    compiled = CostModel(measured=False, compiled=True)
    for words, dtype, times in (
        (50304, "bfloat16", 1),
        (50257, "bfloat16", 2),
        (50257, "float32", 1),
    ):
        call = types((512, 768), (768, words), outputs=[(512, words)], dtype=dtype)
        expected = 2 * 512 * 768 * words / DEVICE.rates[dtype]
        assert roofline.compute("aten.mm", NONE, call, device) == pytest.approx(
            1e-5 + times * expected
        )
        assert compiled.compute("aten.mm", NONE, call, device) == pytest.approx(1e-5 + expected)


def test_matrix_units_turn_images_round_unless_channels_are_last(roofline):
    """Measured on a V100 with ResNet-50 and autocast: 152 ms, 111 ms with channels last; in float32,
    where no matrix units are used, channels last do not help."""
    last = CostModel(measured=False, channels_last=True)
    for dtype, turned in (("bfloat16", True), ("float32", False)):
        call = types(
            (8, 256, 32, 32), (256, 256, 3, 3), None, outputs=[(8, 256, 32, 32)], dtype=dtype
        )
        nbytes = sum(t.nbytes for t in (*call.inputs, *call.outputs) if t is not None)
        one, other = (c.compute("aten.convolution", WINDOW, call, DEVICE) for c in (roofline, last))
        assert one - other == pytest.approx(2 * nbytes / 1e11 if turned else 0.0)


def test_convolutions_of_float32_take_tf32_and_products_do_not():
    roofline = CostModel(measured=False, channels_last=True)
    device = replace(DEVICE, rates={**DEVICE.rates, "tf32": 2e12})
    call = types((8, 256, 32, 32), (256, 256, 3, 3), None, outputs=[(8, 256, 32, 32)])
    one, other = (roofline.compute("aten.convolution", WINDOW, call, d) for d in (DEVICE, device))
    assert one - 1e-5 == pytest.approx(2 * (other - 1e-5))
    assert roofline.compute("aten.mm", NONE, mm(512), DEVICE) == roofline.compute(
        "aten.mm", NONE, mm(512), device
    )


def test_a_rate_that_is_not_listed_is_reported(roofline):
    with pytest.warns(AssumedRate, match="lists no rate for float16.*float32 is used"):
        roofline.compute("aten.mm", NONE, mm(512, "float16"), DEVICE)
    plain = replace(DEVICE, rates={"float32": 1e12})  # it says one rate for all, which is no news
    roofline.compute("aten.mm", NONE, mm(512, "float16"), plain)


def test_types_are_spelled_with_what_is_absent():
    assert spell_types(types((2, 3), None, outputs=[(3,)])) == "float32[2, 3], _ -> float32[3]"


def test_a_known_call_costs_microseconds(roofline):
    attrs, call = Attrs({"alpha": 1}), types((9, 9), (9, 9), outputs=[(9, 9)])
    roofline.compute("aten.add.Tensor", attrs, call, DEVICE)
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(1000):
            roofline.compute("aten.add.Tensor", attrs, call, DEVICE)
        best = min(best, (time.process_time() - begin) / 1000)
    assert best < 5e-5


def test_torch_is_not_imported():
    code = "import sys, graphwright.simulate.costs as c; c.measured_with(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_preset_has_devices_that_can_be_asked(roofline):
    for name in machine.preset_names():
        for device in machine.cluster(name).kinds():
            assert roofline.compute("aten.mm", NONE, mm(64), device) > 0
