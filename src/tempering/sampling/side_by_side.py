"""Parts of the chains walked side by side by the cores of a CPU.

A program is compiled for one device, and on a CPU its operations are too small to be shared by the cores: two programs
at once take half the time. Their chains are the same, bit for bit. Two programs that call LAPACK at the same time can
stop for ever in JAX 0.10, so those run one after the other.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import equinox as eqx
import jax

from tempering.ladder import AbstractPath

T = TypeVar("T")

# Primitives that leave XLA on a CPU: for LAPACK, for other libraries, or for Python.
_CALLS_OUT = frozenset({
    "cholesky", "cholesky_update", "triangular_solve", "tridiagonal_solve", "lu", "lu_pivots_to_permutation", "geqrf",
    "geqp3", "qr", "householder_product", "eig", "eigh", "svd", "schur", "sylvester", "hessenberg", "tridiagonal",
    "symmetric_product", "ffi_call", "pure_callback", "io_callback", "debug_callback",
})  # fmt: skip


class SideBySide:
    """Threads that share work in parts, or none of them where one thread must do it all.

    ```python
    with SideBySide(2, compile_first) as threads:
        threads.run(lambda part: ...)
    ```
    """

    def __init__(self, number: int, compile_first: Callable[[], Any]):
        """`compile_first` is called before the threads begin: else every one of them would compile."""
        self.number, self._compile_first = number, compile_first
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> "SideBySide":
        if self.number > 1:
            pool = ThreadPoolExecutor(self.number)
            # JAX's settings within a `with` block hold for one thread only.
            if pool.submit(_precision).result() == _precision():
                self._pool = pool
                self._compile_first()
            else:
                pool.shutdown()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """What `work` gives for every part, in their order."""
        if self._pool is None:
            return [work(part) for part in range(self.number)]
        return list(self._pool.map(lambda part: jax.block_until_ready(work(part)), range(self.number)))


def one_ahead(work: Iterator[T]) -> Iterator[T]:
    """The same items, each made by another thread while the one before is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, work, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, work, None)
            yield item


def num_side_by_side(path: AbstractPath) -> int:
    """How many programs may run at once for chains on this path: as many as there are cores, or one."""
    cores = num_cores()
    return 1 if cores == 1 or calls_out(path) else cores


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def calls_out(path: AbstractPath) -> bool:
    """Whether the densities of a path leave XLA on a CPU, as a Cholesky factor does."""
    arrays, static = eqx.partition(path, eqx.is_array)
    leaves, form = jax.tree.flatten(static)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arrays))
    try:
        return _calls_out(form, tuple(leaves), shapes, _Unhashed(path))
    except TypeError:  # a part of the path cannot be hashed
        return _traced_calls_out(path)


class _Unhashed:
    """A path that does not count in the cache's key: the key tells paths apart as far as programs do."""

    def __init__(self, path: AbstractPath):
        self.path = path

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashed)


@lru_cache(maxsize=256)
def _calls_out(form: Any, leaves: tuple[Any, ...], shapes: tuple[Any, ...], held: _Unhashed) -> bool:
    return _traced_calls_out(held.path)


def _traced_calls_out(path: AbstractPath) -> bool:
    def evaluated(key):
        x = path.sample_base(key)
        return x, path.log_density(x, jax.numpy.int32(1))

    return _has_call_out(jax.make_jaxpr(evaluated)(jax.random.key(0)).jaxpr)


def _has_call_out(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        if equation.primitive.name in _CALLS_OUT:
            return True
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns"))
        programs = [getattr(part, "jaxpr", part) for part in inner]
        if any(_has_call_out(program) for program in programs if hasattr(program, "eqns")):
            return True
    return False


def _precision() -> bool:
    return bool(jax.config.read("jax_enable_x64"))
