"""Show what was found: operators, coverage, graphs. Data first, pictures of it second."""

from graphwright.report.calibration import (
    calibration_dict,
    plot_calibration,
    show_calibration,
)
from graphwright.report.coverage import (
    coverage,
    coverage_dict,
    graph_coverage,
    graph_coverage_dicts,
    show_coverage,
    show_graph_coverage,
)
from graphwright.report.doctor import diagnose, diagnosis_dict, show_diagnosis
from graphwright.report.graph import show_graph, show_splits, summary_dict
from graphwright.report.listing import listing, listing_dicts, show_listing
from graphwright.report.operator import operator_dict, operator_report, parse_types, show_operator
from graphwright.report.timeline import show_timeline

__all__ = [
    "calibration_dict",
    "coverage",
    "coverage_dict",
    "diagnose",
    "diagnosis_dict",
    "graph_coverage",
    "graph_coverage_dicts",
    "listing",
    "listing_dicts",
    "operator_dict",
    "operator_report",
    "parse_types",
    "plot_calibration",
    "show_calibration",
    "show_coverage",
    "show_diagnosis",
    "show_graph",
    "show_graph_coverage",
    "show_listing",
    "show_operator",
    "show_splits",
    "show_timeline",
    "summary_dict",
]
