"""gw.optimize: the same results, fewer kernels; case studies; files; what is refused."""

import json
import logging
import re
from collections import Counter
from errno import ENOSPC
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright as gw
from graphwright.errors import GraphFileError, InvalidBatch, InvalidOption, UnsupportedModel
from graphwright.ir import Role
from graphwright.pipeline import ResultsDiffer, load_optimized
from graphwright.pipeline.inference import api
from graphwright.pipeline.inference.module import Nested, program_of
from inference_models import (
    Averages,
    Branches,
    Heads,
    Inception,
    PoolsAndConvolution,
    Random,
    flops,
    settled,
)

IMAGE = torch.rand(1, 4, 6, 6, dtype=torch.float64)


def optimized(model, x, **options):
    result = gw.optimize(settled(model), x, prices=flops, **options)
    return result, Counter(node.op for node in result.graph.nodes)


def same(model, result, *inputs):
    with torch.no_grad():
        torch.testing.assert_close(result(*inputs), model(*inputs), rtol=1e-9, atol=1e-9)


def test_norms_and_biases_become_part_of_convolutions():
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 1))
    result, ops = optimized(model, IMAGE)
    assert ops == {"aten.conv2d": 2, "aten.relu": 1}
    assert all(node.inputs[2] is not None for node in result.graph.nodes if "conv" in node.op)
    same(model, result, IMAGE)


def test_convolutions_of_one_input_become_one():
    """Those of 1 x 1; their biases, norms and activations follow."""
    model = Inception()
    result, ops = optimized(model, IMAGE)
    assert ops["aten.conv2d"] <= 2 and ops["aten.relu"] == 1
    same(model, result, IMAGE)


def test_products_of_one_input_become_one():
    """TASO figure 2.1: query, key and value by one product, and a split."""
    model, x = Heads(), torch.rand(1, 5, 6, dtype=torch.float64)
    result, ops = optimized(model, x)
    assert ops["aten.linear"] == 1 and ops["aten.slice.Tensor"] >= 3
    assert ops["aten.add.Tensor"] == 0  # all biases are in the product
    same(model, result, x)


def test_two_poolings_and_their_sum_become_one_kernel():
    """TASO section 2.9.3."""
    result, ops = optimized(Averages(), IMAGE)
    assert ops == {"aten.conv2d": 1}
    same(Averages(), result, IMAGE)


def test_a_pooling_and_a_convolution_become_one_convolution():
    """As in NasNet-A's cells, by way of a convolution with C_pool."""
    model = PoolsAndConvolution()
    result, ops = optimized(model, IMAGE)
    assert ops == {"aten.conv2d": 1}
    same(model, result, IMAGE)


def test_arguments_and_results_are_nested_as_before():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, pair, *, scale):
            a, b = pair
            return {
                "sum": self.linear(a) * scale + b,
                "same": b,
                "none": None,
                "twice": (a + b, a + b),
            }

    model = settled(Nested())
    inputs = {
        "pair": (torch.rand(2, 3).double(), torch.rand(2, 3).double()),
        "scale": torch.rand(3).double(),
    }
    result = gw.optimize(model, inputs, prices="roofline")
    made, wanted = result(**inputs), model(**inputs)
    assert (
        made.keys() == wanted.keys() and made["none"] is None and made["same"] is inputs["pair"][1]
    )
    torch.testing.assert_close(made["sum"], wanted["sum"])
    torch.testing.assert_close(made["twice"], wanted["twice"])
    assert made["twice"][0].data_ptr() != made["twice"][1].data_ptr()  # one may be written to
    with pytest.raises(InvalidBatch, match="nested"):
        result(inputs["pair"][0])


def test_inputs_are_not_written_to():
    model = settled(Random(3))
    result = gw.optimize(model, IMAGE, prices="roofline")
    before = IMAGE.clone()
    first = [t.clone() for t in result(IMAGE)]
    assert torch.equal(IMAGE, before)
    for a, b in zip(first, result(IMAGE), strict=True):
        assert torch.equal(a, b)  # nor are weights


class Scaled(nn.Module):
    """Sums of which the second part is scaled, and has memory of its own."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.add(x, self.conv(x), alpha=2), torch.add(self.conv(x) * x, x, alpha=3)


def test_only_the_part_of_a_sum_that_is_not_scaled_is_written_over():
    model = settled(Scaled())
    same(model, gw.optimize(model, IMAGE, prices="roofline"), IMAGE)


def test_what_depends_on_weights_alone_is_computed_once():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.rand(3, 3)), nn.Parameter(torch.rand(3, 3))

        def forward(self, x):
            return x @ (self.a @ self.b).softmax(-1), self.a + self.b

    model, x = Weights(), torch.rand(2, 3).double()
    result, ops = optimized(model, x)
    assert ops == {"aten.linear": 1}
    same(model, result, x)


def test_inputs_that_do_not_fit_are_told_once(caplog):
    with pytest.raises(UnsupportedModel, match="example inputs that fit it"):
        gw.optimize(nn.Linear(4, 3), torch.rand(2, 5))
    noisy = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert not noisy  # PyTorch's own log of the same error


def test_random_operators_are_drawn_each_time():
    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x), torch.rand_like(x)

    result = gw.optimize(Noise(), IMAGE, prices="roofline", check=False)
    (a, b), (c, _) = result(IMAGE), result(IMAGE)
    assert not torch.equal(a, c) and not torch.equal(a - IMAGE, b)


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_a_saved_model_computes_the_same(tmp_path, suffix):
    model = Inception()
    result, _ = optimized(model, IMAGE)
    path = tmp_path / f"model{suffix}"
    result.save(path, IMAGE)
    if suffix == ".pt":
        again = load_optimized(path)
        assert again.report == result.report and again.graph == result.graph
    else:
        again = torch.export.load(path).module()
    same(model, again, IMAGE)


@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".onnx"])
def test_a_disk_without_room_is_an_error_and_leaves_the_old_file(tmp_path, monkeypatch, suffix):
    """PyTorch's own writer of .pt2 files ends the process."""
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
    result, _ = optimized(Branches().eval().double(), IMAGE)
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("graphwright.files.os.fsync", full)
    with pytest.raises(GraphFileError, match=r"cannot write .*: No space left on device"):
        result.save(path, IMAGE)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [(path.name, b"old")]


@pytest.mark.skipif(find_spec("onnxscript") is None, reason="onnxscript is not installed")
def test_a_model_becomes_onnx(tmp_path):
    model = settled(Inception()).float()
    gw.optimize(model, IMAGE.float(), prices="roofline").save(tmp_path / "m.onnx", IMAGE.float())
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (made,) = session.run(None, {session.get_inputs()[0].name: IMAGE.float().numpy()})
    torch.testing.assert_close(torch.from_numpy(made), model(IMAGE.float()), rtol=1e-4, atol=1e-4)


def test_the_graph_goes_through_torch_compile():
    model = Inception()
    result, _ = optimized(model, IMAGE)
    same(model, torch.compile(result, backend="aot_eager", fullgraph=True), IMAGE)


def test_measured_prices_and_the_race():
    torch.manual_seed(0)
    model = Branches().eval()
    result = gw.optimize(model, IMAGE.float(), budget=40)
    assert result.report.measuring > 0 and result.report.difference < 1e-4
    assert result.report.kernels_after <= result.report.kernels_before
    assert "kernels" in repr(result)


def test_a_wrong_result_is_refused(monkeypatch):
    """Were a rule wrong, the check would tell."""
    monkeypatch.setattr(api, "fold", lambda graph, weights: _wrong(graph, weights))
    with pytest.raises(ResultsDiffer, match="differs from the original"):
        optimized(Inception(), IMAGE)


def _wrong(graph, weights):
    from graphwright.pipeline.inference.fold import fold

    made, held = fold(graph, weights)
    return made, {name: 1.01 * value for name, value in held.items()}


def test_what_cannot_be_optimised_is_refused():
    with pytest.raises(UnsupportedModel, match=r"model\.eval"):
        gw.optimize(nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)), IMAGE.float())

    class Depends(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(UnsupportedModel, match="control flow"):
        gw.optimize(Depends(), IMAGE)
    with pytest.raises(UnsupportedModel, match=r"nn\.Module"):
        gw.optimize(lambda x: x, IMAGE)
    with pytest.raises(InvalidOption, match="alpha"):
        gw.optimize(Averages(), IMAGE, alpha=0.5)
    with pytest.raises(InvalidOption, match="roofline"):
        gw.optimize(Averages(), IMAGE, prices="guessed")


@pytest.mark.parametrize(
    "option",
    [
        {"alpha": 0.5}, {"alpha": "greedy"}, {"alpha": float("nan")}, {"alpha": None},
        {"budget": 0}, {"budget": 2.5}, {"budget": "many"}, {"budget": True},
        {"seconds": -1}, {"seconds": float("nan")}, {"seconds": None},
        {"tolerance": -1.0}, {"tolerance": "loose"}, {"tolerance": float("nan")},
        {"seed": -1}, {"seed": 1.5}, {"seed": 2**64}, {"seed": None},
    ],
)  # fmt: skip
def test_options_that_are_no_such_numbers_are_refused(option):
    ((name, value),) = option.items()
    with pytest.raises(InvalidOption, match=rf"^{name}={re.escape(repr(value))}: "):
        gw.optimize(nn.Linear(2, 2).eval(), torch.rand(1, 2), **option)


@pytest.mark.parametrize("price", [float("nan"), -1.0, float("inf"), None, "cheap"])
def test_prices_that_are_no_times_are_refused(price):
    with pytest.raises(InvalidOption, match=rf"gave {price!r} for aten.linear\("):
        gw.optimize(nn.Linear(2, 2).eval(), torch.rand(1, 2), prices=lambda *call: price)


def test_other_files_are_no_models(tmp_path):
    for content in (b"", b"{}", json.dumps({"format": "graphwright optimized"}).encode()):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(GraphFileError, match="no optimised model"):
            load_optimized(tmp_path / "x.pt")


def test_a_view_of_what_is_overwritten_keeps_its_values():
    """In place only where nothing else reads the memory."""

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            y = self.conv(x)
            return y.relu() + y.flatten(1).sum(), F.relu(self.conv(x)), y[:, :2]

    model = Views()
    result, _ = optimized(model, IMAGE)
    same(model, result, IMAGE)


def test_only_the_first_argument_is_overwritten_unless_both_are_alike():
    class Differences(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            return x - self.conv(x), torch.add(x, self.conv(2 * x), alpha=3), x / self.conv(x).exp()

    model = Differences()
    result, _ = optimized(model, IMAGE)
    same(model, result, IMAGE)


def test_what_may_be_the_argument_itself_is_not_overwritten():
    """Some calls give their argument back, though their schema does not say so."""

    class Returns(nn.Module):
        def forward(self, x):
            a = torch.einsum("nchw->nhwc", x)
            b = torch.broadcast_tensors(x, x)[0]
            return a.relu() + b.permute(0, 2, 3, 1).tanh(), x.contiguous().sigmoid(), x

    model, x = Returns(), torch.randn(1, 4, 6, 6, dtype=torch.float64)
    result, _ = optimized(model, x)
    before = x.clone()
    same(model, result, x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("algorithm", ["backtracking", "saturation"])
def test_groups_are_of_a_middle_size_where_that_is_cheapest(algorithm):
    """TASO figure 2.9: neither each convolution by itself, nor all of them as one."""

    def price(op, attrs, types):
        if op not in ("aten.conv2d", "aten.convolution"):
            return 0.01 * flops(op, attrs, types)
        groups = types.inputs[0].shape[1] // types.inputs[1].shape[1]
        return 1 + 0.05 * groups**2  # 8 of them: 8.4 apart, 4.8 in pairs, 3.6 in fours, 4.2 as one

    model = settled(Branches(8))
    result = gw.optimize(model, IMAGE, prices=price, algorithm=algorithm)
    groups = [n.attrs["groups"] for n in result.graph.nodes if n.op == "aten.conv2d"]
    assert sorted(groups) == [1, 4, 4]
    same(model, result, IMAGE)


def test_separate_branches_become_one_grouped_convolution():
    """ResNeXt: convolutions of one input are one, and those of its parts are groups of one."""
    model = Branches(8)
    result, ops = optimized(model, IMAGE)
    assert ops == {"aten.conv2d": 2, "aten.relu": 2}
    assert [n.attrs["groups"] for n in result.graph.nodes if n.op == "aten.conv2d"] == [1, 8]
    same(model, result, IMAGE)


def test_layouts_change_nothing_but_memory(tmp_path):
    """Some operators read images with their channels last, and what they read is copied so."""
    model = settled(Inception())
    result = gw.optimize(model, IMAGE, prices=flops)
    graph, body = result.graph, result.body
    held = [n for n in graph.inputs if graph.tensors[n].role is not Role.INPUT]
    weights = dict(zip(held, body.program.buffers(), strict=True))
    convs = [node.name for node in graph.nodes if node.op == "aten.conv2d"]
    for last in (frozenset(convs), frozenset(convs[:1]), frozenset(n.name for n in graph.nodes)):
        program = program_of(graph, weights, last)
        turned = Nested(
            program, body.read, body.shapes, body.results, body.in_spec, body.out_spec, last
        )
        kernels = [b for b in program.buffers() if b.dim() == 4 and b.shape[2] > 1]
        turns = any(b.is_contiguous(memory_format=torch.channels_last) for b in kernels)
        assert turns or len(last) == 1
        made = turned(IMAGE)
        assert made.is_contiguous()
        torch.testing.assert_close(made, model(IMAGE), rtol=1e-9, atol=1e-9)
        api.Optimized(turned, graph, result.report).save(tmp_path / "last.pt")
        again = load_optimized(tmp_path / "last.pt")
        assert again.body.last == last
        torch.testing.assert_close(again(IMAGE), made, rtol=1e-12, atol=1e-12)


# -- models as libraries have them -----------------------------------------------------------------


class Numbers(nn.Module):
    """Numbers where operators expect tensors."""

    def forward(self, x):
        return (torch.sigmoid(x) * 2.5 + 1) / 3 + (x > 0) + torch.maximum(1 - x, x * 0.1)


def test_numbers_in_the_place_of_tensors():
    model, x = Numbers(), torch.randn(3, 4, dtype=torch.float64)
    result, _ = optimized(model, x)
    same(model, result, x)


def test_infinities_at_the_same_places_are_the_same():
    class Logarithm(nn.Module):
        def forward(self, x):
            return torch.log(F.relu(x)), torch.sqrt(x)

    x = torch.randn(8, 8, dtype=torch.float64)
    assert optimized(Logarithm(), x)[0].report.difference == 0.0


def test_few_digits_do_not_excuse_other_results():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).bfloat16()
    with pytest.raises(ResultsDiffer, match="more than 1e-01"):
        gw.optimize(model, torch.randn(64, 8, dtype=torch.bfloat16), prices=flops)


def test_inputs_of_other_shapes_are_refused():
    class Lower(nn.Module):
        def forward(self, x):
            return F.relu(x)[:, x.shape[1] // 2 :]

    result, _ = optimized(Lower(), torch.rand(2, 6, dtype=torch.float64))
    with pytest.raises(InvalidBatch, match=r"argument 0 has shape \[2, 8\], but \[2, 6\]"):
        result(torch.rand(2, 8, dtype=torch.float64))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrences_stay_whole(layer, tmp_path):
    """They take a list of weights, and an LSTM a list of states as well."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer(4, 3, num_layers=2, bidirectional=True)
            self.one, self.two = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x):
            made, _ = self.layer(x)
            return self.one(made), self.two(made)

    model, x = Tagger(), torch.randn(2, 3, 4, dtype=torch.float64)
    result, ops = optimized(model, x)
    assert ops["aten.linear"] == 1
    same(model, result, x)
    result.save(tmp_path / "tagger.pt")
    same(model, load_optimized(tmp_path / "tagger.pt"), x)


def test_caches_of_language_models_are_left_out():
    class Config:
        use_cache = True

    class Cache:
        """No tensor, and nothing that torch.export knows."""

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.config, self.linear = Config(), nn.Linear(4, 4, dtype=torch.float64)

        def forward(self, x):
            y = self.linear(x)
            return (y, Cache()) if self.config.use_cache else (y,)

    model, x = Language(), torch.rand(2, 4, dtype=torch.float64)
    result, _ = optimized(model, x)
    assert model.config.use_cache
    torch.testing.assert_close(result(x)[0], model(x)[0])


class Tokens(nn.Module):
    """A depthwise convolution, GELU, and attention over what it gives."""

    def __init__(self):
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(4, 8, 2, 2), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        x = F.gelu(self.depthwise(self.stem(x)))
        x = self.norm(x.permute(0, 2, 3, 1).flatten(1, 2))
        layers = (self.query, self.key, self.value)
        heads = (layer(x).view(*x.shape[:2], 2, 4).transpose(1, 2) for layer in layers)
        x = x + F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return self.head(x.mean(1))


@pytest.mark.parametrize("prices", ["measured", flops])
@pytest.mark.parametrize("algorithm", ["backtracking", "saturation"])
def test_convolutions_and_attention_in_one_model(prices, algorithm):
    model = settled(Tokens())
    result = gw.optimize(model, IMAGE, prices=prices, algorithm=algorithm, budget=20)
    same(model, result, IMAGE)
    same(model, torch.compile(result, backend="aot_eager", fullgraph=True), IMAGE)
