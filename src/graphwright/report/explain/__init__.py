"""Why a plan does what it does, in tables, text and data; and how two plans differ."""

from graphwright.report.explain.diff import PlanDiff, diff_plans
from graphwright.report.explain.explanation import Explanation, annotated_program, explain_plan
from graphwright.report.explain.sections import follows, split_path
