"""DGL's built-in functions: names of messages and reductions that run as one fused kernel.

    copy_u, copy_v, copy_e                        the feature itself
    u_add_v, u_mul_e, v_sub_e, e_dot_u, ...       add, sub, mul, div, dot; any two of u, v, e
    sum, mean, max, min, prod                     reductions

A message function takes field names of its operands and a name for the result; a reduction takes
the name of the message and that of the new node feature.
"""

from graphwright.gnn.function.builtin import (
    BinaryMessageFunction,
    BuiltinFunction,
    CopyMessageFunction,
    MessageFunction,
    ReduceFunction,
    TargetCode,
    binary_names,
    copy_e,
    copy_edge,
    copy_src,
    copy_u,
    copy_v,
    make_binary,
    max,
    mean,
    min,
    prod,
    sum,
)

for _name in binary_names():
    globals()[_name] = make_binary(_name)
del _name


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"no built-in function {name!r}; there are copy_u, copy_v, copy_e, "
        f"{', '.join(binary_names()[:4])}, ..., sum, mean, max, min, prod"
    )
