"""What a sweep costs on a 784×500 RBM with 100 and 1000 chains, side by side in one run.

    python benchmarks/gibbs.py [--rounds 5] [--devices 2] [--chains 100 1000]

The rows are measured in turn, round after round, and compared by the medians of their ratios, so that a noisy
machine disturbs them alike. Counted, not measured: a sweep needs two matrix products, 2 · 2 · 784 · 500 operations a
chain; RTS adds about 30 multiply-adds per hidden unit and about 20 multiply-adds and an exponential per rung. The
products are timed in float32, and as a sweep makes them: in integers, where the CPU has units for those. Weights are
random, of trained size, where Salakhutdinov's are not beside the clone. Writes benchmarks/results/gibbs.json.
"""

import argparse
import dataclasses
import os
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import turns
from turns import repeats

import tempering as tp
from tempering.estimators.methods import METHODS
from tempering.kernels import AbstractKernel
from tempering.models.rbm.binary import RBMProducts
from tempering.models.rbm.cpu_products import InFloats
from tempering.models.rbm.hidden_bits import HiddenBitsState
from tempering.sampling import run_chains

SWEEPS = 200  # per measurement; a run has a thousand and more, so that what begins it hardly counts
PRODUCTS, AS_MADE = "two matrix products", "two matrix products as a sweep makes them"
PLAIN, RTS, TORCH = "plain Gibbs sweep", "RTS sweep, K = 100", "plain sweep in torch"


class PlainGibbs(AbstractKernel):
    """A sweep at the target and nothing else."""

    move: tp.AbstractMove

    def __call__(self, key, ladder, state):
        x, _ = self.move(key, ladder.path, state.rung, state.x)
        return tp.Position(x, state.rung), None


class TwoProducts(AbstractKernel):
    """The two matrix products of a sweep, with the least that keeps them from being optimised away.

    Attributes:
        products: how they are made; None: as the path makes them.
    """

    move: tp.AbstractMove
    products: RBMProducts | None

    def __call__(self, key, ladder, state):
        products = ladder.path.products if self.products is None else self.products
        h = jnp.where(state.x.field > 0, 1.0, 0.0)
        v = jnp.where(products.from_hidden.times(h) > 0, 1.0, 0.0)
        return tp.Position(HiddenBitsState(v, products.from_visible.times(v)), state.rung), None


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


def runner(rbm: tp.RBM, num_rungs: int, num_chains: int, kernel: AbstractKernel, record: Callable) -> Callable:
    """A call that runs SWEEPS sweeps of all chains."""
    ladder = tp.Ladder.create(rbm.path("bias", tp.ladder.uniform_betas(num_rungs)))
    keys = jax.random.split(jax.random.key(0), num_chains)
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.full(num_chains, num_rungs - 1, jnp.int32))

    def call() -> None:
        for _ in run_chains(keys[0], ladder, kernel, record(ladder), states, num_steps=SWEEPS, block_steps=SWEEPS):
            pass

    return call


def full_record(ladder: tp.Ladder) -> tp.stats.TemperingRecord:
    """All statistics that `estimate` keeps."""
    keep = dataclasses.replace(METHODS["auto"].keep, tours=True)
    return tp.stats.TemperingRecord.empty(ladder, any_range=False, keep=keep)


def rts_runner(rbm: tp.RBM, num_rungs: int, num_chains: int) -> Callable:
    """RTS with all its statistics."""
    return runner(rbm, num_rungs, num_chains, tp.SimulatedTempering(tp.BlockGibbs()), full_record)


def torch_runner(rbm: tp.RBM, num_chains: int) -> Callable[[], None] | None:
    """The same plain sweep written with torch, where torch is installed."""
    try:
        import torch
    except ImportError:
        return None
    weights, vbias, hbias = (torch.tensor(a, dtype=torch.float32) for a in rbm.on_host())
    v = (torch.rand(num_chains, rbm.num_visible) < 0.2).float()

    def call() -> None:
        nonlocal v
        with torch.no_grad():
            for _ in range(SWEEPS):
                h = torch.bernoulli(torch.sigmoid(v @ weights + hbias))
                v = torch.bernoulli(torch.sigmoid(h @ weights.T + vbias))

    return call


def numpy_products(rbm: tp.RBM, num_chains: int) -> Callable[[], None]:
    """The two products in NumPy, all chains at once."""
    weights, rng = np.asarray(rbm.on_host()[0], np.float32), np.random.default_rng(0)
    v, h = ((rng.random((num_chains, size)) < 0.2).astype(np.float32) for size in weights.shape)

    def call() -> None:
        for _ in range(SWEEPS):
            v @ weights, h @ weights.T

    return call


def numpy_runner(rbm: tp.RBM, num_chains: int) -> Callable[[], None]:
    """The same plain sweep written with NumPy, in float32."""
    weights, vbias, hbias = (np.asarray(a, np.float32) for a in rbm.on_host())
    rng = np.random.default_rng(0)
    v = (rng.random((num_chains, rbm.num_visible)) < 0.2).astype(np.float32)

    def drawn(logits: np.ndarray) -> np.ndarray:
        return (rng.random(logits.shape, np.float32) * (1 + np.exp(-logits)) < 1).astype(np.float32)

    def call() -> None:
        nonlocal v
        for _ in range(SWEEPS):
            v = drawn(drawn(v @ weights + hbias) @ weights.T + vbias)

    return call


def rows_of(rbm: tp.RBM, num_chains: int) -> dict[str, Callable[[], None]]:
    """All rows of the table for one number of chains."""
    nothing = lambda ladder: Nothing()  # noqa: E731
    weights = np.asarray(rbm.weights, np.float32)
    in_floats = RBMProducts(*(InFloats(jnp.asarray(matrix)) for matrix in (weights, weights.T)))
    calls = {
        PRODUCTS: runner(rbm, 100, num_chains, TwoProducts(tp.BlockGibbs(), in_floats), nothing),
        AS_MADE: runner(rbm, 100, num_chains, TwoProducts(tp.BlockGibbs(), None), nothing),
        PLAIN: runner(rbm, 100, num_chains, PlainGibbs(tp.BlockGibbs()), nothing),
        **{f"RTS sweep, K = {rungs}": rts_runner(rbm, rungs, num_chains) for rungs in (26, 100, 400, 1000)},
        TORCH: torch_runner(rbm, num_chains),
        "plain sweep in NumPy": numpy_runner(rbm, num_chains),
        "two matrix products in NumPy": numpy_products(rbm, num_chains),
    }
    return {name: call for name, call in calls.items() if call is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--devices", type=int, default=os.cpu_count())
    parser.add_argument("--chains", type=int, nargs="+", default=[100, 1000])
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    rbm = load_rbm()
    rows: dict[str, dict[str, float]] = {}
    for num_chains in arguments.chains:
        seconds = turns.in_turns(rows_of(rbm, num_chains), arguments.rounds)
        ending = "" if num_chains == arguments.chains[0] else f", {num_chains} chains"
        rows |= {name + ending: row for name, row in compared(seconds).items()}
    print("| sweep on 784×500 | ms | × plain | × RTS K = 100 |")
    print("| --- | ---: | ---: | ---: |")
    for name, row in rows.items():
        print(f"| {name} | {row['milliseconds']:.2f} | {row['to_plain']:.2f} | {row['to_rts_100']:.2f} |")
    turns.write("gibbs", {"devices": arguments.devices, "chains": arguments.chains, "rows": rows})


def compared(seconds: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Milliseconds of a sweep, and medians of ratios within a round."""
    plain, rts = seconds[PLAIN], seconds[RTS]
    return {
        name: {
            "milliseconds": float(np.median(values) * 1e3 / SWEEPS),
            "to_plain": float(np.median(values / plain)),
            "to_rts_100": float(np.median(values / rts)),
        }
        for name, values in seconds.items()
    }


if __name__ == "__main__":
    main()
