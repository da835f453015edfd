"""Reports are true, complete and readable in 80 columns."""

from io import StringIO

import pytest
from rich.console import Console

from graphwright.describe import Slice, Types, require
from graphwright.ir import TensorType
from graphwright.report import Coverage, GraphCoverage, operator_report, show
from graphwright.report.tables.operator import region_text
from graphwright.report.tables.source import fit, source_of

TENSOR = TensorType((1, 1), "float32")


def shown(result) -> str:
    console = Console(file=StringIO(), width=80)
    show(result, console)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        (Slice(0, 8), ":"),
        (Slice(2, 6), "2:6"),
        (Slice(-1, 5, 0), "pad 1 | 0:5"),
        (Slice(3, 10, 0), "3:8 | pad 2"),
        (Slice(-2, 9, 0), "pad 2 | : | pad 1"),
        (Slice(-1, 5, float("-inf")), "pad 1 of -inf | 0:5"),
        (Slice(-3, -1, 0), "pad 2"),
        (Slice(9, 12, 0), "pad 3"),
        (Slice(4, 4), "nothing"),
    ],
)
def test_regions_never_look_like_negative_indices(piece, text):
    assert region_text((piece,), (8,)) == text


def test_what_pad_means_is_said_where_it_is_used():
    output = shown(operator_report("aten.constant_pad_nd"))
    assert ("pad n: n elements beyond" in output) == ("| pad" in output or "[pad" in output)
    assert "pad n" not in shown(operator_report("aten.mm"))


@pytest.mark.parametrize(
    ("op", "line"),
    [
        ("aten.gelu", 'elementwise("aten.gelu", gelu)'),
        ("aten.sum", '    "sum": ["aten.sum", "aten.sum.dim_IntList"],'),
        ("aten.cumsum", '_describe_scan("cumsum", np.cumsum)'),
        ("aten.add.Tensor", 'binary("aten.add", lambda a, other, *, alpha: a + alpha * other)'),
    ],
)
def test_a_description_made_by_a_helper_shows_where(op, line):
    source = source_of(require(op))
    assert line in source.splitlines()
    assert "aten.prod" not in source


def test_code_is_continued_further_to_the_right():
    code = "def f(a):\n    return something_long(a, a, a) + another_thing(a)"
    assert fit(code, 200) == code
    assert fit(code, 40).splitlines() == [
        "def f(a):",
        "    return something_long(a, a, a) +",
        "            another_thing(a)",
    ]


def test_names_are_whole_in_80_columns():
    row = GraphCoverage(
        model="transformer-base-large",
        num_nodes=123456,
        num_operators=40,
        undescribed=("aten._some_operator_with_a_very_long_name.with_overload",),
        opaque={"aten.linalg_cholesky_ex": ("cholesky",)},
        random=("aten.bernoulli.p",),
    )
    coverage = Coverage(
        num_described=1,
        core=("aten.mm",),
        core_missing={},
        lines={"aten.mm": 1},
        library_lines=1,
        pytorch_lines=None,
        zoo=(row,),
    )
    output = shown(coverage)
    assert row.model in output
    assert "…" not in output


def test_every_index_has_a_split_or_a_reason():
    report = operator_report("aten.mm", {}, Types((TENSOR, TENSOR), (TENSOR,)))
    assert [split.index for split in report.splits] == []
    assert report.refused == dict.fromkeys(["i", "j", "k"], "it has a single element")
    for op in ("aten.sort", "aten.convolution", "aten.native_layer_norm", "aten.roll"):
        report = operator_report(op)
        known = {split.index for split in report.splits} | set(report.refused)
        assert {v.name for v in report.trace.outputs[0].variables} <= known


def test_the_sum_of_what_training_keeps_is_shown_in_both_units():
    from graphwright import zoo

    output = shown(zoo.load("vgg16").capture())
    weights = 138_357_544 * 4
    assert f"{3 * weights / 1e9:.3g} GB ({3 * weights / 2**30:.1f} GiB)" in output
