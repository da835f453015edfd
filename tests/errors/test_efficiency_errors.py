"""Figures of a cluster file that no device can have are refused by name."""

import pytest

from graphwright.cli.app import _format_warning
from graphwright.describe import Types
from graphwright.errors import InvalidCluster
from graphwright.ir import Attrs, TensorType
from graphwright.machine import cluster, from_toml, to_toml
from graphwright.simulate import AssumedRate, CostModel, costs

GOOD = """
name = "mine"
[device]
name = "a device"
memory = "16GB"
bandwidth = "900GB/s"
launch = "4us"
[device.rates]
float32 = "10T"
bfloat16 = "80T"
[device.efficiency]
{line}
[[level]]
name = "gpu"
count = 2
bandwidth = "10GB/s"
latency = "5us"
"""


def read(line: str):
    return from_toml(GOOD.format(line=line), "mine.toml")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("product = 1.2", "efficiency: product: other: 1.2 is no efficiency.*at most 1"),
        ("product = 0", "product: other: 0 is no efficiency.*above 0"),
        ("product = -0.5", "product: other: -0.5 is no efficiency"),
        ("product = true", "product: other: True is no efficiency"),
        ("product = {float16 = 0.7}", "product: float16 has no rate.*bfloat16, float32 are there"),
        ("produkt = 0.7", "'produkt' is no kind; did you mean 'product'"),
        ("product = []", "no points; give a share"),
        ("product = [[100, 0.5], [50, 0.6]]", "intensities have to grow, and 50 does not"),
        ("product = [[100, 1.5]]", "1.5 is no efficiency"),
        ("product = [[0, 0.5]]", "intensity: 0 is not a finite positive number"),
        ("product = [0.5]", "0.5 is not .operations for each byte"),
    ],
)
def test_an_impossible_efficiency_is_refused_by_name(line, words):
    with pytest.raises(InvalidCluster, match=words) as caught:
        read(line)
    assert "mine.toml" in str(caught.value)
    assert "a device" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('bfloat16 = "80T"', 'bfloat16 = "0T"', "bfloat16"),
        ('float32 = "10T"', "", "float32 is missing"),
        (
            'latency = "5us"',
            'latency = "5us"\nefficiency = 1.5',
            "efficiency: 1.5 is no efficiency",
        ),
        ('latency = "5us"', 'latency = "5us"\nefficiency = 0', "efficiency: 0 is no efficiency"),
        ('launch = "4us"', 'launch = "4us"\nspread = 2', "spread: 2 is more than 1"),
    ],
)
def test_an_impossible_rate_is_refused_by_name(old, new, words):
    text = GOOD.format(line="product = 0.7").replace(old, new)
    with pytest.raises(InvalidCluster, match=words):
        from_toml(text, "mine.toml")


def test_efficiencies_are_written_back():
    made = read("product = {bfloat16 = [[100, 0.5], [400, 0.7]], other = 0.9}\nelementwise = 0.8")
    assert from_toml(to_toml(made)) == made
    assert made.devices[0].reached("product", "bfloat16", 200.0) == pytest.approx(0.6)
    assert made.devices[0].reached("product", "float32", 200.0) == 0.9
    assert made.devices[0].reached("attention", "float32", 200.0) == 1.0
    assert made.hash != read("elementwise = 0.8").hash


def test_a_device_may_be_named():
    text = GOOD.format(line="")
    start, end = text.index("[device]"), text.index("[[level]]")
    named = text[:start] + 'device = "h100-sxm"\n' + text[end:]
    assert from_toml(named, "mine.toml").devices[0] == cluster("dgx-h100").devices[0]
    with pytest.raises(InvalidCluster, match="no device 'h100-sxn'; did you mean 'h100-sxm'"):
        from_toml(named.replace("sxm", "sxn"), "mine.toml")


def test_a_preset_that_lists_no_rate_for_a_dtype_says_what_it_used():
    device = cluster("dgx-h100").devices[0]
    narrow = TensorType((512, 512), "float8_e4m3fnuz")
    call = Types((narrow, narrow), (TensorType((512, 512), "bfloat16"),))
    words = r"H100.* lists no rate for float8_e4m3fnuz.*that of float8_e4m3fn is used \(1979 T/s\)"
    with pytest.warns(AssumedRate, match=words):
        CostModel(measured=False).compute("aten.mm", Attrs(), call, device)


def test_the_command_line_says_it_in_one_line():
    words = "V100 lists no rate for bfloat16"
    own = _format_warning(words, AssumedRate, costs.__file__, 221, "self._report_rate(...)")
    assert own == f"graphwright: AssumedRate: {words}\n"
    assert _format_warning("a shape", UserWarning, "model.py", 7).startswith("model.py:7: ")
