"""The library of substitutions: a list of rules, and one rule as two graphs."""

from graphwright.report.rules.drawing import show_rule
from graphwright.report.rules.listing import RuleListing, list_rules, rule_to_dict, show, to_dict
