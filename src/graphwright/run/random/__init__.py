"""Random operators part by part: the numbers of the whole, whatever the split."""

from graphwright.run.random import rules  # they register themselves
from graphwright.run.random.draw import draw
from graphwright.run.random.philox import Keys, RandomBox
