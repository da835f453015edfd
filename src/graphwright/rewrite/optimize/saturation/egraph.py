"""Classes of equal terms, over the terms of a pool (an e-graph).

A term of the pool stands for a node of the e-graph: its operator and parameters, applied to the
classes of its arguments. Two terms whose arguments are equal are one node, and their classes are
one (congruence); `rebuild` restores this after unions.

Which part of a tensor a split gives is written in no parameter: it follows from the term that the
split was made of, whose shape tells what was joined last. Equal tensors may have been joined at
different places. So a split's node goes by the size of its result as well, which says where it is,
and patterns are bound to terms, not to classes: those have the shapes that splits go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwright.rewrite.optimize.pool import SPLITS, Pool


class EGraph:
    """Which terms of a pool are known to be equal; a class goes by the number of one of them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._parent: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._users: dict[int, list[int]] = {}
        self._nodes: dict[object, int] = {}
        self._stale: list[int] = []
        self.changed: dict[int, None] = {}
        """Classes with new members since `changed` was last emptied, in order."""

    def __len__(self) -> int:
        """The number of nodes."""
        return sum(len(members) for members in self._members.values())

    @property
    def classes(self) -> Sequence[int]:
        """The classes by their smallest numbers."""
        return list(self._members)

    def find(self, number: int) -> int:
        """The class of a term that has been added."""
        parent = self._parent
        root = number
        while parent[root] != root:
            root = parent[root]
        while parent[number] != root:
            parent[number], number = root, parent[number]
        return root

    def nodes(self, number: int) -> Sequence[int]:
        """The nodes of a term's class."""
        return self._members[self.find(number)] if number in self._parent else (number,)

    def is_instance(self, source: Sequence[int | None], places: Sequence[int]) -> bool:
        """Whether terms are nodes of the classes at which they were found."""
        return all(
            made is not None and self.knows(made) == self.find(place)
            for made, place in zip(source, places, strict=True)
        )

    def users(self, number: int) -> Sequence[int]:
        """The nodes that read a class."""
        return self._users.get(self.find(number), ())

    def is_fixed(self, number: int) -> bool:
        """Whether a value depends on weights alone."""
        return self.pool.fixed[self.find(number)]

    def _key(self, number: int) -> object:
        entry = self.pool.entries[number]
        args = tuple(map(self.find, entry.args))
        if entry.op in SPLITS:
            return entry.op, entry.params, args, self.pool.sizes[number]
        if entry.op == "concat":  # which is associative
            return entry.op, entry.params, tuple(map(self.find, self.flat(number)))
        if entry.op in ("ewadd", "ewmul"):
            args = (min(args), max(args))
        return entry.op, entry.params, args

    def flat(self, number: int) -> tuple[int, ...]:
        """What a concatenation joins, with what its own concatenations join."""
        entry = self.pool.entries[number]
        parts: list[int] = []
        for arg in entry.args:
            inner = self.pool.entries[arg]
            same = (inner.op, inner.params) == (entry.op, entry.params)
            parts += self.flat(arg) if same else (arg,)
        return tuple(parts)

    def add(self, number: int) -> int:
        """Add a term with all that it is made from; returns its class."""
        pool = self.pool
        if number not in self._parent:
            missing = sorted(n for n in pool.below(number) if n not in self._parent)
            for each in missing:
                self._insert(each)
        return self.find(number)

    def _insert(self, number: int) -> None:
        self._parent[number] = number
        key = self._key(number)
        known = self._nodes.get(key)
        if known is not None:
            self._parent[number] = self.find(known)
            return
        self._nodes[key] = number
        self._members[number] = [number]
        self.changed[number] = None
        if not self.pool.fixed[number]:
            for arg in dict.fromkeys(map(self.find, self.pool.entries[number].args)):
                self._users.setdefault(arg, []).append(number)

    def knows(self, number: int) -> int | None:
        """The class of a term that is a node, though it may be spelled otherwise; else None."""
        if number in self._parent:
            return self.find(number)
        for each in sorted(n for n in self.pool.below(number) if n not in self._parent):
            entry = self.pool.entries[each]
            if not all(arg in self._parent for arg in entry.args):
                return None
            known = self._nodes.get(self._key(each))
            if known is None:
                return None
            self._parent[each] = self.find(known)
        return self.find(number)

    def holds(self, number: int) -> bool:
        """Whether a term has been added."""
        return number in self._parent

    def same(self, a: int, b: int) -> bool:
        """Whether two terms are known to be equal."""
        return a == b or (self.holds(a) and self.holds(b) and self.find(a) == self.find(b))

    def is_new(self, number: int) -> bool:
        """Whether a term is the first of its node."""
        return number in self._members or number in self._members[self.find(number)]

    def union(self, a: int, b: int) -> bool:
        """Let two classes be one; tells whether they were two."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        first, second = min(a, b), max(a, b)
        if self.pool.fixed[second] and not self.pool.fixed[first]:
            first, second = second, first
        self._parent[second] = first
        self._members[first] += self._members.pop(second)
        self._users.setdefault(first, []).extend(self._users.pop(second, ()))
        self.changed.pop(second, None)
        self.changed[first] = None
        self._stale.append(first)
        return True

    def rebuild(self) -> None:
        """Unite the classes of nodes whose arguments have become equal."""
        while self._stale:
            stale = dict.fromkeys(map(self.find, self._stale))
            self._stale.clear()
            for number in stale:
                self._reread(number)

    def _reread(self, number: int) -> None:
        kept: dict[object, int] = {}
        for user in list(self._users.get(self.find(number), ())):
            key = self._key(user)
            known = self._nodes.setdefault(key, user)
            if known != user:
                self.union(known, user)
                self._drop(user, known)
            kept.setdefault(key, known)
        self._users[self.find(number)] = list(dict.fromkeys(kept.values()))

    def _drop(self, node: int, known: int) -> None:
        """A node that is another one now stands no longer in its class."""
        members = self._members[self.find(node)]
        if node in members and known in members:
            members.remove(node)

    def below(self, roots: Iterable[int]) -> list[int]:
        """The classes that any node of the roots' classes reads, arguments not always first."""
        seen: dict[int, None] = {}
        waiting = [self.find(root) for root in roots]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen[number] = None
            if not self.is_fixed(number):
                for node in self._members[number]:
                    waiting += map(self.find, self.pool.entries[node].args)
        return list(seen)
