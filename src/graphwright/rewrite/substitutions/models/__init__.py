"""Substitutions in captured models: which nodes are operators, where rules apply, replacing."""

from graphwright.rewrite.substitutions.models.constants import constant_calls
from graphwright.rewrite.substitutions.models.find import find
from graphwright.rewrite.substitutions.models.recognise import Recognised, recognise
from graphwright.rewrite.substitutions.models.replace import replace_match
