"""Memory problems for tests: the toy of SwapAdvisor's Figure 4.1, and random ones."""

from __future__ import annotations

from graphwright.memory import Pool
from graphwright.plans import MemoryProblem, Operator, Storage

SIZES = {"A0": 1, "A1": 1, "A2": 2, "A3": 1, "A4": 1, "A5": 2, "W1": 1, "W2": 1, "W3": 1, "W4": 1}
CALLS = {
    "Data": ((), "A0"),
    "Conv1": (("A0", "W1"), "A1"),
    "Conv2": (("A0", "W2"), "A2"),
    "Conv3": (("A2", "W3"), "A3"),
    "Conv4": (("A3", "W4"), "A4"),
    "Concat": (("A1", "A4"), "A5"),
}
LEFT_FIRST = ("Data", "Conv1", "Conv2", "Conv3", "Conv4", "Concat")
RIGHT_FIRST = ("Data", "Conv2", "Conv3", "Conv4", "Conv1", "Concat")
COARSE = Pool(sizes=(1, 2), classes=(0, 0), counts=(5,))
FINE = Pool(sizes=(1, 2), classes=(0, 1), counts=(8, 1))
PUBLISHED = {
    ("left", "coarse"): 6,
    ("right", "coarse"): 7,
    ("right", "fine"): 6,
    ("left", "fine"): 7,
}


def figure_41() -> MemoryProblem:
    """Sizes in MB, times in units; weights begin on the host, activations have to be kept."""
    names = list(SIZES)
    storages = tuple(
        Storage(
            name=name,
            nbytes=size,
            out_time=size,
            in_time=size,
            begins_on_host=name[0] == "W",
            ends="free" if name[0] == "W" else "kept",
        )
        for name, size in SIZES.items()
    )
    operators = tuple(
        Operator(
            name=name,
            reads=tuple(names.index(r) for r in reads),
            makes=(names.index(made),),
            duration=1,
        )
        for name, (reads, made) in CALLS.items()
    )
    return MemoryProblem(operators=operators, storages=storages)


def random_problem(draw, max_operators: int = 12) -> MemoryProblem:
    """A random step: operators over parameters (some updated in place) and what others made; Hypothesis draws it."""
    from hypothesis import strategies as st

    numbers = st.integers(1, 6)
    num_parameters = draw(st.integers(0, 4))
    storages = [
        Storage(
            name=f"w{n}",
            nbytes=draw(numbers),
            out_time=draw(numbers),
            in_time=draw(numbers),
            begins_on_host=True,
            ends=draw(st.sampled_from(("home", "free"))),
        )
        for n in range(num_parameters)
    ]
    operators: list[Operator] = []
    readers: dict[int, list[int]] = {}
    written: set[int] = set()
    before: list[tuple[int, int]] = []
    for i in range(draw(st.integers(1, max_operators))):
        usable = [s for s in range(len(storages)) if s not in written]
        reads = (
            tuple(draw(st.lists(st.sampled_from(usable), max_size=3, unique=True)))
            if usable
            else ()
        )
        writes: tuple[int, ...] = ()
        homes = [s for s in reads if storages[s].begins_on_host and storages[s].ends == "home"]
        if homes and draw(st.booleans()):
            writes = (homes[0],)
            written.add(homes[0])
            before += [(r, i) for r in readers.get(homes[0], []) if r != i]
        makes = []
        for n in range(draw(st.integers(0 if writes else 1, 2))):
            makes.append(len(storages))
            storages.append(
                Storage(
                    name=f"t{i}_{n}",
                    nbytes=draw(numbers),
                    out_time=draw(numbers),
                    in_time=draw(numbers),
                    ends=draw(st.sampled_from(("free", "free", "kept"))),
                )
            )
        alike = [
            s for s in reads
            if makes and s not in writes and storages[s].nbytes == storages[makes[0]].nbytes
        ]  # fmt: skip
        over = alike[0] if alike and draw(st.booleans()) else None
        operators.append(
            Operator(name=f"op{i}", reads=reads, makes=tuple(makes), writes=writes, over=over,
                     duration=draw(st.integers(0, 5)))
        )  # fmt: skip
        for s in reads:
            readers.setdefault(s, []).append(i)
    return MemoryProblem(operators=tuple(operators), storages=tuple(storages), before=tuple(before))
