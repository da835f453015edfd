"""Values that capture knows: those that nothing decides, and answers that every good step gives."""

from graphwright.capture.record.values.decide import AssumedValues, answer
from graphwright.capture.record.values.known import (
    known_value,
    off_the_record,
    refuse_changed_settings,
    setting_of,
)
from graphwright.capture.record.values.masks import without_known_mask
