"""Figure 2: RTS, MBAR and thermodynamic integration on a mixture of two 10-d normals, by number of samples."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tempering.estimators.methods import METHODS, TemperedRun
from tempering.ladder import power_betas
from tempering.models import paper_mixture
from tempering.paper.making import Errors, Made, Row, Setting, colours_of, rmse
from tempering.paper.published import FIGURE2
from tempering.paper.runs import one_chain, walked
from tempering.plots import style
from tempering.sampling import AbstractWarmup
from tempering.stats import Keep
from tempering.warmups import AnnealedStart, InitialIterations, Tuned

NUM_SAMPLES = (1100, 2000, 4000)
NUM_RUNGS = 200
_SHARE = 10  # seeds in one piece
WARMUPS: dict[str, AbstractWarmup] = {
    "annealed start": Tuned(AnnealedStart(respaces=True)),
    "the paper's initial iterations": Tuned(InitialIterations(steps=50, max_iterations=20, min_iterations=5)),
}


def make(setting: Setting) -> Made:
    """One chain a run after a warm-up with 100 chains; all methods read the same draws. The truth is 0."""
    seeds, rows = range(setting.either(100, 10)), []
    for name, warmup in WARMUPS.items():
        errors: Errors = {name: [] for name in _names()}
        for first in seeds[::_SHARE]:
            some = seeds[first : first + _SHARE]
            title = f"{name}, seeds {some[0]} to {some[-1]}"
            part = setting.piece(title, lambda some=some, warmup=warmup: _errors(some, warmup))
            for key, values in errors.items():
                values += part[key]
        for method, values in FIGURE2.items():
            for i, at in enumerate(NUM_SAMPLES):
                error = rmse(errors[f"{method} {at}"])
                rows.append(Row(name, method, at, "RMSE", error, float(np.exp(values[i])), len(seeds)))
    notes = (
        "The paper does not say how many rungs it used, nor how its chains began. Here 200 rungs are spaced by the "
        "warm-up in the first panel, and are those of a power of 4 in the second.",
        f"{len(seeds)} runs tell log RMSEs apart that differ by {1.4 / (2 * len(seeds)) ** 0.5:.2f} or more.",
    )
    return Made(
        "Figure 2: two 10-d normals", tuple(rows), notes, lambda axes, theme: _draw(axes, theme, rows), panels=2
    )


def _errors(seeds: range, warmup: AbstractWarmup) -> Errors:
    """log Z, which is 0, by method and number of samples."""
    runs = [_answers(seed, warmup) for seed in seeds]
    return {name: [run[name] for run in runs] for name in _names()}


def _names() -> list[str]:
    return [f"{method} {at}" for method in FIGURE2 for at in NUM_SAMPLES]


def _answers(seed: int, warmup: AbstractWarmup) -> dict[str, float]:
    """log Z by each method after each number of samples."""
    stage, found = one_chain(paper_mixture(), seed, power_betas(NUM_RUNGS), warmup), {}
    for num_samples in NUM_SAMPLES:
        stage = walked(dataclasses.replace(stage, num_steps=num_samples), seed, Keep(slopes=True, features=True))
        run = TemperedRun(stage.ladder.path, stage.recording)
        for method in FIGURE2:
            found[f"{method} {num_samples}"] = METHODS[method].answer(run, log_z_base=0.0).log_z
    return found


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row]) -> None:
    colours = colours_of([*FIGURE2], theme)
    for ax, panel in zip(axes, WARMUPS, strict=True):
        for method in FIGURE2:
            mine = [row for row in rows if row.panel == panel and row.method == method]
            at = [row.at for row in mine]
            ax.plot(at, [np.log(row.ours) for row in mine], "o-", ms=4, color=colours[method], label=method)
            ax.plot(at, FIGURE2[method], "x:", ms=5, lw=1, color=colours[method])
        ax.set(xlabel="samples of one chain", ylabel="log RMSE", title=f"{panel}; dotted: published")
    style.add_legend(axes[0], theme, fontsize=7)
