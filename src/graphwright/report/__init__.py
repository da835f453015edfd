"""Show what was found: operators, coverage, graphs. Data first, pictures of it second."""

from graphwright.report.coverage import (
    coverage,
    coverage_dict,
    graph_coverage,
    graph_coverage_dicts,
    show_coverage,
    show_graph_coverage,
)
from graphwright.report.graph import show_graph, show_splits, summary_dict
from graphwright.report.listing import listing, listing_dicts, show_listing
from graphwright.report.operator import operator_dict, operator_report, parse_types, show_operator

__all__ = [
    "coverage",
    "coverage_dict",
    "graph_coverage",
    "graph_coverage_dicts",
    "listing",
    "listing_dicts",
    "operator_dict",
    "operator_report",
    "parse_types",
    "show_coverage",
    "show_graph",
    "show_graph_coverage",
    "show_listing",
    "show_operator",
    "show_splits",
    "summary_dict",
]
