"""What an RTS sweep costs on a GPU, for the 784×500 RBM, and what its parts and other ways to compute them cost.

    python benchmarks/gpu_sweeps.py [--quick] [--variants] [--out FILE]

Useful work is 4 · 784 · 500 operations a chain and sweep. Times are the smallest of several, for loops of a thousand
sweeps with all statistics that `estimate` keeps. With `--variants` other tiles, loops and options of the compiler are
timed too. Results are checked first: fields against float64, and bits against those of other batches.
Writes benchmarks/results/gpu_sweeps.json, or another file.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering._threefry import key_words
from tempering.models.rbm import gpu_products as products
from tempering.models.rbm import gpu_rungs as rungs_of
from tempering.models.rbm.limbs import Limbs
from tempering.sampling import chains as loop
from tempering.sampling import run_chains
from tempering.stats import Keep, TemperingRecord

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

RECORD = Path(__file__).parent / "results" / "gpu_sweeps.json"
VISIBLE, HIDDEN = 784, 500
SIZES = (100, 1000, 10_000, 100_000)
STEPS = 1000  # of a timed loop, as many as a usual run has
found: list[dict[str, Any]] = []


def note(what: str, chains: int, seconds: float, **more: Any) -> None:
    tflops = 4 * VISIBLE * HIDDEN * chains / seconds / 1e12
    found.append({"what": what, "chains": chains, "microseconds": seconds * 1e6, "tflops": tflops, **more})
    print(f"{what:62s} {chains:7d} {seconds * 1e6:10.1f} µs {tflops:7.1f} TFLOP/s", flush=True)


def tried(what: str, chains: int, call: Callable[..., float], *arguments: Any) -> None:
    """One way may be refused by this version of the compiler; the others are still timed."""
    try:
        note(what, chains, call(*arguments))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
        print(f"{what:62s} {chains:7d} failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
        found.append({"what": what, "chains": chains, "failed": f"{type(error).__name__}: {str(error)[:300]}"})


def smallest(call: Callable[[], Any], divide_by: int, rounds: int = 4) -> float:
    jax.block_until_ready(call())
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - started)
    return min(taken) / divide_by


def make_rbm() -> tp.RBM:
    rng = np.random.default_rng(0)
    return tp.RBM(rng.normal(0, 0.15, (VISIBLE, HIDDEN)), rng.normal(-1, 1, VISIBLE), rng.normal(-1, 1, HIDDEN))


def make_run(rungs: int, chains: int) -> tuple[tp.Ladder, Any, Any, Any]:
    ladder = tp.Ladder.create(make_rbm().path("bias", tp.ladder.uniform_betas(rungs)))
    lanes = loop.num_lanes(jax.default_backend(), ladder, chains, 1)
    keys = jax.random.split(jax.random.key(0), lanes)
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.arange(lanes, dtype=jnp.int32) % rungs)
    record = TemperingRecord.empty(ladder, any_range=False, keep=Keep(steps=True, tours=True))  # as `estimate` keeps
    return ladder, record, states, jnp.arange(lanes, dtype=jnp.int32)


def sweep_seconds(rungs: int, chains: int, walk: Callable | None = None, options: dict | None = None) -> float:
    """Of one sweep of all chains in the library's own loop, or in another one."""
    ladder, record, states, numbers = make_run(rungs, chains)
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    fixed = jax.tree.map(lambda leaf: leaf, (ladder, kernel, record))
    arrays, rest = eqx.partition(fixed, eqx.is_array)

    def run(arrays, states, bounds):
        ladder, kernel, record = eqx.combine(arrays, rest)
        own = partial(loop._walk, jax.default_backend(), jax.random.key(1), ladder, kernel, record)
        return own(numbers[None], jax.tree.map(lambda leaf: leaf[None], states), bounds, walk)

    bounds = jnp.asarray([0, STEPS], jnp.int32)
    started = time.perf_counter()
    compiled = jax.jit(run).lower(arrays, states, bounds).compile(compiler_options=options)
    print(f"compiled in {time.perf_counter() - started:.1f} s:", end=" ")
    return smallest(lambda: compiled(arrays, states, bounds), STEPS)


def known_length(unrolled: int):
    """A loop whose length the compiler knows, with several steps in one turn."""

    def walk(key, ladder, kernel, record, state, bounds):
        def step(i, carry):
            state, record = carry
            state, draw = kernel(jax.random.fold_in(key, i), ladder, state)
            return state, record.update(ladder, draw)

        return jax.lax.fori_loop(0, STEPS, step, (state, record), unroll=unrolled)

    return walk


def repeated(step: Callable[[Any], Any], start: Any) -> float:
    """Seconds of one call in a long loop of calls, each of which takes what the last one gave."""
    call = jax.jit(lambda x: jax.lax.fori_loop(0, STEPS, lambda _, x: step(x), x))
    return smallest(lambda: call(start), STEPS)


def time_parts(chains: int, tiles: list[products.Tiles], rung_tiles: list[rungs_of.RungTiles]) -> None:
    ladder, _, states, _ = make_run(100, chains)
    path, num = ladder.path, len(states.rung)
    to_hidden, to_visible = Limbs.of(path.weights), Limbs.of(path.weights.T)
    words = jax.vmap(key_words)(jax.random.split(jax.random.key(2), num))
    v, field, rung = states.x.v, states.x.field, states.rung
    h = jax.vmap(products.padded_bits)(field > 0)
    padded = jax.vmap(products.padded_bits)(v)
    at_ends = (path.betas, path.base_logits, path.vbias)
    sums = (path.sums.series, path.sums.scale, path.sums.bound)
    tables = rungs_of.RungTables(path.base_logits, path.vbias, path.betas, *sums, ladder.log_prior, ladder.log_z_guess)

    def xla_products(v):
        h = jnp.where(jax.vmap(to_hidden.times)(v) > 0, 1.0, 0.0)
        return jnp.where(jax.vmap(to_visible.times)(h) > 0, 1.0, 0.0)

    def float_products(v):
        h = jnp.where(jnp.dot(v, path.weights, precision="highest") > 0, 1.0, 0.0)
        return jnp.where(jnp.dot(h, path.weights.T, precision="highest") > 0, 1.0, 0.0)

    tried("float32 products alone (XLA)", chains, repeated, float_products, v)
    tried("exact products alone (XLA)", chains, repeated, xla_products, v)

    def bits(h):
        _, new = jax.vmap(lambda w, r, h: products.drawn_bits(w, r, h, to_visible, *at_ends))(words, rung, h)
        return new[:, : h.shape[1]]

    def fields(v):
        new = jax.vmap(lambda v: products.summed_field(v, to_hidden, path.hbias))(v)
        return v.at[:, 0].set(new[:, 0] > 0)

    def rungs(field):
        found = jax.vmap(lambda w, v, a: rungs_of.drawn_rung(w, v, a, tables))(words, v, field)
        return field.at[:, 0].add(found.posterior[:, 0] + found.rung)

    before = products.SMALL, products.LARGE, rungs_of.RUNG_TILES
    for tile in tiles:
        products.SMALL = products.LARGE = tile
        tried(f"visible bits and a copy, {tuple(tile)}", chains, repeated, bits, h)
        tried(f"hidden fields and a copy, {tuple(tile)}", chains, repeated, fields, padded)
    products.SMALL, products.LARGE = before[:2]
    for tile in rung_tiles:
        rungs_of.RUNG_TILES = tile
        tried(f"log f, q and rungs and a copy, {tuple(tile)}", chains, repeated, rungs, field)
    rungs_of.RUNG_TILES = before[2]


def time_variants(quick: bool) -> None:
    tile, rung = products.Tiles, rungs_of.RungTiles
    small = [(32, 32, 128, 4, 3), (32, 32, 64, 4, 5), (32, 32, 128, 8, 3), (64, 32, 128, 4, 3), (64, 32, 128, 8, 4)]
    small += [(64, 16, 128, 4, 4), (32, 16, 128, 4, 4), (128, 16, 128, 8, 3), (16, 64, 128, 4, 3)]
    large = [(128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 64, 64, 4, 4), (128, 128, 32, 8, 4), (256, 64, 64, 8, 3)]
    rungs = [(1, 1, 20), (1, 1, 10), (2, 1, 20), (2, 2, 20), (4, 4, 20), (4, 2, 20)]
    small, large = [tile(*t) for t in small], [tile(*t) for t in large]
    rungs = [rung(*t) for t in rungs]
    for size, tiles in ((100, small), (100_000, large))[: 1 if quick else 2]:
        time_parts(size, tiles[:1] if quick else tiles, rungs[:1] if quick else rungs)
    if quick:
        return
    graph = "xla_gpu_enable_command_buffer"
    kinds = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
    for turn in (1, 4, 8):
        loop._STEPS_A_TURN = turn
        tried(f"RTS sweep, {turn} a turn", 100, sweep_seconds, 100, 100)
        tried(f"RTS sweep, {turn} a turn, whole loop in a graph", 100, sweep_seconds, 100, 100, None, {graph: kinds})
    loop._STEPS_A_TURN = 4
    tried("RTS sweep, length known, 4 a turn", 100, sweep_seconds, 100, 100, known_length(4))
    tried("RTS sweep, length known, 20 a turn", 100, sweep_seconds, 100, 100, known_length(20))
    for best in (
        products.Tiles(32, 32, 64, 4, 5),
        products.Tiles(64, 32, 128, 8, 4),
        products.Tiles(32, 16, 128, 4, 4),
    ):
        products.SMALL = best
        tried(f"RTS sweep, tiles {tuple(best)}", 100, sweep_seconds, 100, 100)


def check() -> dict[str, float]:
    """Largest errors, and bits that differ; printed and kept."""
    ladder, record, states, _ = make_run(100, 1000)
    path = ladder.path.on_gpu()
    rng = np.random.default_rng(1)
    v = (rng.random((1024, VISIBLE)) < 0.3).astype(np.float32)
    again = jax.jit(jax.vmap(path.state_of))(jnp.asarray(v))
    weights, hbias = np.asarray(path.weights, np.float64), np.asarray(path.hbias, np.float64)
    exact = v @ weights + hbias
    error = float(np.abs(np.asarray(again.field) - exact).max() / np.abs(exact).max())
    betas = np.asarray(path.betas, np.float64)[:, None]
    ends = [v[:50].astype(np.float64) @ np.asarray(a, np.float64) for a in (path.base_logits, path.vbias)]
    log_f = (1 - betas) * ends[0] + betas * ends[1] + np.logaddexp(0, betas[..., None] * exact[:50]).sum(axis=-1)
    few = jax.tree.map(lambda leaf: leaf[:50], again)
    off = np.abs(np.asarray(jax.jit(jax.vmap(path.log_densities))(few)).T - log_f).max()
    checks = {"field_error": error, "field_bound": 2.0**-20, "log_f_error": float(off)}
    kernel, key = tp.SimulatedTempering(tp.BlockGibbs()), jax.random.key(5)
    start = jax.tree.map(lambda leaf: leaf[:1000], states)

    def walked(num: int, block: int) -> Any:
        own = jax.tree.map(lambda leaf: leaf[:num], start)
        *_, last = run_chains(key, ladder, kernel, record, own, num_steps=60, block_steps=block)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:100], last.states)

    whole = walked(1000, 60)
    for name, other in (("alone", walked(100, 60)), ("in_chunks", walked(1000, 17))):
        leaves = zip(jax.tree.leaves(whole), jax.tree.leaves(other), strict=True)
        checks[f"numbers_that_differ_{name}"] = float(sum(np.sum(a != b) for a, b in leaves))
    print(checks, flush=True)
    return checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, to see that everything runs")
    parser.add_argument("--variants", action="store_true", help="other ways to compute the same, too")
    parser.add_argument("--out", type=Path, default=RECORD, help="the file to write")
    asked = parser.parse_args()
    global STEPS
    STEPS = 2 if asked.quick else STEPS
    checks = check()
    for size in SIZES[:1] if asked.quick else SIZES:
        tried("RTS sweep, K = 100", size, sweep_seconds, 100, size)
    for size in () if asked.quick else (10_000, 100_000):
        tried("RTS sweep, K = 1000", size, sweep_seconds, 1000, size)
    for size in SIZES[:1] if asked.quick else (SIZES[0], SIZES[-1]):
        time_parts(size, [], [])
    if asked.variants:
        time_variants(asked.quick)
    asked.out.write_text(json.dumps({"about": repeats.about(), "checks": checks, "times": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
