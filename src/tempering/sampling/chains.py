"""The loop over Markov steps: chains in parallel, in blocks of steps, on any number of devices and processes."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._compiling import compiled_hastily, compiled_quickly, compiled_widely
from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._threefry import straight_key
from tempering._types import Key
from tempering.kernels import AbstractKernel
from tempering.ladder import AbstractPath, Ladder
from tempering.sampling.processes import gathered
from tempering.sampling.side_by_side import SideBySide, num_side_by_side, one_ahead
from tempering.stats import MAX_BLOCK_STEPS, MAX_TEAMS, MOST_ALONE, Teams, chain_groups

_LANES = {"cpu": 50}  # chains that go through the model together; never changes, see `run_chains`
_LANES_ELSEWHERE, _MANY_LANES = 1024, 8192  # with few chains, and with more than that
_FEWEST_LANES, _MOST_LANES = 128, 2**17  # where the bits of a chain are the same in any batch
_MOST_ROWS = 2**18  # numbers per rung of all chains together, up to which a GPU writes them all
_FEW_VARIABLES = 80  # up to which a CPU's programs are compiled quickly, and run as fast
_STEPS_A_TURN = 4  # with few chains on a GPU, whose loops take as long for a turn as for several kernels

WalkChain = Callable[..., tuple[Any, Any]]  # as `walk_chain`


class Block(NamedTuple):
    """What a stretch of steps gave.

    Attributes:
        num_steps: Steps done since step 0, this block included.
        states: The chains' new states; leading axis: chain. None where `wants_states` said no.
        record: What was kept of their draws; leading axis: chain.
    """

    num_steps: int
    states: Any
    record: Any


class Share(NamedTuple):
    """The chains that this process walks.

    Attributes:
        numbers: Their numbers as (group, lane); the last ones may be of chains that nobody looks at.
        num_chains: Chains of all processes.
        team: So many chains have their records joined on the device, see `Teams`; 1 where each keeps its own.
    """

    numbers: Int[np.ndarray, "group lane"]
    num_chains: int
    team: int

    @classmethod
    def of_this_process(cls, num_chains: int, lanes: int, *, joins_chains: bool) -> "Share":
        """As many groups of chains for every process."""
        num_processes = jax.process_count()
        num_groups = -(-num_chains // (lanes * num_processes))
        numbers = np.arange(num_processes * num_groups * lanes, dtype=np.int32)
        own = numbers.reshape(num_processes, num_groups, lanes)[jax.process_index()]
        return cls(own, num_chains, _team_size(num_chains, lanes) if joins_chains else 1)

    def joined(self, record: Any, chains: Int[Array, "group lane"]) -> Any:
        """The records of these chains, joined by teams."""
        return record if self.team == 1 else _gathered(record, chains, jnp.int32(self.num_chains), self.team)

    def records_of_all(self, parts: list[Any], num_walked: int) -> Any:
        """The records of all processes on the host, without those of chains that nobody looks at."""
        kept = _cut(_on_host(parts, self.team), num_walked, self.numbers.size, self.team)
        return _cut(gathered(kept), self.numbers.size * jax.process_count(), self.num_chains, self.team)


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
    is_late: bool = False,
    wants_states: Callable[[int], bool] | None = None,
) -> Iterator[Block]:
    """Walk all chains from `first_step` to `num_steps` and yield after every `block_steps` steps.

    ```python
    for block in run_chains(key, ladder, kernel, TemperingStats.empty(ladder), states, num_steps=1000):
        block.record.on_host()  # that stretch's statistics
    ```

    Step i of chain c uses the key fold_in(fold_in(key, c), i), and chains pass through the model in groups of a fixed
    size, since matrix products round differently for other shapes. So the bits of a chain depend neither on the other
    chains, nor on where the run is cut, nor on the number of devices.

    In a program of several processes (`jax.distributed`) each walks a share of the chains, and every process gets the
    blocks of all of them.

    Args:
        key: The random key of the run.
        ladder: The law that is sampled.
        kernel: One step of one chain.
        record: An empty statistic for one chain, with `update(ladder, draw)` and `on_host()`.
        states: Where the chains start; leading axis: chain.
        num_steps: The step at which the run ends, counted from 0.
        first_step: The step from which it goes on.
        block_steps: Steps that are folded into one record, at most `MAX_BLOCK_STEPS`.
        devices: The devices of this process to use; all by default.
        joins_chains: Whether the records of very many chains are joined by teams on the device, see `Teams`.
        is_late: Whether the time of the run is up: the program is then compiled hastily.
        wants_states: Whether the states after so many steps are wanted. Between processes they are much to send.

    Returns:
        An iterator over the blocks, in the order of time.
    """
    if not 1 <= block_steps <= MAX_BLOCK_STEPS:
        raise InputError(f"`block_steps` must lie between 1 and {MAX_BLOCK_STEPS}, got {block_steps}.")
    devices = jax.local_devices() if devices is None else list(devices)
    num_chains, platform = jax.tree.leaves(states)[0].shape[0], devices[0].platform
    lanes = num_lanes(platform, ladder, num_chains, len(devices) * jax.process_count())
    share = Share.of_this_process(num_chains, lanes, joins_chains=joins_chains)
    places = _places(devices, len(share.numbers), ladder.path)
    numbers = _filled_up(share.numbers, len(places), num_chains)
    on_host = jax.tree.map(np.asarray, states) if platform == "cpu" else states  # where cutting compiles nothing
    chains, parts = _placed(numbers, places), _placed(_grouped(on_host, numbers), places)

    is_small = platform == "cpu" and ladder.path.num_dims <= _FEW_VARIABLES
    compiled_walk = _hastily_compiled_walk if is_late else _quickly_compiled_walk if is_small else _compiled_walk
    if platform == "cpu":
        record = _for_each(record, lanes, places[0])

    def walk(bounds: Int[Array, "2"], part: int) -> tuple[Any, Any]:
        states, filled = compiled_walk(platform, key, ladder, kernel, record, chains[part], parts[part], bounds)
        return states, share.joined(filled, chains[part])

    def walked(threads: SideBySide) -> Iterator[tuple[int, list[Any]]]:
        nonlocal parts
        for start in range(first_step, num_steps, block_steps):
            stop = min(start + block_steps, num_steps)
            found = threads.run(partial(walk, device_array([start, stop], np.int32)))
            parts = [states for states, _ in found]
            yield stop, found

    with SideBySide(len(places), lambda: walk(device_array([0, 0], np.int32), 0)) as threads:
        blocks = walked(threads)
        for stop, found in blocks if platform == "cpu" else one_ahead(blocks):
            new_states, filled = [states for states, _ in found], [record for _, record in found]
            kept = share.records_of_all(filled, numbers.size)
            is_wanted = wants_states is None or wants_states(stop)
            wanted = _states_of_all(new_states, places[0], share.numbers.size, num_chains) if is_wanted else None
            yield Block(stop, wanted, kept)


@compiled_widely
def walk_some(platform: str, key, ladder, kernel, numbers, places, states, bounds, walk: WalkChain):
    """All of these chains' states after `walk` has moved some of them, in batches of the size that a run has.

    Args:
        platform: The kind of device.
        key: The random key of the run.
        ladder: The law that is sampled.
        kernel: One step of one chain.
        numbers: The numbers of the chains that move, as (group, lane).
        places: Where they are among the states. One may occur several times, to fill up a batch.
        states: Where all of these chains stand; leading axis: chain.
        bounds: The first step, and the one after the last.
        walk: As `walk_chain`, without a record.

    Returns:
        The new states of all of these chains.
    """
    some = jax.tree.map(lambda leaf: leaf[places], states)
    moved, _ = _walk(platform, key, ladder, kernel, None, numbers, some, bounds, walk)
    return jax.tree.map(lambda leaf, new: leaf.at[places].set(new), states, moved)


def _walk(platform: str, key, ladder, kernel, record, chains, states, bounds, walk: WalkChain | None = None):
    """The groups of chains of one part, one after the other."""
    walk = walk_chain if walk is None else walk
    path = ladder.path.on_cpu() if platform == "cpu" else ladder.path.on_gpu()
    is_small = platform != "cpu" and chains.shape[1] * path.num_rungs <= _MOST_ROWS
    ladder = dataclasses.replace(ladder, path=path, writes_rows=is_small)

    def one_chain(record, chain, state):
        return walk(jax.random.fold_in(straight_key(key), chain), ladder, kernel, record, state, bounds)

    over_records = 0 if platform == "cpu" else None
    each = jax.vmap(one_chain, in_axes=(over_records, 0, 0))
    return jax.lax.map(lambda group: each(record, *group), (chains, states))


_compiled_walk = compiled_widely(_walk)
_quickly_compiled_walk = compiled_quickly(_walk)
_hastily_compiled_walk = compiled_hastily(_walk)


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

    def several(turn, carry):
        for one in range(_STEPS_A_TURN):
            carry = step(bounds[0] + turn * _STEPS_A_TURN + one, carry)
        return carry

    carry = state, record
    if not ladder.writes_rows:
        return jax.lax.fori_loop(bounds[0], bounds[1], step, carry)
    turns = (bounds[1] - bounds[0]) // _STEPS_A_TURN
    carry = jax.lax.fori_loop(0, turns, several, carry)
    return jax.lax.fori_loop(bounds[0] + turns * _STEPS_A_TURN, bounds[1], step, carry)


def num_lanes(platform: str, ladder: Ladder, num_chains: int, num_devices: int) -> int:
    """Chains that go through the model together; only where bits are the same in any batch, as the devices need it."""
    if platform == "cpu" or not ladder.path.is_same_in_any_batch:
        elsewhere = _LANES_ELSEWHERE if num_chains <= _LANES_ELSEWHERE else _MANY_LANES
        return _LANES.get(platform, elsewhere)
    rough = max(2 ** max(num_chains.bit_length() - 5, 0), _FEWEST_LANES)  # few sizes, so that few programs are compiled
    share = 2 ** (-(-num_chains // num_devices) - 1).bit_length()  # of a device, rounded up
    return min(-(-num_chains // rough) * rough, _MOST_LANES, max(share, _FEWEST_LANES))


def _places(devices: Sequence[Any], num_groups: int, path: AbstractPath) -> list[Any]:
    """The device of each part of the chains: as many parts as there are devices, or cores of a CPU, to walk them.

    Each part is a program of its own. One program for several devices would be compiled in another way, and round in
    another way. On a CPU all parts run on one device, so that they share one program.
    """
    if devices[0].platform != "cpu":
        return list(devices[: max(1, num_groups)])
    number = num_side_by_side(path)
    number = min(number, len(devices)) if len(devices) > 1 else number
    return [devices[0]] * max(1, min(number, num_groups))


def _filled_up(own: Int[np.ndarray, "group lane"], num_parts: int, num_chains: int) -> Int[np.ndarray, "more lane"]:
    """As many groups for every part; those that are added hold chains that nobody looks at."""
    unused = np.full((-len(own) % num_parts, own.shape[1]), num_chains, np.int32)
    return np.concatenate([own, unused])


def _grouped(tree: Any, numbers: Int[np.ndarray, "group lane"]) -> Any:
    """States as (group, lane)."""
    return jax.tree.map(lambda leaf: leaf[np.minimum(numbers, leaf.shape[0] - 1)], tree)


def _for_each(record: Any, lanes: int, place: Any) -> Any:
    """An empty record for each chain of a group, made on the host: on the device each array would be compiled code."""
    return jax.tree.map(lambda leaf: jax.device_put(np.broadcast_to(leaf, (lanes, *np.shape(leaf))), place), record)


def _placed(grouped: Any, places: list[Any]) -> list[Any]:
    """The groups of chains in equal parts, each on its device."""
    size = jax.tree.leaves(grouped)[0].shape[0] // len(places)

    def part(i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i * size : (i + 1) * size], grouped)

    return [jax.device_put(part(i), place) for i, place in enumerate(places)]


def _states_of_all(parts: list[Any], place: Any, num_own: int, num_chains: int) -> Any:
    """The states of the chains of all processes, on the first device."""
    if jax.process_count() == 1:
        return _flat_states(parts, place, num_chains)
    return jax.tree.map(lambda leaf: leaf[:num_chains], gathered(_flat_states(parts, place, num_own)))


def _flat_states(parts: list[Any], place: Any, num_chains: int) -> Any:
    """Back to one chain axis."""
    if place.platform == "cpu":  # in NumPy, which compiles nothing
        return jax.device_put(_joined(jax.tree.map(np.asarray, parts), num_chains, np), place)
    return _joined_on_device(jax.device_put(parts, place), num_chains)


def _joined(parts: list[Any], num_chains: int, xp: Any) -> Any:
    def join(*leaves):
        return xp.concatenate([leaf.reshape(-1, *leaf.shape[2:]) for leaf in leaves])[:num_chains]

    return jax.tree.map(join, *parts)


@partial(jax.jit, static_argnums=1)
def _joined_on_device(parts: list[Any], num_chains: int) -> Any:
    return _joined(parts, num_chains, jnp)


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


def _on_host(parts: list[Any], size: int) -> Any:
    """What this process's chains have kept, as NumPy arrays with one axis of chains or of teams."""

    def join(*leaves):
        if size == 1:
            leaves = [np.asarray(leaf).reshape(-1, *leaf.shape[2:]) for leaf in leaves]
        return np.asarray(leaves[0]) if len(leaves) == 1 else np.concatenate([np.asarray(leaf) for leaf in leaves])

    return jax.tree.map(join, *parts)


def _cut(record: Any, num_before: int, num_chains: int, size: int) -> Any:
    """Without the chains, and the teams, that only fill up batches; what is neither stays whole."""
    wanted = {num_before // size: -(-num_chains // size), num_before: num_chains}
    return jax.tree.map(lambda leaf: leaf[: wanted.get(len(leaf), len(leaf))], record)
