"""Show what the stages returned: tables, data, explanations, pictures."""

from graphwright.report.explain import (
    Explanation,
    PlanDiff,
    annotated_program,
    diff_plans,
    explain_plan,
)
from graphwright.report.pictures import (
    ProfileRow,
    plot,
    plot_accuracy,
    plot_balance,
    plot_calibration,
    plot_frontier,
    plot_partition,
    plot_profile,
    plot_rule,
    plot_serving,
)
from graphwright.report.results import show, to_dict
from graphwright.report.rules import (
    RuleListing,
    list_rules,
    rule_to_dict,
    show_rule,
)
from graphwright.report.tables import (
    Coverage,
    GraphCoverage,
    Listing,
    OperatorReport,
    count_described,
    diagnose,
    graph_coverage,
    list_described,
    operator_report,
    parse_types,
)
