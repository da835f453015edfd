"""Show what was found: operators, coverage, graphs, plans. Data first, pictures of it second."""

from graphwright.report.calibration import (
    calibration_dict,
    plot_calibration,
    show_calibration,
)
from graphwright.report.coverage import (
    GraphCoverage,
    coverage,
    coverage_dict,
    graph_coverage,
    graph_coverage_dicts,
    show_coverage,
    show_graph_coverage,
)
from graphwright.report.doctor import diagnose, diagnosis_dict, show_diagnosis
from graphwright.report.explain import (
    Explanation,
    PlanDiff,
    annotated_program,
    diff_dict,
    diff_plans,
    explain_plan,
    explanation_dict,
    show_diff,
    show_explanation,
)
from graphwright.report.graph import show_graph, show_splits, summary_dict
from graphwright.report.listing import listing, listing_dicts, show_listing
from graphwright.report.operator import operator_dict, operator_report, parse_types, show_operator
from graphwright.report.pictures import (
    ProfileRow,
    plot,
    plot_frontier,
    plot_partition,
    plot_profile,
)
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
