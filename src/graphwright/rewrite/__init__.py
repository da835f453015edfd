"""Graph passes: each takes a graph and returns an equal one."""

from graphwright.rewrite.unmerge import RULES, elementwise, unmerge
