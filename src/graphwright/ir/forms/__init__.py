"""Written forms of a graph: text for people, JSON for programs."""

from graphwright.ir.forms.json_form import (
    SCHEMA_VERSION,
    from_json,
    load,
    passes_from_json,
    passes_to_json,
    save,
    to_json,
)
from graphwright.ir.forms.parse import parse_text
from graphwright.ir.forms.text import to_text
