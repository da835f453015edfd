"""Calibration: real kernels on tiny calls, each measured once, kept in the store."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from threading import active_count, get_ident

import pytest
import torch

from graphwright import zoo
from graphwright.aten.invoke import bind_kernel, call_kernel
from graphwright.describe import Types
from graphwright.ir import Attrs, TensorType
from graphwright.machine import Measurement, Store, cluster
from graphwright.report.tables.operator import _examples, example
from graphwright.run.measure.calls.one_call import needed_memory
from graphwright.run.measure.calls.operators import calibrate, calls_of
from graphwright.run.measure.calls.samples import index_ranges, sample_inputs
from graphwright.run.measure.calls.standard import standard_calls
from graphwright.run.measure.hardware import find_target, free_memory, probe
from graphwright.run.measure.timing import measure
from graphwright.run.program.allocator import PAGE
from graphwright.simulate.calibration import Calibration
from graphwright.simulate.costs import CostModel, measured_with
from limits import HANG

operators = import_module("graphwright.run.measure.calls.operators")
one_call = import_module("graphwright.run.measure.calls.one_call")


def types(*shapes: tuple[int, ...], outputs, dtype="float32") -> Types:
    return Types(
        tuple(TensorType(s, dtype) for s in shapes), tuple(TensorType(s, dtype) for s in outputs)
    )


MM = ("aten.mm", Attrs(), types((16, 16), (16, 16), outputs=[(16, 16)]))
RELU = ("aten.relu", Attrs(), types((16, 16), outputs=[(16, 16)]))
VIEW = ("aten.permute", Attrs({"dims": (1, 0)}), types((4, 6), outputs=[(6, 4)]))
CONSTANT = ("graphwright.constant", Attrs({"value": 1.0}), types(outputs=[()]))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "costs.sqlite")


def quick(calls, store: Store, **options) -> Calibration:
    return calibrate(calls, store=store, seconds=0.001, **options)


def test_distinct_calls_are_measured_and_counted(store):
    found = quick([MM, RELU, MM, VIEW, CONSTANT], store)
    assert {(row.op, row.count) for row in found.rows} == {("aten.mm", 2), ("aten.relu", 1)}
    assert found.num_new == 2
    assert found.num_free == 2
    assert found.skipped == ()
    assert all(row.measured > 0 and row.spread >= 0 and row.repeats >= 5 for row in found.rows)
    assert found.measured == pytest.approx(sum(row.measured * row.count for row in found.rows))
    assert [row.measured * row.count for row in found.rows] == sorted(
        (row.measured * row.count for row in found.rows), reverse=True
    )


def test_long_calls_are_measured_beside_those_of_other_processes(store, monkeypatch):
    large = ("aten.mm", Attrs(), types((512, 512), (512, 512), outputs=[(512, 512)]))
    callers: dict[int, set[int]] = {}

    def record(op, inputs, attrs, device):
        run = bind_kernel(op, inputs, attrs, device)

        def call():
            callers.setdefault(inputs[0].shape[0], set()).add(get_ident())
            return run()

        return call

    monkeypatch.setattr(one_call, "bind_kernel", record)
    monkeypatch.setattr(one_call, "LONG_CALL", 1e-4)
    monkeypatch.setattr(operators, "SWEEPS", 1)
    target = replace(find_target("cpu"), others=2)
    monkeypatch.setattr(operators, "find_target", lambda *_: target)
    before = active_count()
    quick([MM, large], store)
    assert {side: len(found) for side, found in callers.items()} == {16: 1, 512: 3}
    assert active_count() == before


def test_what_was_measured_is_what_the_cost_model_says(store):
    found = quick([MM], store)
    device = cluster("local").devices[0]
    assert found.device == device.name
    assert CostModel(store).compute(*MM, device) == found.rows[0].measured
    assert found.rows[0].roofline == CostModel(measured=False).compute(*MM, device)


def test_a_second_run_measures_nothing(store, monkeypatch):
    first = quick([MM, RELU], store)
    monkeypatch.setattr(one_call, "measure", lambda *_: pytest.fail("measured again"))
    second = quick([MM, RELU], store)
    assert second.num_new == 0
    assert [row.measured for row in second.rows] == [row.measured for row in first.rows]


def test_an_interruption_keeps_what_was_measured(store, tmp_path, monkeypatch):
    calls = [MM, RELU]

    def interrupted(done: int, total: int, op: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(calls, store, progress=interrupted)
    again = Store(tmp_path / "costs.sqlite")
    assert len(again.load_compute(cluster("local").devices[0].name, measured_with())) == 1
    assert quick(calls, again).num_new == 1


def test_progress_is_told_from_none_to_all(store):
    told: list[tuple[int, int]] = []
    quick([MM, RELU, VIEW], store, progress=lambda done, total, op: told.append((done, total)))
    total = 2 * operators.SWEEPS
    assert told == [(done, total) for done in range(total + 1)]


def test_a_slow_moment_of_the_machine_does_not_count(store, monkeypatch):
    """Each sweep meets it at another call; the median of three does not know of it."""
    taken = iter([9.0, 2.0, 1.0, 9.0, 1.1, 2.1])

    def measured(*_):
        return Measurement(seconds=next(taken), spread=0.0, repeats=5)

    monkeypatch.setattr(one_call, "measure", measured)
    found = quick([MM, RELU], store)
    assert {row.op: row.measured for row in found.rows} == {"aten.mm": 1.1, "aten.relu": 2.1}
    assert found.num_disturbed == 2  # but is told
    device = cluster("local").devices[0]
    assert CostModel(store).compute(*MM, device) == 1.1


COUNT_FAULTS = """
import sys
from importlib import import_module
from resource import RUSAGE_THREAD, getrusage

from graphwright.describe import Types
from graphwright.ir import Attrs, TensorType
from graphwright.machine import Measurement, Store

one_call = import_module("graphwright.run.measure.calls.one_call")
operators = import_module("graphwright.run.measure.calls.operators")
faults = []

def count(call, device, seconds):
    call()
    before = getrusage(RUSAGE_THREAD).ru_minflt
    for _ in range(10):
        call()
    faults.append(getrusage(RUSAGE_THREAD).ru_minflt - before)
    return Measurement(seconds=1.0, spread=0.0, repeats=10)

one_call.measure = count
large, rate = TensorType((512, 16384), "float32"), TensorType((), "float64")
call = ("aten.addcmul", Attrs({"value": 1}), Types((large, large, rate), (large,)))
operators.calibrate([call], device="local:2", store=Store(sys.argv[1]))
print(max(faults))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
def test_large_calls_beside_others_find_their_memory_there(tmp_path):
    """As in a step. With pages from the system at every call, this one took four times as long."""
    given = [sys.executable, "-c", COUNT_FAULTS, str(tmp_path / "costs.sqlite")]
    faults = subprocess.run(given, capture_output=True, text=True, check=True).stdout
    pages = 512 * 16384 * 4 // PAGE
    assert int(faults) < 2 * pages  # of ten calls


def test_the_longest_by_the_roofline_are_within_the_limit(store):
    large = ("aten.mm", Attrs(), types((128, 128), (128, 128), outputs=[(128, 128)]))
    found = quick([MM, RELU, large], store, limit=1)
    assert [row.types for row in found.rows] == [large[2]]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("aten.mm", Attrs(), types((4, 3), (4, 3), outputs=[(4, 3)])), "RuntimeError: "),
        (("mine.nothing", Attrs(), types((4,), outputs=[(4,)])), "has no operator mine.nothing"),
        (("aten.mm", Attrs(), types((4, 4), (4, 4), outputs=[(4, 5)])), "makes float32[4, 4], not"),
        (("aten.relu", Attrs(), types((1 << 50,), outputs=[(1 << 50,)])), "of memory; "),
    ],
)
def test_a_call_that_cannot_be_measured_is_told_and_not_stored(store, call, reason):
    found = quick([call, RELU], store)
    assert [row.op for row in found.rows] == ["aten.relu"]
    assert reason in found.skipped[0].reason
    assert len(store.load_compute(found.device, measured_with())) == 1


def test_memory_is_looked_at_before_it_is_taken(store, monkeypatch):
    monkeypatch.setattr(one_call, "free_memory", lambda device: 5000)
    assert needed_memory(MM[2]) == 4 * 1024
    assert len(quick([MM], store).skipped) == 1
    monkeypatch.setattr(one_call, "free_memory", lambda device: 5200)
    assert quick([MM], store).skipped == ()
    assert 0 < free_memory(torch.device("cpu")) < 1 << 50


def test_the_users_generator_and_threads_are_left_alone(store):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    drop = ("aten.bernoulli.p", Attrs({"p": 0.5}), types((8,), outputs=[(8,)]))
    assert quick([drop, MM], store).skipped == ()
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads


def test_a_small_model_is_measured_whole(store):
    graph = zoo.load("mlp", small=True).capture()
    found = quick(calls_of(graph), store)
    assert found.skipped == ()
    assert sum(row.count for row in found.rows) + found.num_free == len(graph.nodes)
    assert found.median_ratio > 0
    low, middle, high = found.quartiles
    assert low <= middle == found.median_ratio <= high


def test_indices_are_drawn_from_the_rows_that_there_are():
    rows = Types(
        (TensorType((7, 3), "float32"), TensorType((500,), "int64")),
        (TensorType((500, 3), "float32"),),
    )
    attrs = {"padding_idx": -1, "scale_grad_by_freq": False, "sparse": False}
    assert index_ranges("aten.embedding", attrs, rows) == {1: 7}
    _, index = sample_inputs("aten.embedding", attrs, rows)
    assert set(index.tolist()) == set(range(7))


def test_masks_come_in_runs_of_both_values():
    mask, value = TensorType((3, 100), "bool"), TensorType((3, 100), "float32")
    sampled = sample_inputs("aten.where", {}, Types((mask, value, value), (value,)))[0]
    changes = int(sampled.flatten().diff().sum())
    assert 0 < changes < 10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", sorted(_examples()))
def test_every_described_operator_takes_its_samples(op):
    attrs, call = example(op)
    made = call_kernel(op, sample_inputs(op, attrs, call), attrs)
    assert tuple(tuple(t.shape) for t in made) == tuple(t.shape for t in call.outputs)


def test_no_call_is_begun_after_the_time_that_is_given(store):
    found = quick([MM, RELU], store, within=0.0)
    assert not found.rows
    assert {each.reason for each in found.skipped} == {"there was no time left for it"}
    assert quick([MM, RELU], store).num_new == 2


def test_results_are_written_where_no_cache_holds_memory():
    """As in a step: the memory of one result is not that of the next."""
    call = one_call._make_call(*RELU, torch.device("cpu"))
    made = [call().data_ptr() for _ in range(one_call.COPIES)]
    assert len(set(made)) == len(made)


WEIGHT, RATE = TensorType((64, 32), "float32"), TensorType((), "float64")


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "variant"),
    [
        ("aten.addcmul", (WEIGHT, WEIGHT, RATE), (WEIGHT,), "aten.addcmul_"),
        ("graphwright.sgd", (WEIGHT, WEIGHT, WEIGHT, RATE), (WEIGHT, WEIGHT), "graphwright.sgd_"),
        ("aten.mul.Tensor", (WEIGHT, RATE), (WEIGHT,), None),
        ("aten.addcmul", (WEIGHT, WEIGHT, WEIGHT), (WEIGHT,), None),
        ("aten.mul.Tensor", (RATE, RATE), (RATE,), None),
        ("aten.where.self", (TensorType((64, 32), "bool"), WEIGHT, RATE), (WEIGHT,), None),
    ],
)
def test_what_reads_a_learning_rate_is_measured_over_its_weight(op, inputs, outputs, variant):
    assert one_call.update_of(op, Types(inputs, outputs)) == variant


def test_updates_write_over_their_weights_when_they_are_measured(store):
    call = ("aten.addcmul", Attrs({"value": 1}), Types((WEIGHT, WEIGHT, RATE), (WEIGHT,)))
    run = one_call._make_call(*call, torch.device("cpu"))
    first = run()
    before = first.clone()
    for _ in range(one_call.COPIES):  # once more over each copy
        run()
    assert not torch.equal(first, before)
    assert quick([call], store).num_new == 1


def test_timing_takes_the_median_of_batches():
    calls = []
    found = measure(lambda: calls.append(1), torch.device("cpu"), seconds=0.002)
    assert 0 < found.seconds < 1e-3
    assert 5 <= found.repeats <= len(calls)


def test_a_device_can_be_probed():
    found = probe(torch.device("cpu"), "any", 10**9)
    assert found.bandwidth > 1e8
    assert found.rate("float32") > 1e8
    assert 0 < found.launch < 1e-2


def test_a_share_of_the_cores_is_a_device_of_its_own():
    cores = find_target("cpu").threads
    assert find_target("local:1").figures == find_target("cpu").figures
    one = find_target(f"local:{cores}")
    assert one.threads == 1
    assert one.figures == cluster(f"local:{cores}").devices[0]


def test_standard_calls_run_from_small_to_large():
    calls = standard_calls()
    assert len({op for op, _, _ in calls}) >= 8
    largest = max(t.nbytes for _, _, call in calls for t in call.outputs)
    assert largest >= 1 << 24


THREADS = """
import os, time, torch
from graphwright.run.measure.calls.one_call import _beside_others
a = torch.randn(512, 512)
torch.set_num_threads(1)
call = lambda: a @ a
before = len(os.listdir("/proc/self/task"))
with _beside_others(call, lambda: call, 1):
    time.sleep(0.1)
    print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts threads as Linux shows them"
)
def test_others_beside_a_call_compute_with_as_many_threads_as_it():
    """A new thread would take all cores, and what is measured beside it would take twice as long."""
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG)
    assert done.stdout == "1\n"
