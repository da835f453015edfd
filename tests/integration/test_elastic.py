"""Going on with fewer workers: which ends count as a loss, and that there is an end to it."""

import os
import sys

import pytest

from graphwright.errors import WorkerFailed
from graphwright.run.checkpoint.save_load import save
from graphwright.run.training.elastic import elastic


def die_unless(number, rank):
    """End like a process that is out of memory, until there are few enough."""
    if int(os.environ["WORLD_SIZE"]) > number and int(os.environ["RANK"]) == rank:
        os._exit(3)
    return os.environ["RANK"], os.environ["WORLD_SIZE"]


def fail(message):
    if os.environ["RANK"] == "1":
        raise ValueError(message)
    return message


def leave(word):
    sys.exit(word)


def test_it_goes_on_with_fewer_until_all_return(tmp_path):
    attempts = []

    def prepare(attempt):
        attempts.append(attempt)
        if attempt.number == 1:  # what a worker would have saved by now
            save(tmp_path, 5, {}, extra={})
        return 1, 0

    assert elastic(3, tmp_path)(die_unless, prepare, checkpoint="given") == [("0", "1")]
    assert [a.num_workers for a in attempts] == [3, 2, 1]
    assert [a.checkpoint and a.checkpoint.name for a in attempts] == ["given", "given", "000001-step-5"]  # fmt: skip
    assert [a.failure and (a.failure.rank, a.failure.exit_code) for a in attempts] == [None, (0, 3), (0, 3)]  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "starts"), [({"max_restarts": 1}, [3, 2]), ({"min_workers": 3}, [3])]
)
def test_restarts_are_bounded(tmp_path, bounds, starts):
    seen = []

    def prepare(attempt):
        seen.append(attempt.num_workers)
        return 0, 0

    with pytest.raises(WorkerFailed, match=f"rank 0 of {starts[-1]} ended with exit code 3"):
        elastic(3, tmp_path, **bounds)(die_unless, prepare)
    assert seen == starts


@pytest.mark.parametrize(("function", "message"), [(fail, "ValueError: twice"), (leave, "SystemExit: twice")])  # fmt: skip
def test_an_exception_would_come_again_and_ends_the_run(tmp_path, function, message):
    seen = []

    def prepare(attempt):
        seen.append(attempt.num_workers)
        return ("twice",)

    with pytest.raises(WorkerFailed, match=message):
        elastic(2, tmp_path)(function, prepare)
    assert seen == [2]


def test_the_last_step_of_a_killed_writer_is_passed_over(tmp_path):
    from graphwright.run.training.loop import read_step_log

    log = tmp_path / "log"
    assert read_step_log(log) == []
    line = '{"step": %d, "loss": %g, "seconds": 1.0, "num_workers": 2}\n'
    log.write_text(line % (1, 3) + line % (2, 2) + line % (2, 2.5) + '{"step": 3, "lo')
    assert [(done.step, done.loss) for done in read_step_log(log)] == [(1, 3.0), (2, 2.5)]
