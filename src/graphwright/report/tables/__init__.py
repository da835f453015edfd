"""Results as tables and as data: a module for each type, with `show` and `to_dict`."""

from graphwright.report.tables.calibration import families
from graphwright.report.tables.coverage import (
    Coverage,
    GraphCoverage,
    count_described,
    graph_coverage,
)
from graphwright.report.tables.doctor import Diagnosis, diagnose
from graphwright.report.tables.layout import headed_plainly, number_column, text_column
from graphwright.report.tables.listing import Listing, list_described
from graphwright.report.tables.operator import OperatorReport, operator_report, parse_types
