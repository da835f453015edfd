"""Optimise inference graphs with proved substitutions.

pool, patterns        terms, each once; rules as patterns over them
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
from graphwright.rewrite.optimize.patterns import (
    Change,
    Matcher,
    Pattern,
    patterns_of,
    usual_patterns,
)
from graphwright.rewrite.optimize.pool import AtenCall, Entry, Pool, Price, is_steady
from graphwright.rewrite.optimize.reading import Reader
from graphwright.rewrite.optimize.regions import Region, cut
from graphwright.rewrite.optimize.writing import Writer
