"""Frontier tracking (TensorOpt section 3): all assignments that no other beats in both time and
memory."""

from graphwright.partition.search.frontier.candidates import TRACKING, find_candidates
from graphwright.partition.search.frontier.tracking import Tracked, track
