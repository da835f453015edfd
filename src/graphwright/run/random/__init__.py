"""Random operators part by part: the numbers that the whole would have there, whatever the split."""

from graphwright.run.random.draw import Drawn, draw, is_random
from graphwright.run.random.philox import Keys
