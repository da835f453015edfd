"""What cannot be captured says so, names the line, and leaves everything as it was."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence

from graphwright import capture, errors

pytestmark = pytest.mark.filterwarnings("ignore:no description")

GLOBAL = torch.zeros(3)


class Model(nn.Module):
    """A linear layer and then whatever is under test."""

    def __init__(self, body: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.plain = torch.ones(3)
        self.body = body

    def forward(self, x: Tensor) -> Any:
        return self.body(self, self.norm(self.fc(x)))


BATCH = (torch.randn(5, 4), torch.randint(3, (5,)))


def branch(_: nn.Module, x: Tensor) -> Tensor:
    if x.sum() > 0:  # marked
        return x
    return -x


def read_number(_: nn.Module, x: Tensor) -> Tensor:
    return x * x.max().item()  # marked


def loop(_: nn.Module, x: Tensor) -> Tensor:
    for _index in range(int(x.abs().sum())):  # marked
        x = x + 1
    return x


def as_list(_: nn.Module, x: Tensor) -> Tensor:
    return x * x.detach().tolist()[0][0]  # marked


def nonzero(_: nn.Module, x: Tensor) -> Tensor:
    return x.sum() + x.nonzero().sum()  # marked


def masked(_: nn.Module, x: Tensor) -> Tensor:
    return x[x > 0]  # marked


def unique(_: nn.Module, x: Tensor) -> Tensor:
    return x.unique()  # marked


def to_numpy(_: nn.Module, x: Tensor) -> Tensor:
    return x + float(x.detach().numpy().sum())  # marked


def write_global(_: nn.Module, x: Tensor) -> Tensor:
    GLOBAL.add_(x.detach().sum(0))  # marked
    return x


def write_global_number(_: nn.Module, x: Tensor) -> Tensor:
    GLOBAL.add_(1)  # marked
    return x


def write_plain(model: nn.Module, x: Tensor) -> Tensor:
    model.plain += 1  # marked
    return x


def eigenvalues(_: nn.Module, x: Tensor) -> Tensor:
    return torch.linalg.eigvals(x.T @ x).abs()  # marked


def own_generator(_: nn.Module, x: Tensor) -> Tensor:
    return x * torch.rand(5, 3, generator=torch.Generator())  # marked


def control_flow_operator(_: nn.Module, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # marked


def formatted(_: nn.Module, x: Tensor) -> Tensor:
    assert f"{x.mean():.3f}"  # marked
    return x


def wide_product(_: nn.Module, x: Tensor) -> Tensor:
    return x @ torch.ones(3, 3, dtype=torch.float64)  # marked


def wide_vector(_: nn.Module, x: Tensor) -> Tensor:
    return x.mv(torch.ones(3, dtype=torch.float64))  # marked


def expanded_write(_: nn.Module, x: Tensor) -> Tensor:
    return x[:, :1].detach().expand(5, 3).add_(1)  # marked


def fraction_of_integers(_: nn.Module, x: Tensor) -> Tensor:
    return x + torch.arange(3).mul_(0.5)  # marked


def quotient_of_integers(_: nn.Module, x: Tensor) -> Tensor:
    return x + x.long().div_(2)  # marked


def sparse_lookup(_: nn.Module, x: Tensor) -> Tensor:
    return F.embedding(x.detach().long().abs() % 5, x, sparse=True)  # marked


def compiled_attention(_: nn.Module, x: Tensor) -> Tensor:
    q = (x @ torch.ones(3, 16)).reshape(1, 1, 5, 16)
    return flex_attention(q, q, q).reshape(5, 16)[:, :3]  # marked


def wrong_shape(_: nn.Module, x: Tensor) -> Tensor:
    return x @ x  # marked


STOPS: list[tuple[Callable[..., Any], type[errors.CaptureError], str]] = [
    (branch, errors.DataDependentControlFlow, "torch.where"),
    (read_number, errors.DataDependentControlFlow, "keep numbers in tensors"),
    (loop, errors.DataDependentControlFlow, "reads a tensor's value"),
    (as_list, errors.DataDependentControlFlow, "reads a tensor's value"),
    (control_flow_operator, errors.DataDependentControlFlow, "torch.cond"),
    (nonzero, errors.DynamicShapeOperator, "nonzero"),
    (masked, errors.DynamicShapeOperator, "fixed shape"),
    (unique, errors.DynamicShapeOperator, "unique"),
    (to_numpy, errors.GraphBreak, "custom_op"),
    (write_global, errors.MutatedGlobal, "register_buffer"),
    (write_global_number, errors.MutatedGlobal, "neither a parameter nor a buffer"),
    (write_plain, errors.MutatedGlobal, "neither a parameter nor a buffer"),
    (eigenvalues, errors.ComplexInput, "complex"),
    (own_generator, errors.UnsupportedModel, "default generator"),
    (formatted, errors.DataDependentControlFlow, "formats a tensor's value"),
    (wide_product, errors.MismatchedTypes, "float32[5, 3] and float64[3, 3]"),
    (wide_vector, errors.MismatchedTypes, "aten.mv"),
    (expanded_write, errors.MismatchedTypes, ".clone()"),
    (fraction_of_integers, errors.MismatchedTypes, "mul_ makes torch.float32"),
    (quotient_of_integers, errors.MismatchedTypes, "div_ makes torch.float32"),
    (sparse_lookup, errors.UnsupportedModel, "sparse=False"),
    (compiled_attention, errors.UnsupportedModel, "scaled_dot_product_attention"),
    (wrong_shape, errors.ModelFailed, "check the shapes"),
]


@pytest.mark.parametrize(("body", "error", "hint"), STOPS, ids=lambda v: getattr(v, "__name__", ""))
def test_stop_names_the_line_and_leaves_no_trace(
    body: Callable[..., Any], error: type[errors.CaptureError], hint: str
) -> None:
    lines, start = inspect.getsourcelines(body)
    number = start + next(i for i, line in enumerate(lines) if "# marked" in line)
    model = Model(body)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attributes = {m: dict(m.__dict__) for m in model.modules()}
    random, kept = torch.get_rng_state(), GLOBAL.clone()
    with pytest.raises(error) as caught:
        capture.capture(model, F.cross_entropy, BATCH, optimizer=torch.optim.Adam)
    message = str(caught.value)
    assert hint in message
    assert f"test_capture_errors.py:{number}: {lines[number - start].strip()}" in message
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert all(type(p) is nn.Parameter and p.grad is None for p in model.parameters())
    assert {m: dict(m.__dict__) for m in model.modules()} == attributes
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(kept, GLOBAL)
    assert torch.equal(model.plain, torch.ones(3))
    capture.capture(Model(lambda _, x: x), F.cross_entropy, BATCH)  # and the next one works


def test_replaced_attribute_is_a_mutated_global() -> None:
    def body(model: nn.Module, x: Tensor) -> Tensor:
        model.plain = model.plain + x.detach().sum(0)
        return x * model.plain

    with pytest.raises(
        errors.MutatedGlobal, match=r"reads plain and assigns a new tensor to it.*register_buffer"
    ):
        capture.capture(Model(body), F.cross_entropy, BATCH)


def test_complex_inputs_and_parameters() -> None:
    with pytest.raises(errors.ComplexInput, match=r"inputs\.0 is torch\.complex64"):
        capture.capture(nn.Linear(4, 3), inputs=torch.zeros(2, 4, dtype=torch.complex64))
    with pytest.raises(errors.ComplexInput, match=r"weight is torch\.complex64"):
        capture.capture(nn.Linear(4, 3, dtype=torch.complex64), inputs=torch.zeros(2, 4))


def test_packed_sequences() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            packed = pack_padded_sequence(x, torch.tensor([3, 2]), enforce_sorted=True)
            return self.rnn(packed)[0].data.sum()

    with pytest.raises(errors.CaptureError, match=r"pad"):
        capture.capture(Packed(), batch=torch.randn(3, 2, 4))


@pytest.mark.parametrize(
    ("call", "error", "hint"),
    [
        (lambda: capture.capture(nn.Linear(4, 3)), errors.InvalidBatch, "example batch"),
        (
            lambda: capture.capture(nn.Linear(4, 3), F.cross_entropy, BATCH[0]),
            errors.InvalidBatch,
            r"\(inputs, targets\)",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), F.cross_entropy, ((), ())),
            errors.InvalidBatch,
            "no tensor",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), F.cross_entropy, inputs=BATCH[0]),
            errors.InvalidBatch,
            "captures inference",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), batch=BATCH[0]),
            errors.NoTrainingStep,
            r"shape \(5, 3\).*mean",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: 1.0, BATCH),
            errors.NoTrainingStep,
            r"loss_fn returned a float.*without \.item",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: None, BATCH),
            errors.NoTrainingStep,
            "NoneType.*return missing",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: (y.sum(), y), BATCH),
            errors.NoTrainingStep,
            r"a tuple; return the loss tensor, e\.g\. out\[0\]",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: {"loss": y.sum()}, BATCH),
            errors.NoTrainingStep,
            r"a dict; return the loss tensor, e\.g\. out\['loss'\]",
        ),
        (
            lambda: capture.capture(Model(lambda _, x: {"cost": x.sum()}), batch=BATCH[0]),
            errors.NoTrainingStep,
            r"returned a dict; return the loss, alone or as `loss` of an object or mapping",
        ),
        (
            lambda: capture.capture(Model(lambda _, x: {"loss": None}), batch=BATCH[0]),
            errors.NoTrainingStep,
            r"add that to the batch \(`labels` in most libraries\), or give a loss_fn",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), nn.CrossEntropyLoss, BATCH),  # type: ignore[arg-type]
            errors.InvalidLossFunction,
            r"the class CrossEntropyLoss.*CrossEntropyLoss\(\)",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), "cross_entropy", BATCH),  # type: ignore[arg-type]
            errors.InvalidLossFunction,
            "not 'cross_entropy'",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), BATCH, F.cross_entropy),  # type: ignore[arg-type]
            errors.InvalidLossFunction,
            r"not a tuple; for example torch\.nn\.functional",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), F.cross_entropy, (BATCH[0].numpy(), BATCH[1])),
            errors.InvalidBatch,
            r"inputs is a NumPy ndarray of float32.*torch\.from_numpy",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), F.cross_entropy, (BATCH[0], BATCH[1].numpy())),
            errors.InvalidBatch,
            r"targets is a NumPy ndarray.*torch\.from_numpy",
        ),
        (
            lambda: capture.capture(WithInputs(), inputs=BATCH[0]),
            errors.UnsupportedModel,
            r"parameter called inputs\.0.*rename",
        ),
        (
            lambda: train(optimizer=torch.optim.Adafactor),
            errors.UnsupportedOptimizer,
            "Adafactor.*reads a tensor's value",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: y.argmax(), BATCH),
            errors.NoTrainingStep,
            "int64.*compute it in floating point",
        ),
        (
            lambda: capture.capture(
                nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None)),
                F.cross_entropy,
                BATCH,
            ),
            errors.DataDependentControlFlow,
            "momentum=None.*give it a number as momentum",
        ),
        (
            lambda: capture.capture(
                nn.Linear(4, 3),
                lambda y, t: F.ctc_loss(y[:, None].log_softmax(2), t[None, :2] % 2 + 1, (6,), (2,)),
                BATCH,
            ),
            errors.DynamicShapeOperator,
            "CTC loss cannot be captured",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), lambda y, t: y.detach().sum(), BATCH),
            errors.NoTrainingStep,
            "requires a gradient",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3).requires_grad_(False), F.cross_entropy, BATCH),
            errors.NoTrainingStep,
            "no parameter",
        ),
        (
            lambda: capture.capture(nn.LazyLinear(3), F.cross_entropy, BATCH),
            errors.UnsupportedModel,
            "lazy",
        ),
        (
            lambda: capture.capture(lambda x: x, inputs=BATCH[0]),  # type: ignore[arg-type]
            errors.UnsupportedModel,
            "nn.Module, not function",
        ),
        (
            lambda: capture.capture(nn.Linear(4, 3), inputs=BATCH[0].to_sparse()),
            errors.UnsupportedModel,
            "not a dense tensor",
        ),
        (
            lambda: capture.capture(Model(lambda _, x: "text"), inputs=BATCH[0]),
            errors.UnsupportedModel,
            "returns str",
        ),
        (
            lambda: train(optimizer=torch.optim.LBFGS),
            errors.UnsupportedOptimizer,
            "closure",
        ),
        (
            lambda: train(optimizer=torch.optim.SparseAdam),
            errors.UnsupportedOptimizer,
            "sparse",
        ),
        (
            lambda: train(optimizer=torch.optim.SGD, optimizer_options={"rate": 1}),
            errors.UnsupportedOptimizer,
            "rate.*optimizer_options",
        ),
        (
            lambda: train(optimizer=torch.optim.SGD, optimizer_options={"lr": -1}),
            errors.UnsupportedOptimizer,
            "Invalid learning rate: -1.*optimizer_options",
        ),
        (
            lambda: train(
                optimizer=torch.optim.SGD,
                optimizer_options={"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
            ),
            errors.UnsupportedOptimizer,
            "the first step of SGD.*dampening.*take one step with the optimizer before",
        ),
        (
            lambda: train(optimizer="adam"),
            errors.UnsupportedOptimizer,
            "torch.optim class",
        ),
        (
            lambda: train(optimizer=torch.optim.SGD(nn.Linear(4, 3).parameters())),
            errors.UnsupportedOptimizer,
            "not a parameter of the model",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[Exception], hint: str) -> None:
    with pytest.raises(error, match=hint):
        call()


class WithInputs(nn.Module):
    """A parameter with a name that the batch has."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.ParameterList([torch.ones(4)])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.inputs[0]


def train(**options: Any) -> None:
    capture.capture(nn.Linear(4, 3), F.cross_entropy, BATCH, **options)


def test_optimizer_with_numbers_in_its_state() -> None:
    class Counting(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["count"] = state.get("count", 0) + 1
                    p.sub_(p.grad / state["count"])

    with pytest.raises(errors.UnsupportedOptimizer, match="keep it in a tensor"):
        train(optimizer=Counting)


def test_the_module_is_named_and_the_cause_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))
    with pytest.raises(errors.CaptureError, match=r"in 1\.1 \(Linear\)") as caught:
        capture.capture(model, inputs=BATCH[0])
    assert isinstance(caught.value.cause, RuntimeError)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert not caplog.records  # PyTorch's own log of the same error


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({"loss_fn": F.cross_entropy, "batch": BATCH}, r"loss_fn\(model\(inputs\), targets\)"),
        ({"batch": BATCH[0]}, r"model\(batch\)"),
        ({"inputs": BATCH[0]}, r"model\(inputs\)"),
    ],
)
def test_what_raised_is_named_as_the_step_calls_it(given: dict[str, Any], call: str) -> None:
    with pytest.raises(errors.ModelFailed, match=f"^{call} raised RuntimeError"):
        capture.capture(nn.Linear(7, 3), **given)


MODEL = "somelib/model.py"
LIBRARY = """
from torch import nn
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
    def forward(self, x):
        for expert in (x > 0).nonzero():
            x = x + self.linear.weight[0, expert].sum()
        return self.linear(x)
class Selectable(Experts):
    def _can_set_experts_implementation(self):
        return True
"""


@pytest.mark.parametrize(
    ("name", "file", "remedy"),
    [
        ("Selectable", MODEL, r'call model\.set_experts_implementation\("batched_mm"\)'),
        ("Experts", MODEL, r"that is how somelib computes this part: choose another option"),
        ("Experts", "torch_geometric/utils/loop.py", r"give the layer add_self_loops=False"),
    ],
)
def test_a_librarys_line_has_the_librarys_remedy(
    name: str, file: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "site-packages" / file
    path.parent.mkdir(parents=True)
    path.write_text(LIBRARY)
    spec = importlib.util.spec_from_file_location("somelib_model", path)
    assert spec is not None and spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    with pytest.raises(errors.DynamicShapeOperator, match=remedy):
        capture.capture(getattr(library, name)(), F.cross_entropy, BATCH)


def test_a_defect_of_capture_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("graphwright.capture.record.recorder.write", _raising_in_capture(broken))
    with pytest.raises(errors.CaptureError, match="This is a defect: please report it") as caught:
        capture.capture(nn.Linear(4, 3), F.cross_entropy, BATCH)
    assert type(caught.value) is errors.CaptureError


def _raising_in_capture(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, as if its code were in capture."""
    file = str(Path(capture.__file__).parent / "record" / "recorder.py")
    code = function.__code__.replace(co_filename=file)
    return FunctionType(code, function.__globals__)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_inputs_of_another_dtype(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    with pytest.raises(errors.MismatchedTypes, match=r"torch\.float32\)(.|\n)*in 1 \(Linear\)"):
        capture.capture(model, inputs=BATCH[0].to(dtype))


def test_sparse_embeddings_stop_training_but_not_inference() -> None:
    model = nn.Sequential(nn.Embedding(3, 4, sparse=True))
    with pytest.raises(errors.UnsupportedModel, match=r"sparse=False(.|\n)*in 0 \(Embedding\)"):
        capture.capture(model, lambda y, t: y.sum(), (BATCH[1], BATCH[1]))
    capture.capture(model, inputs=BATCH[1])


def test_a_layer_of_pytorch_that_looks_at_its_mask() -> None:
    class Encoder(nn.Module):
        def __init__(self, **options: Any) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1)
            self.options = options

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.encoder(x, mask=mask, **self.options)

    x = torch.randn(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    with pytest.raises(errors.DataDependentControlFlow) as caught:
        capture.capture(Encoder(), inputs=x)
    message = str(caught.value)
    assert "pass is_causal explicitly" in message
    assert "return self.encoder(x, mask=mask, **self.options)" in message
    assert "inside torch/nn/modules/transformer.py:" in message
    capture.capture(Encoder(is_causal=True), inputs=x)


def test_a_hook_after_accumulation_names_its_parameter() -> None:
    model = nn.Linear(4, 3)
    model.bias.register_post_accumulate_grad_hook(lambda _: None)
    with pytest.raises(errors.UnsupportedModel, match=r"bias has a hook.*register_hook"):
        capture.capture(model, F.cross_entropy, BATCH)
    capture.capture(model, inputs=BATCH[0])  # no gradients, no hooks


def test_replay_refuses_wrong_inputs() -> None:
    model = nn.Linear(4, 3)
    graph = capture.capture(model, inputs=BATCH[0])
    values = capture.bind(graph, model, inputs=BATCH[0])
    with pytest.raises(errors.ReplayError, match=r"inputs\.0 is float64\[5, 4\]"):
        capture.replay(graph, {**values, "inputs.0": BATCH[0].double()})
    del values["bias"]
    with pytest.raises(errors.ReplayError, match=r"input bias .* is missing; see capture\.bind"):
        capture.replay(graph, values)


def test_every_capture_error_has_a_help_page() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.CaptureError):
            assert kind.__doc__, name
            assert len(kind.__doc__) > 100, name
