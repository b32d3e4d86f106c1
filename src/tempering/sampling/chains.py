"""The loop over Markov steps: chains in parallel, in blocks of steps, on any number of devices."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from tempering._errors import InputError
from tempering._types import Key
from tempering.kernels import AbstractKernel
from tempering.ladder import Ladder
from tempering.sampling.side_by_side import SideBySide, num_side_by_side, one_ahead
from tempering.stats import MAX_BLOCK_STEPS, MAX_TEAMS, MOST_ALONE, Teams, chain_groups

_LANES = {"cpu": 50}  # chains that go through the model together; never changes, see `run_chains`
_LANES_ELSEWHERE = 1024
_FEWEST_LANES, _MOST_LANES = 128, 2**17  # where the bits of a chain are the same in any batch

WalkChain = Callable[..., tuple[Any, Any]]  # as `walk_chain`


class Block(NamedTuple):
    """What a stretch of steps gave.

    Attributes:
        num_steps: Steps done since step 0, this block included.
        states: The chains' new states; leading axis: chain.
        record: What was kept of their draws; leading axis: chain.
    """

    num_steps: int
    states: Any
    record: Any


def run_chains(
    key: Key,
    ladder: Ladder,
    kernel: AbstractKernel,
    record: Any,
    states: Any,
    *,
    num_steps: int,
    first_step: int = 0,
    block_steps: int = 100,
    devices: Sequence[Any] | None = None,
    joins_chains: bool = False,
) -> Iterator[Block]:
    """Walk all chains from `first_step` to `num_steps` and yield after every `block_steps` steps.

    ```python
    for block in run_chains(key, ladder, kernel, TemperingStats.empty(ladder), states, num_steps=1000):
        block.record.on_host()  # that stretch's statistics
    ```

    Step i of chain c uses the key fold_in(fold_in(key, c), i), and chains pass through the model in groups of a fixed
    size, since matrix products round differently for other shapes. So the bits of a chain depend neither on the other
    chains, nor on where the run is cut, nor on the number of devices.

    Args:
        key: The random key of the run.
        ladder: The law that is sampled.
        kernel: One step of one chain.
        record: An empty statistic for one chain, with `update(ladder, draw)` and `on_host()`.
        states: Where the chains start; leading axis: chain.
        num_steps: The step at which the run ends, counted from 0.
        first_step: The step from which it goes on.
        block_steps: Steps that are folded into one record, at most `MAX_BLOCK_STEPS`.
        devices: The devices to use; all by default.
        joins_chains: Whether the records of very many chains are joined by teams on the device, see `Teams`.

    Returns:
        An iterator over the blocks, in the order of time.
    """
    if not 1 <= block_steps <= MAX_BLOCK_STEPS:
        raise InputError(f"`block_steps` must lie between 1 and {MAX_BLOCK_STEPS}, got {block_steps}.")
    devices = jax.devices() if devices is None else list(devices)
    num_chains, platform = jax.tree.leaves(states)[0].shape[0], devices[0].platform
    lanes = _num_lanes(platform, ladder, num_chains)
    num_groups = -(-num_chains // lanes)
    mesh = _mesh(devices, num_groups)
    is_one_cpu = mesh.size == 1 and platform == "cpu"
    num_parts = min(num_groups, num_side_by_side(ladder.path)) if is_one_cpu and num_groups > 1 else 1
    spread = NamedSharding(mesh, PartitionSpec("device"))

    def parts_of(grouped: Any) -> list[Any]:
        return [jax.device_put(part, spread) for part in _split(grouped, num_parts)]

    numbers = _chain_numbers(num_chains, lanes, mesh.size * num_parts)
    chains, parts = parts_of(numbers), parts_of(_grouped(states, numbers))
    size = _team_size(num_chains, lanes) if joins_chains else 1

    def walk(bounds: Int[Array, "2"], part: int) -> tuple[Any, Any]:
        states, filled = _walk(mesh, key, ladder, kernel, record, chains[part], parts[part], bounds)
        return states, filled if size == 1 else _gathered(filled, chains[part], jnp.int32(num_chains), size)

    def walked(threads: SideBySide) -> Iterator[tuple[int, list[Any]]]:
        nonlocal parts
        for start in range(first_step, num_steps, block_steps):
            stop = min(start + block_steps, num_steps)
            found = threads.run(partial(walk, jnp.asarray([start, stop], jnp.int32)))
            parts = [states for states, _ in found]
            yield stop, found

    with SideBySide(num_parts, lambda: walk(jnp.zeros(2, jnp.int32), 0)) as threads:
        blocks = walked(threads)
        for stop, found in blocks if platform == "cpu" else one_ahead(blocks):
            states, filled = [states for states, _ in found], [record for _, record in found]
            yield Block(stop, _flat_states(states, num_chains), _on_host(filled, num_chains, size))


def some_chains_walked(
    key: Key,
    ladder: Ladder,
    kernel: AbstractKernel,
    chains: Int[np.ndarray, " some"],
    states: Any,
    bounds: tuple[int, int],
    walk: WalkChain,
) -> Any:
    """The states of all chains after `walk` has moved some of them, with the keys and in batches that the run has.

    Args:
        key: The random key of the run.
        ladder: The law that is sampled.
        kernel: One step of one chain.
        chains: The numbers of the chains that move. One may occur several times, to fill up a batch.
        states: Where all chains stand; leading axis: chain.
        bounds: The first step, and the one after the last.
        walk: As `walk_chain`, without a record.

    Returns:
        The new states of all chains.
    """
    devices = jax.devices()
    lanes = _num_lanes(devices[0].platform, ladder, len(chains))
    mesh = _mesh(devices, len(devices))
    numbers = chains[np.minimum(_chain_numbers(len(chains), lanes, mesh.size), len(chains) - 1)]
    states = jax.device_put(states, NamedSharding(mesh, PartitionSpec()))  # every device may need any chain
    return _walk_some(mesh, key, ladder, kernel, jnp.asarray(numbers), states, jnp.asarray(bounds, jnp.int32), walk)


@eqx.filter_jit
def _walk_some(mesh: Mesh, key, ladder, kernel, numbers, states, bounds, walk: WalkChain):
    some = jax.tree.map(lambda leaf: leaf[numbers], states)
    moved, _ = _walk(mesh, key, ladder, kernel, None, numbers, some, bounds, walk)
    return jax.tree.map(lambda leaf, new: leaf.at[numbers].set(new), states, moved)


def records_on_host(records: Any, num_chains: int, ladder: Ladder) -> Any:
    """The records of all chains as a block of `run_chains` has them, joined by teams where there are many chains."""
    lanes = _num_lanes(jax.default_backend(), ladder, num_chains)
    size = _team_size(num_chains, lanes)
    numbers = _chain_numbers(num_chains, lanes, 1)
    grouped = _grouped(records, numbers)
    joined = grouped if size == 1 else _gathered(grouped, jnp.asarray(numbers), jnp.int32(num_chains), size)
    return _on_host([joined], num_chains, size)


@eqx.filter_jit
def _walk(mesh: Mesh, key, ladder, kernel, record, chains, states, bounds, walk: WalkChain | None = None):
    """All groups of chains, each device working through its own."""
    walk = walk_chain if walk is None else walk
    arrays, static = eqx.partition((key, ladder, kernel, record), eqx.is_array)

    def on_one_device(arrays, bounds, chains, states):
        key, ladder, kernel, record = eqx.combine(arrays, static)
        if mesh.devices.flat[0].platform != "cpu":
            ladder = dataclasses.replace(ladder, path=ladder.path.on_gpu())

        def one_chain(chain, state):
            return walk(jax.random.fold_in(key, chain), ladder, kernel, record, state, bounds)

        return jax.lax.map(lambda group: jax.vmap(one_chain)(*group), (chains, states))

    spread, same = PartitionSpec("device"), PartitionSpec()
    sharded = jax.shard_map(
        on_one_device, mesh=mesh, in_specs=(same, same, spread, spread), out_specs=spread, check_vma=False
    )
    return sharded(arrays, bounds, chains, states)


def walk_chain(
    key: Key, ladder: Ladder, kernel: AbstractKernel, record: Any, state: Any, bounds: Int[Array, "2"]
) -> tuple[Any, Any]:
    """One chain from step bounds[0] to bounds[1], folded into `record`; for use inside jit.

    Args:
        key: The random key of the chain.
        ladder: The law that is sampled.
        kernel: One step of the chain.
        record: The statistic so far.
        state: The state of the chain.
        bounds: The first step, and the one after the last.

    Returns:
        The new state, and the statistic with the draws of these steps.
    """

    def step(i, carry):
        state, record = carry
        state, draw = kernel(jax.random.fold_in(key, i), ladder, state)
        return state, record.update(ladder, draw)

    return jax.lax.fori_loop(bounds[0], bounds[1], step, (state, record))


def _num_lanes(platform: str, ladder: Ladder, num_chains: int) -> int:
    """Chains that go through the model together."""
    if platform == "cpu" or not ladder.path.is_same_in_any_batch:
        return _LANES.get(platform, _LANES_ELSEWHERE)
    rough = max(2 ** max(num_chains.bit_length() - 5, 0), _FEWEST_LANES)  # few sizes, so that few programs are compiled
    return min(-(-num_chains // rough) * rough, _MOST_LANES)


def _mesh(devices: Sequence[Any], num_groups: int) -> Mesh:
    """As many devices as there are groups of chains to give them."""
    return Mesh(np.array(devices[: max(1, min(len(devices), num_groups))]), ("device",))


def _chain_numbers(num_chains: int, lanes: int, num_devices: int) -> np.ndarray:
    """Chains as (group, lane); the last group is filled up with chains that nobody looks at."""
    num_groups = -(-num_chains // lanes)
    num_groups += -num_groups % num_devices
    return np.arange(num_groups * lanes, dtype=np.int32).reshape(num_groups, lanes)


def _grouped(tree: Any, numbers: Int[np.ndarray, "group lane"]) -> Any:
    """States as (group, lane)."""
    return jax.tree.map(lambda leaf: leaf[np.minimum(numbers, leaf.shape[0] - 1)], tree)


def _split(grouped: Any, num_parts: int) -> list[Any]:
    """The groups of chains in equal parts."""
    size = jax.tree.leaves(grouped)[0].shape[0] // num_parts
    return [jax.tree.map(lambda leaf: leaf[i * size : (i + 1) * size], grouped) for i in range(num_parts)]  # noqa: B023


@partial(jax.jit, static_argnums=1)
def _flat_states(parts: list[Any], num_chains: int) -> Any:
    """Back to one chain axis, on the device."""

    def join(*leaves):
        return jnp.concatenate([leaf.reshape(-1, *leaf.shape[2:]) for leaf in leaves])[:num_chains]

    return jax.tree.map(join, *parts)


def _team_size(num_chains: int, lanes: int) -> int:
    """The smallest team that divides a batch and leaves at most `MAX_TEAMS` teams; at most a whole batch."""
    if num_chains <= MOST_ALONE:
        return 1
    sizes = [size for size in range(1, lanes + 1) if lanes % size == 0]
    return next((size for size in sizes if num_chains <= MAX_TEAMS * size), lanes)


@eqx.filter_jit
def _gathered(record: Any, chains: Int[Array, "group lane"], num_chains: Int[Array, ""], size: int) -> Any:
    """What all chains have kept, joined by teams."""
    flat, numbers = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), record), chains.ravel()
    num_groups = int(chain_groups(MAX_TEAMS)[-1]) + 1
    groups = jnp.minimum(numbers * num_groups // num_chains, num_groups - 1)  # as `chain_groups` has them
    return flat.gathered(Teams(numbers < num_chains, groups, num_groups, size))


def _on_host(parts: list[Any], num_chains: int, size: int) -> Any:
    """What was kept, as NumPy arrays with one axis of chains or of teams; those that only filled up a batch are cut."""
    lengths = {len(leaf) for part in parts for leaf in jax.tree.leaves(part)}

    def join(*leaves):
        if size == 1:
            leaves = [np.asarray(leaf).reshape(-1, *leaf.shape[2:]) for leaf in leaves]
        joined = np.asarray(leaves[0]) if len(leaves) == 1 else np.concatenate([np.asarray(leaf) for leaf in leaves])
        is_of_chains = size == 1 or len(leaves[0]) == max(lengths)
        return joined[: num_chains if is_of_chains else -(-num_chains // size)]

    return jax.tree.map(join, *parts)
