"""One substitution in a terminal: both graphs as trees, its guard and its proof.

A term that is used twice is drawn once; later uses refer to it by its letter.
"""

from __future__ import annotations

from string import ascii_uppercase

from rich.columns import Columns
from rich.console import Console
from rich.tree import Tree

from graphwright.rewrite import substitutions


def show_rule(rule: substitutions.Rule, console: Console) -> None:
    """Draw source and target side by side."""
    item = rule.substitution
    console.print(f"[bold]rule {rule.number}[/]")
    console.print(
        Columns([_graph("source", item.source), _graph("target", item.target)], padding=(0, 6))
    )
    if item.guards:
        console.print(f"where   {', '.join(map(str, item.guards))}", highlight=False)
    way = "both ways" if item.is_reversible else "from source to target"
    console.print(f"applies {way}", highlight=False)
    seconds = "" if rule.seconds is None else f" in {rule.seconds:.3f} s"
    console.print(f"proved  by Z3{seconds}, {rule.effort:,} steps, from", highlight=False)
    for axiom in rule.axioms:
        console.print(f"        {axiom}", highlight=False)


def _graph(title: str, outputs: tuple[substitutions.Expression, ...]) -> Tree:
    uses: dict[substitutions.Expression, int] = {}
    for term in substitutions.subterms(*outputs):
        for arg in term.args if isinstance(term, substitutions.Term) else ():
            uses[arg] = uses.get(arg, 0) + 1
    shared = [
        e for e, count in uses.items() if count > 1 and isinstance(e, substitutions.Term) and e.args
    ]
    letters = dict(zip(shared, ascii_uppercase, strict=False))
    drawn: set[substitutions.Expression] = set()

    def add(tree: Tree, e: substitutions.Expression) -> None:
        if isinstance(e, substitutions.Input):
            tree.add(e.name)
            return
        letter = f" [{letters[e]}]" if e in letters else ""
        if e in drawn and letter:
            tree.add(f"{letter.strip()} again", highlight=False)
            return
        drawn.add(e)
        branch = tree.add(f"{e.label}{letter}".replace("[", "\\["), highlight=False)
        for arg in e.args:
            add(branch, arg)

    tree = Tree(f"[bold]{title}[/]")
    for output in outputs:
        add(tree, output)
    return tree
