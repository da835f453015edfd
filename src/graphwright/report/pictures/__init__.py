"""Pictures of frontiers, profiles, partitions and timelines."""

from graphwright.report.pictures.calibration import plot_calibration
from graphwright.report.pictures.epochs import plot_accuracy, plot_balance
from graphwright.report.pictures.frontier import plot_frontier
from graphwright.report.pictures.partition import plot_partition
from graphwright.report.pictures.plot import plot
from graphwright.report.pictures.profile import ProfileRow, plot_profile
from graphwright.report.pictures.rule import plot_rule
from graphwright.report.pictures.serving import plot_serving
