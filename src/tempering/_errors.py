"""The error for input that cannot be used, and the checks that most doors make."""

from typing import Any


class InputError(ValueError):
    """A value, file or directory that cannot be used as asked. The message is one line with the cause and the cure."""


class RecoveryWarning(UserWarning):
    """Something on disk was damaged, and a run goes on without it. The message says what and from where."""


def check_count(name: str, value: Any, least: int, note: str = "") -> None:
    """Refuse what is not a whole number, or less than the least."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number, {least} or more{note}; got {value!r}.")


def check_seed(seed: Any) -> None:
    """Refuse what is no seed of JAX's random numbers."""
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"`seed` must be a whole number from 0 to 2³² − 1; got {seed!r}.")
