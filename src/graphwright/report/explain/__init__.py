"""Why a plan does what it does, in tables, text and data; and how two plans differ."""

from graphwright.report.explain.diff import PlanDiff, diff_dict, diff_plans, show_diff
from graphwright.report.explain.explanation import Explanation, explain_plan
from graphwright.report.explain.module_paths import follows, split_path
from graphwright.report.explain.text import annotated_program, explanation_dict, show_explanation
