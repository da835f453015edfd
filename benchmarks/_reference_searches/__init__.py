"""Exact searches for small problems: tests and a benchmark hold the planner's searches against them.

    milp           the additive problem by mixed-integer programming
    exhaustive     the fastest plan of a finite space of plans, proved (Jia's thesis, section 3.7.5)
    finite_space   that space: heavy groups choose, everything else follows
    seeded         what a known plan is in the additive problem
    lower_bounds   how long a step takes at least, where some groups have not been decided

No plan of `gw.plan` comes from here, so they stand outside of the package.
"""
