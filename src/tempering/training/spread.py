"""Chains of training spread over devices and processes.

The groups of chains form shares. A share is walked as one batch, whose shape is the same however many devices there
are, and what the shares tell is added up in their order. So on a CPU the bits do not depend on the number of devices
and processes. All else, the gradient of the data and the optimizer, every device does for itself.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tempering._errors import InputError

T = TypeVar("T")
U = TypeVar("U")

_AXIS = "device"
_CPU_SHARES = 4  # few enough for large batches; the most devices that training uses


@dataclasses.dataclass(frozen=True)
class Spread:
    """How the groups of chains are spread.

    Attributes:
        num_shares: Into which the groups are divided.
        mesh: The devices, of all processes; None where there is one.
    """

    num_shares: int = 1
    mesh: Mesh | None = None

    @classmethod
    def over_all_devices(cls, num_groups: int) -> "Spread":
        """Over as many devices as the groups can be shared by, the same number in every process."""
        num_processes, num_local = jax.process_count(), jax.local_device_count()
        is_cpu = jax.default_backend() == "cpu"
        most = math.gcd(_CPU_SHARES, num_groups) if is_cpu else num_groups
        if most % num_processes:
            fitting = ", ".join(str(number) for number in range(1, most + 1) if most % number == 0)
            raise InputError(f"Training can be shared by {fitting} processes, got {num_processes}.")
        per_process = next(n for n in range(num_local, 0, -1) if most % (n * num_processes) == 0)
        num_devices = num_processes * per_process
        num_shares = most if is_cpu else num_devices
        if num_devices == 1:
            return cls(num_shares)
        by_process = [[d for d in jax.devices() if d.process_index == i][:per_process] for i in range(num_processes)]
        return cls(num_shares, Mesh(np.array(by_process).ravel(), (_AXIS,)))

    @property
    def num_devices(self) -> int:
        """All devices that take part."""
        return 1 if self.mesh is None else self.mesh.size

    def by_share(self, function: Callable[..., tuple[T, U]], *trees: Any) -> tuple[T, U]:
        """Apply a function to each share, inside `run`.

        Args:
            function: Takes the trees of one share; returns what stays where the share is, and what all must know.
            trees: This device's groups; leading axis: group.

        Returns:
            What stays, with the groups of this device; what all know, with a new leading axis: share.
        """
        own = self.num_shares // self.num_devices
        split = jax.tree.map(lambda leaf: leaf.reshape(own, -1, *leaf.shape[1:]), trees)
        kept, told = jax.lax.map(lambda parts: function(*parts), split)
        kept = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), kept)
        if self.mesh is not None:
            told = jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, _AXIS, tiled=True), told)
        return kept, jax.lax.optimization_barrier(told)  # what follows is compiled alike for any number of devices

    def run(self, function: Callable[[T, Any], tuple[T, U]], chains: T, others: Any) -> tuple[T, U]:
        """Apply a function on every device, inside jit.

        Args:
            function: Takes this device's chains and the others; returns the new chains, and what is the same on all.
            chains: Arrays with leading axis group, each device holding its own.
            others: What is the same on every device.

        Returns:
            What the function returns.
        """
        if self.mesh is None:
            return function(chains, others)
        arrays, static = eqx.partition(others, eqx.is_array)
        own, same = PartitionSpec(_AXIS), PartitionSpec()
        spread = jax.shard_map(
            lambda chains, arrays: function(chains, eqx.combine(arrays, static)),
            mesh=self.mesh, in_specs=(own, same), out_specs=(own, same), check_vma=False,
        )  # fmt: skip
        return spread(chains, arrays)

    def placed(self, tree: T, *, is_shared_out: bool = False) -> T:
        """Arrays of this process on all its devices: whole, or each device's groups where they are shared out."""
        mesh = self.mesh
        if mesh is None:
            return tree
        sharding = NamedSharding(mesh, PartitionSpec(_AXIS) if is_shared_out else PartitionSpec())

        def place(leaf: Any) -> Any:
            if not eqx.is_array_like(leaf) or (isinstance(leaf, jax.Array) and leaf.sharding == sharding):
                return leaf
            leaf = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
            where = sharding.addressable_devices_indices_map(leaf.shape)
            parts = [jax.device_put(leaf[index], device) for device, index in where.items()]
            return jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts)

        return jax.tree.map(place, tree)

    def local(self, tree: T) -> T:
        """Arrays that are the same on all devices, as plain arrays of this process."""
        return tree if self.mesh is None else jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


def added(tree: T) -> T:
    """What the shares have told, added up in their order."""
    return jax.tree.map(lambda leaf: reduce(jnp.add, [leaf[i] for i in range(leaf.shape[0])]), tree)


def whole(tree: T) -> T:
    """Chains that are shared out, as arrays that this process can read. Every process must call it."""

    def read(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree.map(read, tree)


def own_part(leaf: jax.Array) -> np.ndarray:
    """The groups of an array that are on this process's devices."""
    if leaf.is_fully_addressable:
        return np.asarray(leaf)
    shards = sorted(leaf.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])
