"""The command line: thin verbs over the stages and their reports, one module per verb.

A model is named as ``file.py:function`` or by its name in the zoo. Every verb takes ``--json``.
Errors that we raise on purpose are printed without a traceback, with exit status 1.
"""

from graphwright.cli import (
    capture,
    catalogues,
    demo,
    explain,
    memory,
    optimize,
    plan,
    run,
    simulate,
)
from graphwright.cli.app import app, main
from graphwright.version import __version__
