"""Whether a run fits in memory and in its counters, checked before anything large is made."""

import dataclasses
from typing import Any

import jax

from tempering._errors import InputError
from tempering._memory import check_memory
from tempering.ladder import Ladder
from tempering.stats import MOST_ALONE, Keep, TemperingRecord

MOST_SWEEPS = 2**31 - 1  # steps are counted in int32, and their number is part of the random key
_BYTES_PER_TRANSITION = 10 * 8  # ten groups of chains, and counts in int64
_BLOCKS = 32  # whose statistics the host keeps apart, in float64


def check_sweeps(name: str, value: int | None) -> None:
    """Refuse more sweeps than can be counted.

    Args:
        name: The argument, for the message.
        value: The number that was asked for.
    """
    if value is not None and value > MOST_SWEEPS:
        most = f"`{name}` must be at most {MOST_SWEEPS}, the most steps that are counted"
        raise InputError(f"{most}; got {value}: give `{name}=1000000` or fewer.")


def check_rungs(num_rungs: int) -> None:
    """Refuse more rungs than memory has room for: moves between them are counted in a table of K × K.

    Args:
        num_rungs: K.
    """
    check_memory("num_rungs", num_rungs, lambda number: _BYTES_PER_TRANSITION * number**2)


def check_chains(ladder: Ladder, keep: Keep, num_chains: int) -> None:
    """Refuse more chains than memory has room for.

    Args:
        ladder: The ladder of the run.
        keep: What is kept of the draws.
        num_chains: How many chains are wanted.
    """
    state = _num_bytes(jax.eval_shape(ladder.path.sample_base, jax.random.key(0)))
    num_rungs = ladder.path.num_rungs
    record = _num_bytes(TemperingRecord.empty(ladder, keep=dataclasses.replace(keep, transitions=False)))
    record += 4 * num_rungs**2 if keep.transitions else 0
    on_host = 2 * 8 * _BLOCKS * num_rungs  # log sums and visits
    check_memory("num_chains", num_chains, lambda number: number * (state + record) + min(number, MOST_ALONE) * on_host)


def _num_bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
