"""Optimise inference graphs with proved substitutions.

pool, patterns        terms, each once; rules as patterns over them
layouts               which images have their channels last in memory
regions               a large graph in pieces
reading, writing      between ATen calls and terms
backtracking          a search over graphs, one after the other
saturation            equality saturation: all graphs at once, as classes of equal terms
"""

from graphwright.rewrite.optimize.backtracking import ALPHA, Found, backtrack
from graphwright.rewrite.optimize.graphs import (
    ALGORITHMS,
    Algorithm,
    Rewritten,
    Tell,
    cost_of,
    fixed_tensors,
    rewrite_graph,
)
from graphwright.rewrite.optimize.layouts import (
    ChannelsLast,
    Layouts,
    Price,
    is_image,
    layouts_of,
)
from graphwright.rewrite.optimize.patterns import (
    Change,
    Matcher,
    Pattern,
    patterns_of,
    usual_patterns,
)
from graphwright.rewrite.optimize.pool import AtenCall, Entry, Pool, is_steady
from graphwright.rewrite.optimize.reading import Reader
from graphwright.rewrite.optimize.regions import Region, cut
from graphwright.rewrite.optimize.writing import Writer
