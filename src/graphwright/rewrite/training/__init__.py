"""Proved substitutions for training graphs, as a graph pass.

reading      between calls of a captured step and terms of a pool
writing      back, with every name, role and provenance, by `ir.Edit`
prices       seconds of calls by a formula, from descriptions
optimize     the pass
"""

from graphwright.rewrite.training.optimize import Applied, Optimize, rules_of
