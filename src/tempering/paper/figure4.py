"""Figure 4: RTS, TS, MBAR, TI and TI-RB against the number of rungs, on an RBM of 784 × 500 units.

Panel 1 is the paper's design: 10,000 draws are picked at random from a long run, so that they are all but independent.
Panel 2 is ours: every estimate is from a run of its own.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tempering.estimators import mbar, rts, ti, ts
from tempering.estimators._mbar_solver import log_mixture_and_parts
from tempering.ladder import AbstractPath, Ladder, uniform_betas
from tempering.models import RBM
from tempering.paper.making import Errors, Made, Row, Setting, draw_rmse, rmse
from tempering.paper.published import FIGURE4, FIGURE4_RUNGS
from tempering.paper.runs import REFERENCE_500, read_errors
from tempering.plots import style
from tempering.sampling import Setup, Stage, walk_stages
from tempering.stats import BlockedStats, Keep, ReducedDraws, Travel
from tempering.stats.draws import MAX_KEPT_DRAWS
from tempering.warmups import SequentialStart

NUM_DRAWS = 10_000
OURS = {"RTS": "rts", "TS": "ts", "MBAR": "mbar", "TI": "ti_trapezoid", "TI-RB": "ti_rb"}
PANELS = ("10,000 bootstrapped draws", "runs of their own")
_SHARE = 10  # seeds in one piece
_CHUNK = 2**18  # draws times rungs whose numbers stay in the cache
_STEP = 0.01  # in β, for slopes by differences of the smooth functions that give log f at every rung


def make(setting: Setting) -> Made:
    """Linear rungs with equal weights."""
    rbm, base = setting.salakhutdinov_rbm(), setting.mnist_rows().mean(axis=0)
    found = {
        num_rungs: [*_bootstrapped(rbm, base, num_rungs, setting), *_own_runs(rbm, base, num_rungs, setting)]
        for num_rungs in setting.either(FIGURE4_RUNGS, (6, 11, 26, 250))[::-1]  # first what takes longest
    }
    rows = [row for num_rungs in sorted(found) for row in found[num_rungs]]
    low, high = _shared_error(rows)
    notes = (
        "The published values are of the first panel's design. Independent picks from one long run carry less "
        "information about slow mixing than runs do: the second panel shows what a run of that many draws gives.",
        f"The paper's long run had 3 million draws; so has ours, of which at most {MAX_KEPT_DRAWS:,} are kept."
        if not setting.is_quick
        else "Quick: 20 picks from a long run of 200,000 draws instead of 200 from 3 million.",
        "All picks from a long run share its own error, so that each RMSE of the first panel counts as one run. With "
        f"RTS the shared error is {low:.1f} to {high:.1f} times what the picks scatter by, depending on K.",
        "The paper does not say where its rungs are; ours are linear. At K = 6, 11 and 26 the errors of TI and TI-RB "
        "are those of the trapezoid rule between them, which no run makes smaller.",
    )
    return Made("Figure 4: RMSE against K, RBM 784×500", tuple(rows), notes,
                lambda axes, theme: _draw(axes, theme, rows), panels=2)  # fmt: skip


def _own_runs(rbm: RBM, base: np.ndarray, num_rungs: int, setting: Setting) -> list[Row]:
    """Runs of 3000 sweeps of 100 chains, 300,000 draws, after a warm-up of their own."""
    seeds, length = range(setting.either(50, 2)), setting.either(3000, 1000)
    names = {name: m for name, m in OURS.items() if m != "mbar" or num_rungs <= setting.either(250, 26)}
    linear = {"num_rungs": num_rungs, "betas": "uniform", "rung_weights": "uniform"}
    errors: Errors = {name: [] for name in names}
    for first in seeds[::_SHARE]:
        some = seeds[first : first + _SHARE]
        part = setting.piece(
            f"K = {num_rungs}, runs of their own, seeds {some[0]} to {some[-1]}",
            lambda some=some: read_errors(
                rbm, base, REFERENCE_500, some, [*names.values()], num_sweeps=length, **linear
            ),
        )  # fmt: skip
        for name, method in names.items():
            errors[name] += part[method]
    return [Row(PANELS[1], name, num_rungs, "RMSE", rmse(e), None, len(e)) for name, e in errors.items()]


def _bootstrapped(rbm: RBM, base: np.ndarray, num_rungs: int, setting: Setting) -> list[Row]:
    """The paper's design. Of RTS also what the picks differ by among themselves, without the long run's own error."""
    name = f"K = {num_rungs}, picks from a long run"
    errors = setting.piece(name, lambda: _picked_errors(rbm, base, num_rungs, setting))
    known = {name: dict(zip(FIGURE4_RUNGS, values, strict=True)).get(num_rungs) for name, values in FIGURE4.items()}
    rows = [Row(PANELS[0], n, num_rungs, "RMSE", rmse(e), known[n]) for n in OURS if (e := errors[n])]
    scatter = float(np.std(errors["RTS"]))
    return [*rows, Row(PANELS[0], "RTS", num_rungs, "scatter", scatter, None, len(errors["RTS"]))]


def _shared_error(rows: list[Row]) -> tuple[float, float]:
    """The error that all picks of RTS share, over what they scatter by: the least and the most over K."""
    picked = {(r.at, r.quantity): r.ours for r in rows if (r.panel, r.method) == (PANELS[0], "RTS")}
    pairs = [(picked[at, "RMSE"], picked[at, "scatter"]) for at, quantity in picked if quantity == "scatter"]
    ratios = [np.sqrt(max(off**2 - scatter**2, 0.0)) / scatter for off, scatter in pairs]
    return min(ratios), max(ratios)


def _picked_errors(rbm: RBM, base: np.ndarray, num_rungs: int, setting: Setting) -> Errors:
    """Errors of estimates from 10,000 draws each, which are picked at random from those of a long run."""
    stage = _long_run(rbm, base, num_rungs, setting.either(30_000, 2000))
    path = stage.ladder.path
    kept = stage.recording.features
    features, rungs = kept.features.reshape(-1, kept.features.shape[-1]), kept.rungs.ravel()
    slope_matrix = _slope_matrix(path)
    num_picks, rng = setting.either(200, 20), np.random.default_rng(0)
    num_mbar = setting.either(20, 4 if num_rungs <= 26 else 0)  # as in the paper, fewer, for they take long
    errors: Errors = {name: [] for name in OURS}
    for number in range(num_picks):
        picked = rng.integers(0, len(rungs), NUM_DRAWS)
        draws = features[picked].astype(np.float64), rungs[picked]
        stats = _stats(stage.ladder, *draws, slope_matrix)
        answers = {"RTS": rts(stats), "TS": ts(stats), "TI": ti(stats), "TI-RB": ti(stats, rao_blackwell=True)}
        if number < num_mbar:
            answers["MBAR"] = mbar(ReducedDraws(draws[0][:, None], path.feature_matrix(), draws[1][:, None]))
        for name, answer in answers.items():
            errors[name].append(answer.log_z + path.log_z_base() - REFERENCE_500)
    return errors


def _long_run(rbm: RBM, base: np.ndarray, num_rungs: int, num_sweeps: int) -> Stage:
    """One run of 100 chains, whose draws are kept by their features."""
    ladder = Ladder.create(rbm.path(base, uniform_betas(num_rungs)))
    setup = Setup(jax.random.key(0), ladder, rbm.move(), 100, num_steps=num_sweeps)
    return list(walk_stages(SequentialStart(), setup, Keep(features=True)))[-1]


def _slope_matrix(path: AbstractPath) -> np.ndarray:
    """The matrix that turns features into d log f_k/dβ, by differences of second order in β."""
    betas = np.asarray(path.betas, np.float64)
    centres = np.clip(betas, _STEP, 1 - _STEP)
    grid = np.unique(np.concatenate([[0.0, 1.0], *(centres + i * _STEP for i in (-1, 0, 1))]))
    matrix = path.with_betas(grid).feature_matrix()
    low, middle, high = (matrix[np.searchsorted(grid, centres + i * _STEP)] for i in (-1, 0, 1))
    off = ((betas - centres) / _STEP)[:, None]  # −1 at β = 0, 1 at β = 1, otherwise 0
    return ((high - low) / 2 + off * (high - 2 * middle + low)) / _STEP


def _stats(ladder: Ladder, features: np.ndarray, rungs: np.ndarray, slope_matrix: np.ndarray) -> BlockedStats:
    """The statistics of draws that were picked, as a run would have gathered them: one chain, one block."""
    log_prior, guess = (np.asarray(a, np.float64) for a in (ladder.log_prior, ladder.log_z_guess))
    matrix, num_rungs, none = ladder.path.feature_matrix(), len(log_prior), np.zeros(1, np.int64)
    sums, counted, weighted = np.zeros(num_rungs), np.zeros((num_rungs, 3)), np.zeros((num_rungs, 3))
    own = np.sum(features * slope_matrix[rungs], axis=1)
    for power in (1, 2):
        counted[:, power - 1] = np.bincount(rungs, own**power, minlength=num_rungs)
    for part in np.array_split(features, -(-len(features) * num_rungs // _CHUNK)):
        _, posterior = log_mixture_and_parts(part @ matrix.T, log_prior - guess)
        slopes = part @ slope_matrix.T
        sums += posterior.sum(axis=0)
        for power in (1, 2):
            weighted[:, power - 1] += np.einsum("ik,ik->k", posterior, slopes**power)
    return BlockedStats(
        betas=np.asarray(ladder.path.betas, np.float64), log_prior=log_prior, log_z_guess=guess,
        log_sums=np.log(sums)[None, None],
        visits=np.bincount(rungs, minlength=num_rungs)[None, None],
        num_draws=np.array([[len(rungs)]]), num_nonfinite=np.array([[0]]), travel=Travel(none, none, none),
        block_size=len(rungs), slope_reference=np.zeros(num_rungs), counted_slopes=counted[None, None],
        weighted_slopes=weighted[None, None],
    )  # fmt: skip


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row]) -> None:
    for ax, panel in zip(axes, PANELS, strict=True):
        mine = [row for row in rows if row.panel == panel and row.quantity == "RMSE"]
        known = {name: dict(zip(FIGURE4_RUNGS, values, strict=True)) for name, values in FIGURE4.items()}
        known = known if panel == PANELS[0] else {}  # of another design
        draw_rmse(ax, theme, mine, known, panel, "number of rungs K")
