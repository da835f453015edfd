"""One spelling for each operator: what the recorder writes for an ATen call."""

from graphwright.capture.record.canonical import factories, views  # they register what they define
from graphwright.capture.record.canonical.forms import operator_name, write
