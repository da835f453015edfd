"""Record one step on fake tensors: operators in one spelling each, and where each came from."""

from graphwright.capture.record.assemble import Results, assemble
from graphwright.capture.record.functional import (
    Functionalisation,
    as_parameter,
    functional,
    stamp,
    swapped,
    value_of,
)
from graphwright.capture.record.hooks import carry_hooks
from graphwright.capture.record.provenance import Provenance
from graphwright.capture.record.recorder import Recorder
from graphwright.capture.record.tape import TakenApart, Tape, Value
from graphwright.capture.record.values import AssumedValues, refuse_changed_settings, setting_of
