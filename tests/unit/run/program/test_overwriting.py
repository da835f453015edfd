"""Which memory a step may write over: what nobody reads any more, and nothing else."""

import pytest
import torch

from graphwright.aten.replay import bind, replay
from graphwright.capture import capture
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.plans import Call, Collective, Cut, Operand, Program
from graphwright.plans.transfers import AllGather, AllReduce
from graphwright.run.program.module import build_module, run_module
from graphwright.run.program.overwriting import (
    find_in_place,
    find_into_memory,
    mark_free,
    shares_memory,
)

CPU = torch.device("cpu")


def call(op, output, *values, alike=(0,)):
    operands = tuple(Operand(value=v) for v in values)
    return Call(node=f"n{output}", op=op, attrs={}, inputs=operands, outputs=(output,), alike=alike)


def program(*instructions, updates=None, results=None, inputs=None):
    return Program(
        rank=0, inputs=inputs or {"w": 0, "x": 1}, homes={}, instructions=instructions,
        updates=updates or {}, results=results or {}, shardings={}, groups=(), digest="",
    )  # fmt: skip


def free(*instructions, **kwargs):
    return [i.free for i in mark_free(program(*instructions, **kwargs))]


def test_the_last_reader_may_overwrite():
    first, second = call("aten.relu", 2, 0), call("aten.neg", 3, 2)
    assert free(first, second, updates={"w": 3}) == [(0,), (0,)]


def test_what_is_read_again_stays():
    assert free(call("aten.relu", 2, 0), call("aten.neg", 3, 0), updates={"w": 3}) == [(), (0,)]


def test_data_and_what_is_never_updated_stay():
    assert free(call("aten.relu", 2, 0), call("aten.neg", 3, 1), results={"y": 3}) == [(), ()]


def test_a_view_shares_memory_with_what_it_shows():
    assert shares_memory("aten.view") and shares_memory("aten.permute")
    assert not shares_memory("aten.relu")
    view, late = call("aten.permute", 2, 0), call("aten.neg", 3, 0)
    found = free(view, late, call("aten.mm", 4, 2, 3), updates={"w": 4})
    assert found[1] == ()  # the view is read after it


def test_a_slice_shares_memory_with_the_whole():
    cut = Cut(value=0, output=2, region=((0, 1),))
    found = mark_free(
        program(cut, call("aten.neg", 3, 0), call("aten.add.Tensor", 4, 3, 2), updates={"w": 4})
    )
    assert found[1].free == ()


def test_one_value_twice_is_not_overwritten():
    assert free(call("aten.add.Tensor", 2, 0, 0), updates={"w": 2}) == [()]


def test_what_is_sent_is_read_until_the_result_is_there():
    send = Collective(kind=AllGather(), tensor="t", group=(0, 1), value=0, output=2, sizes=(1, 1))
    early, late = call("aten.neg", 3, 0), call("aten.relu", 4, 2)
    found = mark_free(program(send, early, late, updates={"w": 3}, results={"y": 4}))
    assert found[1].free == ()
    found = mark_free(program(send, late, early, updates={"w": 3}, results={"y": 4}))
    assert found[2].free == (0,)


def test_what_an_update_reads_stays_as_it_may_wait_for_others():
    gradient, update = call("aten.relu", 2, 1), call("graphwright.sgd", 3, 0, 2, 4, 5)
    late = call("aten.neg", 6, 2)
    assert free(gradient, late, update, updates={"w": 3})[1] == ()
    assert free(gradient, update, late, updates={"w": 3}, results={"y": 6})[2] == ()


@pytest.mark.parametrize("again", [False, True])
def test_terms_are_added_up_in_place_where_nobody_else_reads_them(again):
    terms = call("aten.mm", 2, 0, 1)
    total = Collective(kind=AllReduce(), tensor="t", group=(0, 1), value=2, output=3)
    readers = [call("aten.neg", 4, 3), *([call("aten.relu", 5, 2)] if again else [])]
    results = {"y": 4, **({"z": 5} if again else {})}
    found = mark_free(program(terms, total, *readers, results=results))
    assert found[1].free is not again


def test_operators_in_place_take_the_same_arguments():
    aten = torch.ops.aten
    assert find_in_place(aten.add.Tensor) is aten.add_.Tensor
    assert find_in_place(aten.addcmul.default) is aten.addcmul_.default
    assert find_in_place(aten.mm.default) is None


def test_operators_that_write_into_memory_take_the_same_arguments():
    aten = torch.ops.aten
    assert find_into_memory(aten.add.Tensor) == (aten.add.out, ("out",))
    assert find_into_memory(aten.where.self) == (aten.where.self_out, ("out",))
    assert find_into_memory(aten.threshold_backward.default) == (
        aten.threshold_backward.grad_input,
        ("grad_input",),
    )
    assert find_into_memory(aten.max_pool2d_with_indices.default) == (
        aten.max_pool2d_with_indices.out,
        ("out", "indices"),
    )
    assert find_into_memory(aten.convolution.default) is None  # it would allocate and copy
    assert find_into_memory(aten._scaled_dot_product_flash_attention_for_cpu.default) is None


ATEN = torch.ops.aten
BY_ELEMENT = {
    "threshold_backward": (ATEN.threshold_backward.default, 2, (0.5,)),
    "gelu_backward": (ATEN.gelu_backward.default, 2, ()),
    "silu_backward": (ATEN.silu_backward.default, 2, ()),
    "tanh_backward": (ATEN.tanh_backward.default, 2, ()),
    "sigmoid_backward": (ATEN.sigmoid_backward.default, 2, ()),
    "leaky_relu_backward": (ATEN.leaky_relu_backward.default, 2, (0.1, False)),
    "hardtanh_backward": (ATEN.hardtanh_backward.default, 2, (-1.0, 1.0)),
    "add": (ATEN.add.Tensor, 2, ()),
    "mul": (ATEN.mul.Tensor, 2, ()),
    "addcdiv": (ATEN.addcdiv.default, 3, ()),
    "gelu": (ATEN.gelu.default, 1, ()),
    "maximum": (ATEN.maximum.default, 2, ()),
}


@pytest.mark.parametrize("name", BY_ELEMENT)
@pytest.mark.parametrize("size", [7, 4099])
def test_an_operator_by_element_may_write_over_any_operand(name, size):
    overload, count, rest = BY_ELEMENT[name]
    found = find_into_memory(overload)
    assert found is not None
    given = [torch.randn(3, size) for _ in range(count)]
    expected = overload(*given, *rest)
    for arg in range(count):
        copies = [t.clone() for t in given]
        made = found[0](*copies, *rest, **{found[1][0]: copies[arg]})
        assert made.data_ptr() == copies[arg].data_ptr()
        torch.testing.assert_close(made, expected, rtol=0, atol=0)


def test_the_gradient_of_an_activation_takes_the_memory_of_what_it_is_made_from():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    batch = torch.randn(3, 4), torch.randn(3, 2)
    graph = capture(model, torch.nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    program = lower(graph, data_parallel(graph, cluster("local:1"))).program(0)
    module = build_module(program, None, CPU)
    called = {node.target for node in module.graph.nodes if node.op == "call_function"}
    assert torch.ops.aten.threshold_backward.grad_input in called


class Aliases(torch.nn.Module):
    """Everything that shares memory, read before and after it could be overwritten."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(4, 6, dtype=torch.float64))
        self.register_buffer("again", torch.zeros(24, dtype=torch.float64))

    def forward(self, x):
        y = x @ self.weight
        flat, parts = y.view(-1), y.split(2, dim=1)
        rising = parts[0].relu() + parts[1].neg() + y[:, :2]
        self.seen.add_(self.weight.detach().t())
        self.again.copy_(self.seen.reshape(-1))
        return (rising.exp().t().reshape(-1) + flat[: rising.numel()].tanh()).sum() + flat.pow(
            2
        ).sum()


def test_overwriting_changes_no_value():
    torch.manual_seed(0)
    model, x = Aliases(), torch.randn(5, 6, dtype=torch.float64)
    graph = capture(model, None, (x,), optimizer=torch.optim.Adam)
    plan = data_parallel(graph, cluster("local:1"))
    module = build_module(lower(graph, plan).program(0), None, CPU)
    inputs = bind(graph, model, inputs=(x,), optimizer=torch.optim.Adam)
    kept = {name: value.clone() for name, value in inputs.items()}
    for _ in range(3):
        expected = replay(graph, kept)
        held = {name: value.clone() for name, value in kept.items()}
        updates, results = run_module(module, held, 0)
        for old, new in graph.updates.items():
            torch.testing.assert_close(updates[old], expected[new], rtol=1e-12, atol=1e-12)
            kept[old] = updates[old]
        loss = graph.outputs[0]
        torch.testing.assert_close(results[loss], expected[loss], rtol=1e-12, atol=1e-12)
        places = [t.untyped_storage().data_ptr() for t in updates.values()]
        assert len(set(places)) == len(places)
