"""Small compiled functions over records that own nothing."""

import sys
from typing import NamedTuple

import numpy as np

from graphwright.tasks import compilations_told, compiled, inlined, unowned
from graphwright.tasks.compiled import kernel_digest

PAIR = np.dtype([("a", np.int64), ("b", np.int32)], align=True)


class Inner(NamedTuple):
    numbers: np.ndarray
    count: int


class Outer(NamedTuple):
    pairs: np.ndarray
    inner: Inner


@inlined
def swap(outer: Outer, at: int) -> None:
    pair = outer.pairs[at]
    pair.a, pair.b = pair.b, pair.a
    outer.inner.numbers[at] += outer.inner.count


@compiled
def swap_all(outer: Outer) -> int:
    outer = unowned(outer)
    for at in range(len(outer.pairs)):
        swap(outer, at)
    return int(outer.inner.numbers.sum())


def test_records_that_own_nothing_are_the_same_memory():
    pairs = np.array([(1, 2), (3, 4)], PAIR)
    numbers = np.array([10, 20])
    before = sys.getrefcount(pairs), sys.getrefcount(numbers)
    assert swap_all(Outer(pairs, Inner(numbers, 5))) == 40
    assert pairs.tolist() == [(2, 1), (4, 3)]
    assert numbers.tolist() == [15, 25]
    assert (sys.getrefcount(pairs), sys.getrefcount(numbers)) == before


def test_constants_of_callers_do_not_multiply_what_is_compiled():
    made: dict = {}
    exec("def add(a, b): return a + b", made)  # in no file, so it is compiled in every run
    made["add"] = add = compiled(made["add"])
    exec("def call(a): return add(a, 1) + add(a, 2) + add(3, a) + add(a, b=4)", made)
    names: list[str] = []
    with compilations_told(names.append):
        assert compiled(made["call"])(10) == 50
    assert names == ["call", "add"]
    assert len(add.signatures) == 1


def test_a_change_of_an_inlined_function_begins_a_new_folder(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text("@inlined\ndef f(): return 1\n")
    before = kernel_digest(tmp_path)
    file.write_text("@inlined\ndef f(): return 2\n")
    assert kernel_digest(tmp_path) != before
