"""What a plan keeps of a timeline."""

from graphwright.plans import Figures
from graphwright.simulate import figures
from timelines import small


def test_the_figures_of_a_timeline():
    timeline = small()
    found = figures(timeline, (1e-3, 123.4))
    assert found == Figures(
        time=timeline.makespan,
        memory=500_000,
        nbytes=1_600,
        estimate_time=1e-3,
        estimate_memory=123,
        compute_time=17e-6,
        communication_time=6e-6,
        breakdown=timeline.memory.breakdown(0),
    )
    assert sum(found.breakdown.values()) == found.memory
    assert figures(timeline).estimate_time is None
    assert Figures.from_json(found.to_json()) == found
    assert str(found) == "24 µs, 500 kB, 1.6 kB moved"
