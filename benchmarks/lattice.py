"""What a sweep of the Ising model on a 64×64 torus costs, beside checkerboards in NumPy, side by side in one run.

    python benchmarks/lattice.py [--rounds 7] [--chains 100] [--sweeps 50]

A sweep here redraws black, white and black sites again, so that it is reversible; one in NumPy redraws black and white
sites once. Both are counted by half sweeps, the redrawing of all sites of one colour. The rows are measured in turn,
round after round, and compared by the medians of their ratios. Writes benchmarks/results/lattice.json.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from hmc import Nothing, measure

import tempering as tp
from tempering.kernels import Held, SimulatedTempering
from tempering.sampling import run_chains
from tempering.stats import Keep, TemperingRecord

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

SIDE, COUPLING, RUNGS = 64, 0.44, 100


def ours(num_chains: int, num_sweeps: int, *, is_tempered: bool) -> Callable[[], None]:
    """Sweeps alone at the target, or simulated tempering with all statistics."""
    ladder = tp.Ladder.create(tp.Ising.square(SIDE, SIDE, COUPLING).path(None, tp.ladder.uniform_betas(RUNGS)))
    kernel = SimulatedTempering(tp.BlockGibbs()) if is_tempered else Held(tp.BlockGibbs())
    keep = Keep(steps=True, tours=True)
    record = TemperingRecord.empty(ladder, any_range=False, keep=keep) if is_tempered else Nothing()
    x = jax.vmap(ladder.path.sample_base)(jax.random.split(jax.random.key(0), num_chains))
    states = tp.Position(x, jnp.full(num_chains, RUNGS - 1, jnp.int32))

    def call() -> None:
        for _ in run_chains(
            jax.random.key(1), ladder, kernel, record, states, num_steps=num_sweeps, block_steps=num_sweeps
        ):
            pass

    return call


def in_numpy(num_chains: int, num_sweeps: int) -> Callable[[], None]:
    """A checkerboard of all chains at once: all sites are computed, and a mask keeps those of one colour."""
    rng = np.random.default_rng(0)
    board = np.where(rng.random((num_chains, SIDE, SIDE)) < 0.5, 1, -1).astype(np.float32)
    is_black = np.add.outer(np.arange(SIDE), np.arange(SIDE)) % 2 == 0

    def redraw(mask: np.ndarray) -> None:
        field = np.roll(board, 1, 1) + np.roll(board, -1, 1) + np.roll(board, 1, 2) + np.roll(board, -1, 2)
        is_up = rng.random(field.shape, np.float32) < 1 / (1 + np.exp(-2 * np.float32(COUPLING) * field))
        np.copyto(board, np.where(is_up, np.float32(1), np.float32(-1)), where=mask)

    def call() -> None:
        for _ in range(num_sweeps):
            redraw(is_black)
            redraw(~is_black)

    return call


def in_packed_numpy(num_chains: int, num_sweeps: int) -> Callable[[], None]:
    """The same with each colour in an array of its own, so that nothing is computed in vain."""
    rng = np.random.default_rng(0)
    colours = [np.where(rng.random((num_chains, SIDE, SIDE // 2)) < 0.5, 1, -1).astype(np.float32) for _ in range(2)]
    is_odd = [((np.arange(SIDE) + colour) % 2 == 1)[:, None] for colour in range(2)]

    def redraw(colour: int) -> None:
        others = colours[1 - colour]
        beside = np.where(is_odd[colour], np.roll(others, -1, 2), np.roll(others, 1, 2))
        field = others + beside + np.roll(others, 1, 1) + np.roll(others, -1, 1)
        is_up = rng.random(field.shape, np.float32) * (1 + np.exp(-2 * np.float32(COUPLING) * field)) < 1
        colours[colour] = np.where(is_up, np.float32(1), np.float32(-1))

    def call() -> None:
        for _ in range(num_sweeps):
            redraw(0)
            redraw(1)

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=50)
    asked = parser.parse_args()
    masked, packed = "NumPy, with a mask", "NumPy, colours apart"
    halves = {"sweep": 3, "sweep with tempering and statistics": 3, masked: 2, packed: 2}
    calls = {
        "sweep": ours(asked.chains, asked.sweeps, is_tempered=False),
        "sweep with tempering and statistics": ours(asked.chains, asked.sweeps, is_tempered=True),
        masked: in_numpy(asked.chains, asked.sweeps),
        packed: in_packed_numpy(asked.chains, asked.sweeps),
    }
    seconds = measure(calls, asked.rounds)
    per_half = {
        name: {kind: values / (halves[name] * asked.sweeps * asked.chains) for kind, values in times.items()}
        for name, times in seconds.items()
    }
    rows = {
        name: {
            "half_sweep_microseconds": float(np.median(times["wall"]) * 1e6),
            "half_sweep_cpu_microseconds": float(np.median(times["cpu"]) * 1e6),
            "numpy_over_this": float(np.median(per_half[masked]["wall"] / times["wall"])),
            "numpy_over_this_cpu": float(np.median(per_half[masked]["cpu"] / times["cpu"])),
        }
        for name, times in per_half.items()
    }
    for name, row in rows.items():
        print(name, {part: round(value, 3) for part, value in row.items()})
    about = repeats.about() | {"chains": asked.chains, "sweeps": asked.sweeps, "rounds": asked.rounds}
    (repeats.RESULTS / "lattice.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
