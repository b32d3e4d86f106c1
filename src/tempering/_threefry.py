"""Random numbers as a function of a key and two counters: the Threefry hash that JAX uses, as plain arithmetic.

`jax.random` derives a key for every use before it draws, which on a GPU is a small program each time. Here one key
serves several uses, told apart by a number, the stream. All of it is arithmetic on unsigned integers, so that it can be
part of any program, also of a Pallas kernel.

On a CPU JAX makes a loop of every hash. In a step of a chain, which draws ten times or so, these loops take longer to
compile and to run than the rest. `straight_key` gives the same random numbers without them.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Float, UInt32

from tempering._types import Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_HALF = 2.0**-25


def key_words(key: Key) -> UInt32[Array, "2"]:
    """The two numbers that a key consists of; of a key with four, two that depend on all."""
    words = jax.random.key_data(key)
    return words if len(words) == 2 else words[:2] ^ words[2:]


def uniform_at(words: Any, stream: int, index: UInt32[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Uniform numbers between 0 and 1, with 24 bits, never 0 or 1.

    Args:
        words: of a key, see `key_words`: two numbers, or two arrays that broadcast with `index`.
        stream: which of the uses of the key this is.
        index: which number of the stream.
    """
    first, second = threefry(words[0], words[1], jnp.full_like(index, stream), index)
    whole = ((first ^ second) >> 8).astype(jnp.int32).astype(jnp.float32)
    return whole * (2 * _HALF) + _HALF


def threefry(key_0: Array, key_1: Array, count_0: Array, count_1: Array) -> tuple[Array, Array]:
    """Two random words of 32 bits for each pair of counters: Threefry-2x32 with 20 rounds (Salmon et al. 2011)."""
    keys = (key_0, key_1, key_0 ^ key_1 ^ jnp.uint32(_PARITY))
    first, second = count_0 + keys[0], count_1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << jnp.uint32(rotation)) | (second >> jnp.uint32(32 - rotation))
            second = first ^ second
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


def straight_key(key: Key) -> Key:
    """The same key, whose draws on a CPU are compiled without loops. It gives the same random numbers.

    Args:
        key: One of JAX's default kind; any other is returned as it is.
    """
    if jax.default_backend() != "cpu" or jax.random.key_impl(key) != _PLAIN:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_STRAIGHT)


def plain_key(key: Key) -> Key:
    """The same key as JAX makes it, for code of others: some of JAX's samplers take no other kind."""
    if jax.random.key_impl(key) != _STRAIGHT:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_PLAIN)


_hashed = jax.jit(threefry)  # traced once for all draws of a shape


def _words(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Two words for each element of an array, whose counter is its place."""
    low = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _hashed(key[0], key[1], jnp.zeros_like(low), low)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_words(key, shape), axis=-1)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    high, low = _words(key, shape)
    if bit_width == 64:  # where JAX computes in double precision
        return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{bit_width}")


def _fold_in(key: Array, data: Any) -> Array:
    return jnp.stack(_hashed(key[0], key[1], jnp.zeros_like(data), data))


def _seeded(seed: Array) -> Array:
    raise NotImplementedError("Keys are made by `jax.random.key`, then `straight_key`.")


_PLAIN = "threefry2x32"
_STRAIGHT = define_prng_impl(
    key_shape=(2,), seed=_seeded, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="straight_threefry"
)
