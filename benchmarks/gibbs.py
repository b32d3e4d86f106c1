"""What a sweep costs on a 784×500 RBM with 100 chains, side by side in one run.

    python benchmarks/gibbs.py [--rounds 15] [--devices 2]

The rows are measured in turn, round after round, and compared by the medians of their ratios, so that a noisy
machine disturbs them alike. Counted, not measured: a sweep needs two matrix products, 2 · 2 · 784 · 500 operations a
chain; RTS adds about 30 multiply-adds per hidden unit and about 20 multiply-adds and an exponential per rung.
Weights are random, of trained size, where Salakhutdinov's are not beside the clone.
Writes benchmarks/results/gibbs.json.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering.kernels import AbstractKernel
from tempering.sampling import run_chains

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

CHAINS = 100
SWEEPS = 50  # per measurement


class PlainGibbs(AbstractKernel):
    """A sweep at the target and nothing else."""

    move: tp.AbstractMove

    def __call__(self, key, ladder, state):
        x, _ = self.move(key, ladder.path, state.rung, state.x)
        return tp.Position(x, state.rung), None


class TwoProducts(AbstractKernel):
    """The two matrix products of a sweep, with the least that keeps them from being optimised away."""

    def __call__(self, key, ladder, state):
        path = ladder.path
        h = jnp.where(state.x.field > 0, 1.0, 0.0)
        v = jnp.where(jnp.dot(path.weights, h, precision="highest") > 0, 1.0, 0.0)
        return tp.Position(path.state_of(v), state.rung), None


class Nothing(eqx.Module):
    """Keeps nothing of a draw."""

    def update(self, ladder, draw):
        return self


def load_rbm() -> tp.RBM:
    file = repeats.DATA / "rbm_mnist_cd25_500.npz"
    if file.exists():
        return tp.load(file)
    rng = np.random.default_rng(0)
    return tp.RBM(rng.normal(0, 0.15, (784, 500)), rng.normal(-1, 1, 784), rng.normal(-1, 1, 500))


def runner(rbm: tp.RBM, num_rungs: int, kernel: AbstractKernel, record: Callable) -> Callable[[], None]:
    """A call that runs SWEEPS sweeps of all chains."""
    ladder = tp.Ladder.create(rbm.path("bias", tp.ladder.uniform_betas(num_rungs)))
    keys = jax.random.split(jax.random.key(0), CHAINS)
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.full(CHAINS, num_rungs - 1, jnp.int32))

    def call() -> None:
        for _ in run_chains(keys[0], ladder, kernel, record(ladder), states, num_steps=SWEEPS, block_steps=SWEEPS):
            pass

    return call


def torch_runner(rbm: tp.RBM) -> Callable[[], None] | None:
    """The same plain sweep written with torch, where torch is installed."""
    try:
        import torch
    except ImportError:
        return None
    weights, vbias, hbias = (torch.tensor(a, dtype=torch.float32) for a in rbm.on_host())
    v = (torch.rand(CHAINS, rbm.num_visible) < 0.2).float()

    def call() -> None:
        nonlocal v
        with torch.no_grad():
            for _ in range(SWEEPS):
                h = torch.bernoulli(torch.sigmoid(v @ weights + hbias))
                v = torch.bernoulli(torch.sigmoid(h @ weights.T + vbias))

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--devices", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    rbm = load_rbm()
    tempered = tp.SimulatedTempering(tp.BlockGibbs())
    full = lambda ladder: tp.stats.TemperingRecord.empty(ladder, any_range=False, keep=tp.stats.Keep(tours=True))  # noqa: E731
    calls = {
        "two matrix products": runner(rbm, 100, TwoProducts(tp.BlockGibbs()), lambda ladder: Nothing()),
        "plain Gibbs sweep": runner(rbm, 100, PlainGibbs(tp.BlockGibbs()), lambda ladder: Nothing()),
        **{f"RTS sweep, K = {rungs}": runner(rbm, rungs, tempered, full) for rungs in (26, 100, 400, 1000)},
        "plain sweep in torch": torch_runner(rbm),
    }
    calls = {name: call for name, call in calls.items() if call is not None}
    seconds = measure(calls, arguments.rounds)
    report(seconds, arguments.devices)


def measure(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds per sweep: (round,) for each row, the rows taking turns."""
    for call in calls.values():
        call()  # compile
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append((time.perf_counter() - start) / SWEEPS)
    return {name: np.array(values) for name, values in seconds.items()}


def report(seconds: dict[str, np.ndarray], devices: int) -> None:
    plain, rts = seconds["plain Gibbs sweep"], seconds["RTS sweep, K = 100"]
    rows = {
        name: {
            "milliseconds": float(np.median(values) * 1e3),
            "to_plain": float(np.median(values / plain)),
            "to_rts_100": float(np.median(values / rts)),
        }
        for name, values in seconds.items()
    }
    print("| sweep of 100 chains, 784×500 | ms | × plain | × RTS K = 100 |")
    print("| --- | ---: | ---: | ---: |")
    for name, row in rows.items():
        print(f"| {name} | {row['milliseconds']:.2f} | {row['to_plain']:.2f} | {row['to_rts_100']:.2f} |")
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    about = repeats.about() | {"devices": devices}
    (repeats.RESULTS / "gibbs.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
