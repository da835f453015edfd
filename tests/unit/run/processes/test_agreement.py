"""What ranks tell each other travels as JSON: results, and the errors of one rank to all."""

import json

import pytest

from graphwright import errors
from graphwright.errors import CheckpointMismatch, GraphwrightError, InvalidGraph
from graphwright.run.processes.agreement import (
    _error_from_json,
    _error_to_json,
    gather_results,
)


def travel(error):
    return _error_from_json(json.loads(json.dumps(_error_to_json(error))))


KINDS = [kind for _, kind in sorted(vars(errors).items()) if isinstance(kind, type)]


class ErrorElsewhere(GraphwrightError):
    """One that is not among `graphwright.errors`."""


@pytest.mark.parametrize("kind", [*KINDS, ErrorElsewhere])
def test_every_error_arrives_as_itself(kind):
    error = kind("what, where, and what to try")
    arrived = travel(error)
    expected = kind if kind in KINDS else GraphwrightError
    assert type(arrived) is expected and str(arrived) == str(error)
    assert expected is not kind or vars(arrived) == vars(error)


def test_fields_arrive():
    error = travel(CheckpointMismatch("no", missing=("a", "b"), extra=(), mismatched=("c",)))
    assert (error.missing, error.extra, error.mismatched) == (("a", "b"), (), ("c",))
    assert travel(InvalidGraph("no", rule="shape", node="mm")).node == "mm"


def test_errors_of_the_system_arrive():
    arrived = travel(FileNotFoundError(2, "No such file or directory", "there"))
    assert type(arrived) is FileNotFoundError and arrived.filename == "there"
    assert "no number" in str(travel(OSError("no number")))


@pytest.mark.parametrize("name", ["SystemExit", "eval", "os", "Exception", "", "__class__"])
def test_nothing_else_is_made_of_a_name(name):
    arrived = _error_from_json({"type": name, "message": "said", "fields": {"x": 1}})
    assert type(arrived) is GraphwrightError and str(arrived) == "said"


def test_alone():
    assert gather_results(lambda: (1, 2)) == [(1, 2)]
    with pytest.raises(InvalidGraph):
        gather_results(lambda: travel_and_raise(InvalidGraph("no")))


def travel_and_raise(error):
    raise travel(error)
