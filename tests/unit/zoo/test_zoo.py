"""Every model of the zoo: its size against the published one, a real training step, its errors."""

import dataclasses
import math
import time
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from graphwright import zoo
from graphwright.errors import GraphwrightError, InvalidWorkload, UnknownModel
from graphwright.zoo.attention import GPT
from graphwright.zoo.llama import RMSNorm, rotate, rotations
from graphwright.zoo.workload import Inputs

GIB = 2**30

EXACT = {
    "lenet": 61_706,
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnext50": 25_028_904,
    "inception-v3": 23_834_568,
    "inception-v4": 42_679_816,
    "nasnet-a-mobile": 5_289_978,
    "nasnet-a-large": 88_753_150,
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-8b-32": 8_030_261_248,
    "llama-70b-80": 70_553_706_496,
}

# Tofu, table 2: GB of weights, gradients and history, by hidden size or width and by layers.
TOFU_RNN = {
    4: {6: 8.4, 8: 11.4, 10: 14.4},
    6: {6: 18.6, 8: 28.5, 10: 32.1},
    8: {6: 33.0, 8: 45.3, 10: 57.0},
}
TOFU_WRESNET = {
    4: {50: 4.2, 101: 7.8, 152: 10.5},
    6: {50: 9.6, 101: 17.1, 152: 23.4},
    8: {50: 17.1, 101: 30.6, 152: 41.7},
    10: {50: 26.7, 101: 47.7, 152: 65.1},
}

# One name per small configuration.
SMALL = sorted(
    {*{entry.family: entry.name for entry in zoo.entries()}.values()}
    | {"inception-v3", "inception-4", "resnet50", "resnext50", "bert-base", "bert-large"}
    | {"tensoropt-rnn", "tensoropt-wresnet", "tensoropt-transformer", "rnnlm-2", "llama-8b-4"}
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and times are those of this thread alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(model: nn.Module, inputs: Inputs) -> Tensor:
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def tensors(inputs: Inputs) -> list[Tensor]:
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values() if isinstance(inputs, dict) else inputs)


def train(workload: zoo.Workload, steps: int) -> list[float]:
    optimizer = workload.optimizer(workload.model.parameters(), **dict(workload.optimizer_options))
    inputs, targets = workload.batch
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = workload.loss_fn(run(workload.model, inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def three_weights(name: str) -> float:
    """GiB of float32 weights, gradients and history."""
    return 3 * 4 * zoo.load(name).num_parameters / GIB


@pytest.mark.parametrize("name", zoo.names())
def test_builds_on_meta_and_gives_a_scalar_loss(name: str) -> None:
    workload = zoo.load(name, batch_size=3)
    inputs, targets = workload.batch
    state = (*workload.model.state_dict().values(), *tensors(inputs), targets)
    assert {tensor.device.type for tensor in state} == {"meta"}
    assert all(tensor.shape[0] == 3 for tensor in (*tensors(inputs), targets))
    loss = workload.loss_fn(run(workload.model, inputs), targets)
    assert loss.shape == ()
    assert all(parameter.requires_grad for parameter in workload.model.parameters())


def test_the_largest_builds_in_two_seconds() -> None:
    start = time.thread_time()
    assert zoo.load("wresnet-152-10").num_parameters > 5e9
    assert time.thread_time() - start < 2


@pytest.mark.parametrize(("name", "published"), EXACT.items())
def test_parameter_count_is_the_published_one(name: str, published: int) -> None:
    assert zoo.load(name).num_parameters == published


def test_sizes_given_in_round_numbers() -> None:
    # Vaswani et al. 2017, table 3: 65 million. TensorOpt, table 1 and section 5.3: 9.7 and 4.8 GB.
    assert zoo.load("transformer").num_parameters == pytest.approx(65e6, rel=0.04)
    for name, published in (("transformer-3840", 9.7), ("transformer-2688", 4.8)):
        assert three_weights(name) / 3 == pytest.approx(published, rel=0.03)
    # TensorOpt, table 1.
    for name, published in (("rnn", 108), ("wresnet", 7.3), ("transformer", 9.7)):
        workload = zoo.load(f"tensoropt-{name}")
        assert 4 * workload.num_parameters / GIB == pytest.approx(published, rel=0.025)
        assert workload.batch[1].shape[0] == 256
    tables = zoo.load("dlrm").model.tables
    assert isinstance(tables, nn.ModuleList)
    rows = [table.num_embeddings for table in tables if isinstance(table, nn.Embedding)]
    assert (len(rows), min(rows)) == (26, 3)
    assert max(rows) == pytest.approx(1.7e6, rel=0.05)


@pytest.mark.parametrize("width", TOFU_WRESNET)
@pytest.mark.parametrize("depth", [50, 101, 152])
def test_wide_resnet_weighs_what_tofu_says(width: int, depth: int) -> None:
    measured = three_weights(f"wresnet-{depth}-{width}")
    assert measured == pytest.approx(TOFU_WRESNET[width][depth], rel=0.025)


@pytest.mark.parametrize("hidden", TOFU_RNN)
@pytest.mark.parametrize("layers", [6, 8, 10])
def test_rnn_weighs_what_tofu_says(hidden: int, layers: int) -> None:
    measured = three_weights(f"rnn-{layers}-{hidden}k")
    published = TOFU_RNN[hidden][layers]
    if (layers, hidden) == (8, 6):
        # Out of line with its neighbours; 9.5 written for 8.5 (see zoo/rnn.py) explains it.
        assert published == pytest.approx(3 * 9.5)
        published = 3 * 8.5
    assert measured == pytest.approx(published, rel=0.015)


@pytest.mark.parametrize("name", SMALL)
def test_small_variant_trains(name: str) -> None:
    workload = zoo.load(name, small=True, device="cpu")
    first, second = train(workload, 2)
    assert math.isfinite(first)
    assert math.isfinite(second)
    if name != "bert-base":  # dropout makes its loss noisy
        assert second < first
    start = time.thread_time()
    train(workload, 2)
    assert time.thread_time() - start < 1
    grads = {key: value.grad for key, value in workload.model.named_parameters()}
    assert [key for key, grad in grads.items() if grad is None] == []


@pytest.mark.parametrize("name", SMALL)
def test_small_variant_trains_in_double_precision(name: str) -> None:
    workload = zoo.load(name, small=True, device="cpu")
    inputs, targets = workload.batch

    def double(x: Tensor) -> Tensor:
        return x.double() if x.is_floating_point() else x

    if isinstance(inputs, dict):
        wide: Inputs = {key: double(value) for key, value in inputs.items()}
    else:
        wide = double(inputs) if isinstance(inputs, Tensor) else tuple(map(double, inputs))
    workload.model.double().eval()
    loss = workload.loss_fn(run(workload.model, wide), double(targets))
    loss.backward()
    assert loss.dtype == torch.float64
    assert math.isfinite(loss.item())


@pytest.mark.parametrize("name", ["dlrm", "gpt2", "bert-base", "nmt", "vgg16"])
def test_a_seed_fixes_weights_and_batch_and_leaves_the_callers_alone(name: str) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = zoo.load(name, small=True, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    two = zoo.load(name, small=True, device="cpu")
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(tensors(one.batch[0]), tensors(two.batch[0]), strict=True):
        assert torch.equal(a, b)


def test_batch_size_follows_the_entry_unless_given() -> None:
    assert zoo.entry("rnn-8-8k").batch_size == 256
    assert zoo.load("rnn-8-8k").batch[1].shape == (256, 20)
    assert zoo.load("wresnet-152-10").batch[1].shape == (8,)
    assert zoo.load("wresnet-152-10", batch_size=64).batch[1].shape == (64,)
    assert zoo.load("lenet", small=True, batch_size=7).batch[1].shape == (7,)


def test_names_hold_numbers() -> None:
    recurrent = zoo.load("rnn-3-1024").model
    cells = recurrent.cells
    assert isinstance(cells, nn.ModuleList)
    assert len(cells) == 3
    assert zoo.entry("rnn-3-1024").name == "rnn-3-1024"
    assert zoo.entry("RNN-2-8192").name == "rnn-2-8k"
    assert zoo.entry("inception-1").name == "inception-v4"
    assert zoo.load("rnnlm-2").batch[1].shape == (64, 2)
    assert zoo.entry("rnnlm-40").name == "rnnlm"
    assert zoo.load("gpt-96-12288").num_parameters == pytest.approx(175e9, rel=0.01)
    assert zoo.load("gpt-48-1600").num_parameters == zoo.load("gpt2-xl").num_parameters
    assert zoo.load("nasnet-2").num_parameters < zoo.load("nasnet-3").num_parameters


@pytest.mark.parametrize("spelling", ["VGG-16", "vgg_16", " vgg16 "])
def test_spelling_is_free(spelling: str) -> None:
    assert zoo.entry(spelling).name == "vgg16"


def test_recurrent_layers_are_called_once_per_step() -> None:
    workload = zoo.load("rnn-8-8k", small=True, device="cpu")
    cells = workload.model.cells
    assert isinstance(cells, nn.ModuleList)
    calls: list[int] = []
    for index, cell in enumerate(cells):
        cell.register_forward_hook(lambda *_, index=index: calls.append(index))
    run(workload.model, workload.batch[0])
    assert calls == [0, 1] * 3


def test_structure_that_other_parts_rely_on() -> None:
    assert any(isinstance(module, nn.LSTM) for module in zoo.load("rnntc").model.modules())
    for name in ("gpt2", "bert-base"):
        model = zoo.load(name).model
        assert model.get_parameter("output.weight") is model.get_parameter("tokens.weight")

    def rates(model: nn.Module) -> set[float]:
        return {module.p for module in model.modules() if isinstance(module, nn.Dropout)}

    assert rates(zoo.load("bert-base", small=True).model) == {0.1}
    assert rates(zoo.load("gpt2").model) == {0.0}
    assert rates(GPT(layers=1, size=8, heads=2, vocabulary=5, length=4, dropout=0.2)) == {0.2}


def test_causal_models_do_not_see_the_future() -> None:
    workload = zoo.load("gpt2", small=True, device="cpu")
    tokens = workload.batch[0]
    assert isinstance(tokens, Tensor)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 13
    before, after = workload.model(tokens), workload.model(changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])

    translator = zoo.load("transformer", small=True, device="cpu")
    source, target = tensors(translator.batch[0])
    changed = target.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 13
    before, after = translator.model(source, target), translator.model(source, changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])


def test_llama_turns_queries_and_keys_by_their_distance() -> None:
    angles = rotations(9, 8)
    q, k = torch.randn(8), torch.randn(8)

    def score(m: int, n: int) -> Tensor:
        at = [(angles[p].cos(), angles[p].sin()) for p in (m, n)]
        return rotate(q, *at[0]) @ rotate(k, *at[1])

    torch.testing.assert_close(score(5, 2), score(8, 5))
    assert not torch.isclose(score(5, 2), score(5, 3))
    torch.testing.assert_close(score(4, 4), q @ k)


def test_llama_is_causal_and_normalises_by_the_mean_square() -> None:
    workload = zoo.load("llama-8b-4", small=True, device="cpu")
    tokens = workload.batch[0]
    assert isinstance(tokens, Tensor)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 13
    before, after = workload.model(tokens), workload.model(changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])
    x = torch.randn(3, 16)
    torch.testing.assert_close(RMSNorm(16)(x), nn.RMSNorm(16, eps=1e-5)(x))


def test_a_gpt_has_any_size() -> None:
    gpt = zoo.gpt(3, width=96, heads=4, batch_size=2, sequence=7, vocabulary=11)
    assert gpt.name == "gpt-3-96"
    assert gpt.batch[1].shape == (2, 7)
    blocks = 3 * (12 * 96 * 96 + 13 * 96)
    assert gpt.num_parameters == blocks + (11 + 7 + 2) * 96
    layers = gpt.model.layers
    assert isinstance(layers, nn.ModuleList)
    assert len(layers) == 3
    nodes = [len(zoo.gpt(n, width=64, batch_size=1, sequence=8).capture().nodes) for n in (1, 2, 3)]
    assert nodes[2] - nodes[1] == nodes[1] - nodes[0] > 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_layers": 0}, "num_layers=0"),
        ({"num_layers": 2, "width": 100, "heads": 3}, "heads=3"),
        ({"num_layers": 2, "sequence": 2.5}, "sequence=2.5"),
        ({"num_layers": 2, "batch_size": 0}, "batch_size=0"),
    ],
)
def test_impossible_gpts_are_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidWorkload, match=words):
        zoo.gpt(**options)


def test_a_recommender_has_any_size() -> None:
    dlrm = zoo.dlrm(3, rows=50, width=8, batch_size=4)
    assert dlrm.name == "dlrm-3-50"
    assert dlrm.batch[1].shape == (4,)
    bottom, top = (13 + 1) * 256 + (256 + 1) * 8, (4 * 8 + 1) * 512 + 513
    assert dlrm.num_parameters == 3 * 50 * 8 + bottom + top
    with pytest.raises(InvalidWorkload, match="rows=0"):
        zoo.dlrm(3, rows=0)


def test_entries_are_complete() -> None:
    for entry in zoo.entries():
        assert zoo.entry(entry.name) == entry
        assert entry.source
        assert entry.description
        assert entry.batch_size >= 1
    assert len(set(zoo.names())) == len(zoo.names())
    with pytest.raises(dataclasses.FrozenInstanceError):
        zoo.entry("vgg16").name = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("vgg61", "vgg16"),
        ("wresnet-151-10", "wresnet-152-10"),
        ("brnn-4-8kk", "brnn-4-8k"),
        ("gpt3", "gpt2"),
        ("rnn-0-8k", "rnn-8-8k"),
    ],
)
def test_unknown_names_suggest_close_ones(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownModel, match=f"'{suggestion}'") as caught:
        zoo.load(name)
    assert repr(name) in str(caught.value)
    assert isinstance(caught.value, GraphwrightError)


@pytest.mark.parametrize("name", ["", "quetzalcoatl"])
def test_names_close_to_nothing_say_so(name: str) -> None:
    with pytest.raises(UnknownModel, match="no name is similar"):
        zoo.entry(name)


@pytest.mark.parametrize("batch_size", [0, -4, 2.5, True])
def test_impossible_batch_sizes_are_refused(batch_size: int) -> None:
    with pytest.raises(InvalidWorkload, match="batch_size"):
        zoo.load("vgg16", batch_size=batch_size)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_gpu_is_said_so() -> None:
    with pytest.raises(InvalidWorkload, match="no CUDA device"):
        zoo.load("vgg16", device="cuda:0")


def test_unknown_devices_are_refused() -> None:
    with pytest.raises(InvalidWorkload, match="toaster"):
        zoo.load("vgg16", device="toaster")
