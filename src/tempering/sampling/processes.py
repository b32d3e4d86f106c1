"""Several processes that make one run.

Every process walks a share of the chains; what they give is gathered to all, so that every process goes on from the
same numbers and comes to the same decisions. Only the first process touches the disk. Nothing here does anything where
there is one process. A program that wants more has called `jax.distributed.initialize`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from tempering._errors import InputError

T = TypeVar("T")

_DONE, _REFUSED = b"+", b"-"  # the first byte of what the first process tells the others


def is_first_process() -> bool:
    """Whether this is the process that writes files and talks."""
    return jax.process_index() == 0


def gathered(tree: T) -> T:
    """Arrays of all processes, joined along their first axis in the order of processes.

    Every process must call it, with arrays of the same shapes. All arrays cross as one, so that a block costs one
    message.

    Args:
        tree: This process's arrays.

    Returns:
        NumPy arrays, the same in every process; the tree itself where there is one process.
    """
    if jax.process_count() == 1:
        return tree
    leaves, form = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    rows = _all_rows(np.concatenate([np.frombuffer(leaf.tobytes(), np.uint8) for leaf in leaves]))
    ends = np.cumsum([leaf.nbytes for leaf in leaves])
    joined = [
        np.concatenate([row[end - leaf.nbytes : end].view(leaf.dtype).reshape(leaf.shape) for row in rows])
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(form, joined)


def anywhere(*flags: bool) -> tuple[bool, ...]:
    """Each flag: whether it holds in any process. What depends on clocks and signals must be agreed on.

    Args:
        flags: What holds in this process.

    Returns:
        The same flags in every process.
    """
    if jax.process_count() == 1:
        return flags
    return tuple(bool(column.any()) for column in _all_rows(np.array(flags, np.uint8)).T)


def by_first_process(make: Callable[[], bytes | None]) -> bytes:
    """Do something in the first process only, and tell the others what came of it.

    Args:
        make: What it does. An `InputError` there is raised in every process.

    Returns:
        What `make` returned there; nothing at all where it returned None.
    """
    if jax.process_count() == 1:
        return make() or b""
    told = b""
    if is_first_process():
        try:
            told = _DONE + (make() or b"")
        except InputError as error:
            told = _REFUSED + str(error).encode()
    told = _broadcast(told)
    if told.startswith(_REFUSED):
        raise InputError(told[1:].decode())
    return told[1:]


def _all_rows(row: np.ndarray) -> np.ndarray:
    """The bytes of all processes, one row each."""
    from jax.experimental import multihost_utils  # slow to import, and needed by few

    return np.asarray(multihost_utils.process_allgather(row))


def _broadcast(data: bytes) -> bytes:
    from jax.experimental import multihost_utils

    def sent(array: np.ndarray) -> Any:
        return np.asarray(multihost_utils.broadcast_one_to_all(array))

    size = int(sent(np.array([len(data)], np.int64).view(np.uint8)).view(np.int64)[0])
    row = np.frombuffer(data, np.uint8) if is_first_process() else np.zeros(size, np.uint8)
    return sent(row).tobytes()
