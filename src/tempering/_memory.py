"""How much memory there is, and what does not fit in it."""

import os
from collections.abc import Callable
from pathlib import Path

from tempering._errors import InputError

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNKNOWN = 2**40  # where the system does not tell: more than nearly any machine has


def machine_bytes() -> int:
    """The memory of this machine, or of the container in which this runs, in bytes."""
    try:
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        limits = [_UNKNOWN]
    for file in map(Path, _CONTAINER_LIMITS):
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
    return min(limits)


def check_memory(name: str, value: int, bytes_of: Callable[[int], float | int]) -> None:
    """Refuse a number for which there is not enough memory, before anything is allocated.

    Args:
        name: The argument, for the message.
        value: The number that was asked for.
        bytes_of: The least memory that a number takes; it rises with the number.
    """
    limit = machine_bytes()
    if bytes_of(value) <= limit:
        return
    fits = _largest(lambda number: bytes_of(number) <= limit / 2, value)
    cure = f"`{name}={fits}` fits" if fits else "no number fits: make the model smaller"
    needed = f"`{name}={value}` needs at least {in_bytes(bytes_of(value))} of memory"
    raise InputError(f"{needed}, and there are {in_bytes(limit)}: {cure}.")


def in_bytes(num_bytes: float | int) -> str:
    """12345 as 12.3 kB."""
    size, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"


def _largest(fits: Callable[[int], bool], above: int) -> int:
    """The largest number below `above` that fits, rounded down to its first digit; 0 where none does."""
    low, high = 0, above
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    unit = 10 ** (len(str(low)) - 1)
    return low // unit * unit
