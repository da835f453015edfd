"""Reading the text form of a graph (its grammar is shown in `graphwright.ir.forms.text`).

    file     := "graph" INT  section*  "outputs:" output*  "end"
    section  := ROLE ":" input*  |  PHASE ":" node*          (sections of inputs come first)
    input    := NAME ":" TYPE ["of" NAME]
    node     := result ("," result)* "=" OP "(" [args] [";" attrs] ")" provenance*
    result   := NAME ":" TYPE [ROLE] ["of" NAME]
    arg      := NAME | "_"
    args     := arg ("," arg)*                               attrs, values: likewise
    attr     := WORD "=" value
    value    := "None" | "True" | "False" | INT | FLOAT | STRING | "(" [values [","]] ")"
    provenance := "@" PATH | "layer=" INT | "step=" INT | "partner=" NAME | "parameter=" NAME
    output   := NAME ["replaces" NAME ("," NAME)*]

One compiled expression cuts a line into tokens; the first character says what a token is. Columns
are worked out only for an error. Nothing is evaluated. The result is verified.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from graphwright.errors import GraphSyntaxError, InvalidGraph
from graphwright.ir.attrs import Attrs
from graphwright.ir.bulk import collection_paused
from graphwright.ir.forms.text import TEXT_VERSION
from graphwright.ir.graph import Graph
from graphwright.ir.node import Node, Tensor
from graphwright.ir.spelling import BARE_NAME, MAX_ATTR_DEPTH, OP_NAME, Attr
from graphwright.ir.types import INPUT_ROLES, Phase, Role, TensorType
from graphwright.ir.verify import verify

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"""[%@](?:{_STRING}|{BARE_NAME.pattern})     # a tensor's name, a module's path
    | [a-z][a-z0-9_]*\[[0-9,\ ]*\]                 # a type
    | {_STRING}
    | -?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf\b|nan\b)
    | {OP_NAME.pattern}                            # an operator, a word, `_`
    | \#.*
    | \S                                           # punctuation, and whatever does not belong
    """,
    re.VERBOSE,
)
_WORDS: dict[str, Attr] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "-nan": float("nan"),
}
_ROLES = {role.value: role for role in Role}
_PHASES = {phase.value: phase for phase in Phase}
_NO_ATTRS = Attrs()
_END = ""
"""Stands after the last token of a line."""


def parse_text(text: str) -> Graph:
    """Read the text form; GraphSyntaxError says where it breaks, InvalidGraph which rule."""
    with collection_paused():
        graph = _Parser(text).parse()
    verify(graph)
    return graph


class _Parser:
    """Reads line after line: `tokens` are those of line `row`, `at` is the next one to read."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.row = -1
        self.tokens: list[str] = [_END]
        self.at = 0
        self.types: dict[str, TensorType] = {}
        self.attrs: dict[str, Attrs] = {}
        self.names: dict[str, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self.outputs: list[str] = []
        self.updates: dict[str, str] = {}

    def parse(self) -> Graph:
        self.next_line()
        self.expect("graph")
        version = self.tokens[self.at]
        if version != str(TEXT_VERSION):
            self.fail(f"text version {TEXT_VERSION}")
        self.at += 1
        self.end_of_line()
        role: Role | None = None
        phase: Phase | None = None
        while True:
            self.next_line()
            first = self.tokens[0]
            if first[0] != "%":
                if self.tokens[1] != ":" or self.tokens[2] != _END:
                    self.at = 1 if self.tokens[1] != ":" else 2
                    self.fail("a heading such as 'forward:', or a line that starts with a %name")
                if first == "outputs":
                    break
                if first in _PHASES:
                    role, phase = None, _PHASES[first]
                elif first in INPUT_ROLES and phase is None:
                    role = Role(first)
                else:
                    self.fail("the heading of a role (before all nodes), of a phase, or 'outputs:'")
            elif role is not None:
                self.input_line(role)
            elif phase is not None:
                self.node_line(phase)
            else:
                self.fail("a heading such as 'input:' before the first tensor")
        while True:
            self.next_line()
            if self.tokens[0] == "end":
                self.at = 1
                self.end_of_line()
                break
            self.output_line()
        if self.next_line(required=False):
            self.fail("nothing after 'end'")
        return Graph(
            tuple(self.nodes),
            self.tensors,
            tuple(self.inputs),
            tuple(self.outputs),
            self.updates,
        )

    # Lines

    def input_line(self, role: Role) -> None:
        name = self.name()
        self.expect(":")
        kind = self.type()
        of = self.optional_of()
        self.end_of_line()
        self.tensors[name] = Tensor(name, kind, role, of)
        self.inputs.append(name)

    def node_line(self, phase: Phase) -> None:
        outputs = [self.result()]
        while self.tokens[self.at] == ",":
            self.at += 1
            outputs.append(self.result())
        self.expect("=")
        op = self.tokens[self.at]
        if not OP_NAME.fullmatch(op):
            self.fail("an operator's name")
        self.at += 1
        self.expect("(")
        inputs = self.arguments()
        attrs = self.attributes()
        self.expect(")")
        module, places, links = self.provenance()
        self.nodes.append(
            Node(
                op,
                inputs,
                attrs,
                tuple(outputs),
                phase=phase,
                module=module,
                layer=places.get("layer"),
                step=places.get("step"),
                partner=links.get("partner"),
                parameter=links.get("parameter"),
            )
        )

    def output_line(self) -> None:
        name = self.name()
        self.outputs.append(name)
        if self.tokens[self.at] == "replaces":
            while True:
                self.at += 1
                old = self.name()
                if old in self.updates:
                    self.at -= 1
                    self.fail("each input to be replaced once")
                self.updates[old] = name
                if self.tokens[self.at] != ",":
                    break
        self.end_of_line()

    # Parts of a line

    def result(self) -> str:
        name = self.name()
        self.expect(":")
        kind = self.type()
        token = self.tokens[self.at]
        role = Role.ACTIVATION
        if token not in ("=", ",", "of"):
            if token not in _ROLES:
                self.fail("a role, 'of', ',' or '='")
            role = _ROLES[token]
            self.at += 1
        self.tensors[name] = Tensor(name, kind, role, self.optional_of())
        return name

    def arguments(self) -> tuple[str | None, ...]:
        arguments: list[str | None] = []
        if self.tokens[self.at] in (")", ";"):
            return ()
        while True:
            if self.tokens[self.at] == "_":
                arguments.append(None)
                self.at += 1
            else:
                arguments.append(self.name())
            if self.tokens[self.at] != ",":
                return tuple(arguments)
            self.at += 1

    def attributes(self) -> Attrs:
        """Read from the semicolon to the call's end; repeated spellings share one value."""
        start = self.at
        if self.tokens[start] != ";":
            return _NO_ATTRS
        # Provenance holds no bare parenthesis, so the line's last one closes the call.
        tokens = self.tokens
        end = len(tokens) - 1
        while end > start and tokens[end] != ")":
            end -= 1
        key = "\n".join(tokens[start:end])  # no token holds a newline, so keys are distinct
        known = self.attrs.get(key)
        if known is None:
            known = self.attrs[key] = self.new_attributes()
        self.at = end
        return known

    def new_attributes(self) -> Attrs:
        attrs: dict[str, Attr] = {}
        start = self.at
        while True:
            self.at += 1
            word = self.tokens[self.at]
            if word in attrs:
                self.fail("each attribute once")
            self.at += 1
            self.expect("=")
            attrs[word] = self.value(0)
            if self.tokens[self.at] != ",":
                break
        if self.tokens[self.at] != ")":
            self.fail("',' or ')'")
        try:
            return Attrs(attrs)
        except InvalidGraph as error:
            self.at = start
            self.fail(f"valid attributes ({error})")

    def value(self, depth: int) -> Attr:
        token = self.tokens[self.at]
        if token == "(":
            return self.tuple_value(depth)
        self.at += 1
        if token in _WORDS:
            return _WORDS[token]
        try:
            if token[:1] == '"':
                return str(json.loads(token))
            if token[:1].isdigit() or token[:1] == "-":
                return float(token) if "." in token or "e" in token or "E" in token else int(token)
        except ValueError:
            pass
        self.at -= 1
        return self.fail("a value: None, True, False, a number, a string or a tuple")

    def tuple_value(self, depth: int) -> Attr:
        if depth >= MAX_ATTR_DEPTH:
            self.fail(f"at most {MAX_ATTR_DEPTH} nested tuples")
        self.at += 1
        items: list[Attr] = []
        while self.tokens[self.at] != ")":
            items.append(self.value(depth + 1))
            if self.tokens[self.at] == ",":
                self.at += 1
            elif self.tokens[self.at] != ")":
                self.fail("',' or ')'")
        self.at += 1
        return tuple(items)

    def provenance(self) -> tuple[str, dict[str, int], dict[str, str]]:
        module = ""
        places: dict[str, int] = {}
        links: dict[str, str] = {}
        while (token := self.tokens[self.at]) != _END:
            if token in places or token in links or (token[0] == "@" and module):
                self.fail("each annotation once")
            if token[0] == "@":
                module = self.spelled(token)
                continue
            if token not in ("layer", "step", "partner", "parameter"):
                self.fail("@module, layer=, step=, partner=, parameter= or the end of the line")
            self.at += 1
            self.expect("=")
            if token in ("layer", "step"):
                try:
                    places[token] = int(self.tokens[self.at])
                except ValueError:
                    self.fail("a whole number")
                self.at += 1
            else:
                links[token] = self.name()
        return module, places, links

    def optional_of(self) -> str | None:
        if self.tokens[self.at] != "of":
            return None
        self.at += 1
        return self.name()

    def type(self) -> TensorType:
        token = self.tokens[self.at]
        known = self.types.get(token)
        if known is None:
            dtype, bracket, sizes = token.partition("[")
            if not bracket or token == "[":
                self.fail("a type such as float32[8, 5]")
            try:
                shape = tuple([int(size) for size in sizes[:-1].split(",")]) if sizes != "]" else ()
                known = self.types[token] = TensorType(shape, dtype)
            except (ValueError, InvalidGraph) as error:
                self.fail(f"a type such as float32[8, 5] ({error})")
        self.at += 1
        return known

    def name(self) -> str:
        token = self.tokens[self.at]
        if token[:1] != "%" or len(token) == 1:
            self.fail("a tensor's name such as %x")
        return self.spelled(token)

    def spelled(self, token: str) -> str:
        """Return what a %name or @path says, and go past it; equal names become one object."""
        known = self.names.get(token)
        if known is None:
            known = self.names[token] = self.new_name(token)
        self.at += 1
        return known

    def new_name(self, token: str) -> str:
        if len(token) == 1:
            self.fail("a name directly after the sign")
        path = token[1:]
        if path[0] == '"':
            try:
                path = str(json.loads(path))
            except ValueError:
                self.fail("a name spelled as a JSON string")
            if not path:
                self.fail("a name that is not empty")
        return path

    # Tokens

    def expect(self, token: str) -> None:
        if self.tokens[self.at] != token:
            self.fail(f"'{token}'")
        self.at += 1

    def end_of_line(self) -> None:
        if self.tokens[self.at] != _END:
            self.fail("the end of the line")

    def next_line(self, *, required: bool = True) -> bool:
        """Go to the next line that says something; at the end of the text, fail or return False."""
        while self.row + 1 < len(self.lines):
            self.row += 1
            line = self.lines[self.row]
            tokens: list[str] = _TOKEN.findall(line)
            if "#" in line:
                tokens = [token for token in tokens if token[0] != "#"]
            if tokens:
                # Three, because a heading is recognised by looking two tokens ahead.
                self.tokens = [*tokens, _END, _END, _END]
                self.at = 0
                return True
        if required:
            self.tokens, self.at = [_END], 0
            self.fail("more lines; the text is cut off before 'end'")
        return False

    def fail(self, expected: str) -> NoReturn:
        """Raise GraphSyntaxError at the current token."""
        line = self.lines[self.row] if self.row >= 0 else ""
        starts = [m.start() for m in _TOKEN.finditer(line) if m[0][0] != "#"]
        column = starts[self.at] if self.at < len(starts) else len(line.rstrip())
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        instead = f"found '{token[:60]}'" if token != _END else "the line ends"
        window = max(0, column - 60)
        shown = line[window : column + 40].replace("\t", " ")
        raise GraphSyntaxError(
            f"line {self.row + 1}, column {column + 1}: expected {expected}; {instead}\n"
            f"    {shown}\n    {' ' * (column - window)}^",
            line=self.row + 1,
            column=column + 1,
        )
