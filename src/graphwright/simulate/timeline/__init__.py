"""A simulated step: its figures, its critical path, in words, as a trace and as a picture."""

from graphwright.simulate.timeline.caption import caption, version
from graphwright.simulate.timeline.summary import figures, percentages, shares, throughput, words
from graphwright.simulate.timeline.timeline import Timeline
