"""The wire format of protocol buffers, as far as ONNX files use it.

A message is a sequence of fields, each a key (number << 3 | kind) and a value:

    0  varint       seven bits a byte, the lowest first
    1  eight bytes  a double
    2  length       a varint, and so many bytes: text, a message, or packed numbers
    5  four bytes   a float
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | memoryview


class DamagedMessage(ValueError):
    """Bytes that are no message; the text says where they go wrong."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """The fields of a message: number, kind and value, which is a number or bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DamagedMessage(f"a field of number 0 at byte {at}")
        match kind:
            case 0:
                value, at = _varint(data, at)
                yield number, kind, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(data, at)
            case 5:
                size = 4
            case _:
                raise DamagedMessage(f"a field of unknown kind {kind} at byte {at}")
        if at + size > end:
            raise DamagedMessage(
                f"a field of {size:,} bytes at byte {at:,}, but only {end - at:,} follow"
            )
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
        shift += 7
    raise DamagedMessage(f"a number that does not end at byte {at:,}")


def signed(value: int) -> int:
    """An int64 of its 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def numbers(kind: int, value: Value, form: str) -> list[int | float]:
    """One field of a repeated number: packed or a single one; `form` is q, Q, f or d."""
    if isinstance(value, int):
        return [signed(value) if form == "q" else value]
    if form in "fd":
        size = struct.calcsize(form)
        if len(value) % size:
            raise DamagedMessage(f"{len(value)} bytes of numbers of {size} bytes")
        return list(struct.unpack(f"<{len(value) // size}{form}", value))
    if kind != 2:
        raise DamagedMessage(f"a whole number of kind {kind}")
    made: list[int | float] = []
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        made.append(signed(number) if form == "q" else number)
    return made


def encoded(number: int, value: int | str | bytes) -> bytes:
    """A field as bytes: a whole number, or text, or a message."""
    if isinstance(value, int):
        return _encoded_varint(number << 3) + _encoded_varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return _encoded_varint(number << 3 | 2) + _encoded_varint(len(data)) + data


def _encoded_varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
