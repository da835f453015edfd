"""Show what was found: operators, coverage, graphs, plans. Data first, pictures of it second."""

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
from graphwright.report.explain.diff import PlanDiff, diff_dict, diff_plans, show_diff
from graphwright.report.explain.explanation import Explanation, explain_plan
from graphwright.report.explain.text import (
    annotated_program,
    explanation_dict,
    show_explanation,
)
from graphwright.report.graph import show_graph, show_splits, summary_dict
from graphwright.report.listing import listing, listing_dicts, show_listing
from graphwright.report.operator import operator_dict, operator_report, parse_types, show_operator
from graphwright.report.pictures.frontier import plot_frontier
from graphwright.report.pictures.partition import plot_partition
from graphwright.report.pictures.plot import plot
from graphwright.report.pictures.profile import ProfileRow, plot_profile
from graphwright.report.plans import (
    frontier_dict,
    plan_dict,
    plan_headline,
    profile_dict,
    show_frontier,
    show_plan,
    show_profile,
)
from graphwright.report.timeline import show_timeline

__all__ = [
    "Explanation",
    "PlanDiff",
    "ProfileRow",
    "annotated_program",
    "calibration_dict",
    "coverage",
    "coverage_dict",
    "diagnose",
    "diagnosis_dict",
    "diff_dict",
    "diff_plans",
    "explain_plan",
    "explanation_dict",
    "frontier_dict",
    "graph_coverage",
    "graph_coverage_dicts",
    "listing",
    "listing_dicts",
    "operator_dict",
    "operator_report",
    "parse_types",
    "plan_dict",
    "plan_headline",
    "plot",
    "plot_calibration",
    "plot_frontier",
    "plot_partition",
    "plot_profile",
    "profile_dict",
    "show_calibration",
    "show_coverage",
    "show_diagnosis",
    "show_diff",
    "show_explanation",
    "show_frontier",
    "show_graph",
    "show_graph_coverage",
    "show_listing",
    "show_operator",
    "show_plan",
    "show_profile",
    "show_splits",
    "show_timeline",
    "summary_dict",
]
