"""What sweeps of Hamiltonian Monte Carlo cost in 100 dimensions with 100 chains, side by side in one run.

    python benchmarks/hmc.py [--rounds 7] [--sweeps 1500]

The first row is what `estimate` does: trajectories of 10 leaps at the rung of each chain, the log densities of all 100
rungs, a rung drawn from them, and all statistics. The second leaves the statistics out. The last is the same
trajectories in plain JAX, all chains in one batch, with one key a step and nothing else. The rows are measured in turn,
round after round, and compared by the medians of their ratios. Writes benchmarks/results/hmc.json.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering.kernels import SimulatedTempering
from tempering.sampling import run_chains
from tempering.stats import Keep, TemperingRecord

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

CHAINS, DIMS, RUNGS, LEAPS, STEP = 100, 100, 100, 10, 0.1
SPREAD = np.linspace(0.5, 1.5, DIMS, dtype=np.float32)
BASE_STD = 2.0


def log_f(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum((x / SPREAD) ** 2)


class Nothing(eqx.Module):
    """Keeps nothing of a draw."""

    def update(self, ladder, draw):
        return self


def tempered(num_sweeps: int, *, with_statistics: bool) -> Callable[[], None]:
    model = tp.LogDensity(log_f, tp.Normal(np.zeros(DIMS), BASE_STD))
    ladder = tp.Ladder.create(model.path(None, tp.ladder.uniform_betas(RUNGS)))
    kernel = SimulatedTempering(tp.HMC(STEP, num_leaps=LEAPS))
    x = np.random.default_rng(0).normal(size=(CHAINS, DIMS)).astype(np.float32)
    rungs = np.linspace(1, RUNGS - 1, CHAINS).astype(np.int32)
    states = kernel.prepared(ladder.path, tp.Position(jnp.asarray(x), jnp.asarray(rungs)))
    keep = Keep(steps=True, moves=True, tours=True)
    record = TemperingRecord.empty(ladder, any_range=False, keep=keep) if with_statistics else Nothing()

    def call() -> None:
        blocks = run_chains(
            jax.random.key(0), ladder, kernel, record, states, num_steps=num_sweeps, block_steps=min(250, num_sweeps)
        )
        for _ in blocks:
            pass

    return call


def in_plain_jax(num_sweeps: int) -> Callable[[], None]:
    """Trajectories of a batch of chains, each at its own inverse temperature."""
    betas = jnp.linspace(0.01, 1.0, CHAINS)[:, None]

    def log_density(x):
        return jnp.sum(-0.5 * betas * (x / SPREAD) ** 2 - 0.5 * (1 - betas) * (x / BASE_STD) ** 2, axis=1)

    def force(x):
        return jax.grad(lambda x: jnp.sum(log_density(x)))(x)

    def leap(_, carry):
        x, momentum, slope = carry
        momentum = momentum + 0.5 * STEP * slope
        x = x + STEP * momentum
        slope = force(x)
        return x, momentum + 0.5 * STEP * slope, slope

    def step(i, carry):
        x, slope = carry
        key_momentum, key_accept = jax.random.split(jax.random.fold_in(jax.random.key(0), i))
        momentum = jax.random.normal(key_momentum, x.shape)
        end = jax.lax.fori_loop(0, LEAPS, leap, (x, momentum, slope))
        change = log_density(end[0]) - log_density(x) + 0.5 * jnp.sum(momentum**2 - end[1] ** 2, axis=1)
        taken = (jnp.log(jax.random.uniform(key_accept, change.shape)) < change)[:, None]
        return jnp.where(taken, end[0], x), jnp.where(taken, end[2], slope)

    x = jnp.asarray(np.random.default_rng(0).normal(size=(CHAINS, DIMS)), jnp.float32)
    walk = jax.jit(lambda x: jax.lax.fori_loop(0, num_sweeps, step, (x, force(x)))[0])
    return lambda: walk(x).block_until_ready()


def measure(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, dict[str, np.ndarray]]:
    """Seconds by the clock and of the CPU: (round,) for each row, the rows taking turns."""
    for call in calls.values():
        call()  # compile
    seconds = {name: {"wall": np.zeros(rounds), "cpu": np.zeros(rounds)} for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            seconds[name]["wall"][number] = time.perf_counter() - wall
            seconds[name]["cpu"][number] = time.process_time() - cpu
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sweeps", type=int, default=1500)
    asked = parser.parse_args()
    plain = "trajectories in plain JAX"
    calls = {
        "sweep with statistics": tempered(asked.sweeps, with_statistics=True),
        "sweep": tempered(asked.sweeps, with_statistics=False),
        plain: in_plain_jax(asked.sweeps),
    }
    seconds = measure(calls, asked.rounds)
    rows = {
        name: {
            "seconds": float(np.median(times["wall"])),
            "cpu_seconds": float(np.median(times["cpu"])),
            "to_plain": float(np.median(times["wall"] / seconds[plain]["wall"])),
            "cpu_to_plain": float(np.median(times["cpu"] / seconds[plain]["cpu"])),
        }
        for name, times in seconds.items()
    }
    for name, row in rows.items():
        print(name, {part: round(value, 3) for part, value in row.items()})
    about = repeats.about() | {"sweeps": asked.sweeps, "rounds": asked.rounds}
    (repeats.RESULTS / "hmc.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
