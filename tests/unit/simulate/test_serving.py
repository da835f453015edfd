"""Serving several models on one GPU: queueing theory, and another way to simulate the same."""

import heapq

import numpy as np
import pytest

from graphwright.errors import InvalidOption
from graphwright.simulate import Server, serve
from graphwright.simulate.serving import draw_requests, latencies, service_times


def server(**changed):
    return Server(**{"name": "x", "num_models": 4, "memory": 1, "seconds": 0.04, **changed})


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_the_mean_latency_is_that_of_the_formula_of_pollaczek_and_khinchine(share):
    one = server(load=0.03, room=1)
    chance = 3 / 4  # the next request is for another model
    mean = 0.04 + 0.03 * chance
    square = chance * 0.07**2 + (1 - chance) * 0.04**2
    rate = share / mean
    wanted = mean + rate * square / (2 * (1 - share))
    found = serve(one, rate, requests=400_000)
    assert found.mean == pytest.approx(wanted, rel=0.02)
    assert found.utilisation == pytest.approx(share, rel=0.01)
    assert found.median < found.mean < found.p99


def events(gaps, seconds):
    """Latencies by going from event to event."""
    arrivals = np.cumsum(gaps)
    queue = [(time, 1, n) for n, time in enumerate(arrivals)]
    heapq.heapify(queue)
    waiting, busy, found = [], False, np.zeros(len(gaps))
    while queue:
        now, comes, n = heapq.heappop(queue)
        if comes:
            waiting.append(n)
        else:
            busy, found[n] = False, now - arrivals[n]
        if waiting and not busy:
            busy, first = True, waiting.pop(0)
            heapq.heappush(queue, (now + seconds[first], 0, first))
    return found


def recent(one, models):
    """Service times by asking which models were used last."""
    times = []
    for at, model in enumerate(models):
        last = list(dict.fromkeys(models[:at][::-1]))[: one.room]
        times.append(one.seconds + (model not in last) * one.load)
    return times


@pytest.mark.parametrize("room", [1, 2, 4])
def test_latencies_are_those_of_going_from_event_to_event(room):
    one = server(load=0.05, room=room)
    gaps, models = draw_requests(4, 15.0, 400, 3)
    seconds = service_times(one, models)
    np.testing.assert_allclose(seconds, recent(one, models.tolist()))
    np.testing.assert_allclose(latencies(gaps, seconds), events(gaps, seconds), atol=1e-9)


def test_more_room_never_waits_longer():
    rows = [serve(server(num_models=8, load=0.02, room=room), 14.0) for room in (1, 2, 4, 8)]
    assert [one.mean for one in rows] == sorted((one.mean for one in rows), reverse=True)
    assert rows[-1].p99 == pytest.approx(serve(server(num_models=8), 14.0).p99, rel=0.01)


def test_what_comes_faster_than_it_is_served_is_saturated():
    assert serve(server(), 26.0).saturated and not serve(server(), 24.0).saturated


@pytest.mark.parametrize("rate", [0, -1.0, float("inf"), float("nan")])
def test_other_rates_are_refused(rate):
    with pytest.raises(InvalidOption, match="requests per second: give more than 0"):
        serve(server(), rate)
