"""Simulate a change of a plan at the price of what it touches, exactly."""

from graphwright.simulate.delta.incremental import Incremental
from graphwright.simulate.delta.schedule import DeltaSchedule
