"""Draw the pictures and reports of docs/guides/plots.md while the site is built.

    python scripts/gallery.py FOLDER     # or `mkdocs build`, which calls `on_files`

Needs matplotlib and Optax (`pip install 'tempering[plots,train]'`).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PICTURES = (
    "ladder", "occupancy", "transitions", "traces", "convergence", "error", "comparison", "images", "pairs", "training",
)  # fmt: skip
FILES = (*(f"{name}.svg" for name in PICTURES), "demo.html", "posterior.html", "stuck.html")


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: add what is drawn to the files of the site."""
    from mkdocs.structure.files import File

    for name, text in made().items():
        files.append(File.generated(config, f"figures/gallery/{name}", content=text))
    return files


def made() -> dict[str, str]:
    """All files of the gallery by name."""
    import tempering as tp
    from tempering.report import run_report

    rbm, frequencies = tp.load_example()
    demo = tp.estimate(rbm, frequencies, keep_draws=True, progress=False)
    methods = "auto,rts,ts,rsd,ti_rb,stepping_up,stepping_down,bar,mbar,ais,reverse_ais"
    compared = tp.compare(rbm, frequencies, methods=methods, num_sweeps=150, progress=False)
    schools, stuck = posterior(), held_up()
    if stuck.verdict is not tp.Verdict.KNOT:
        raise SystemExit("docs/guides/plots.md shows a run with a knot, and this one has none: choose another")
    plots = tp.plots
    drawn = {
        "ladder": picture("ladder", plots.ladder, demo),
        "occupancy": picture("occupancy", plots.occupancy, demo),
        "transitions": picture("transitions", plots.transitions, stuck, (4.6, 4.0)),
        "traces": picture("traces", plots.traces, demo),
        "convergence": picture("convergence", plots.convergence, demo),
        "error": picture("error", plots.convergence, demo, error=True),
        "comparison": picture("comparison", plots.comparison, compared, (5.0, 3.9)),
        "images": picture("images", plots.samples, demo, (5.0, 3.1)),
        "pairs": picture("pairs", plots.samples, schools, (5.0, 4.6)),
        "training": picture("training", plots.training, trained()),
    }
    pages = {
        "demo.html": run_report(demo, title="the demo"),
        "posterior.html": run_report(schools, title="eight schools"),
        "stuck.html": run_report(stuck, title="a Potts model that holds its chains up"),
    }
    return {f"{name}.svg": svg for name, svg in drawn.items()} | pages


def picture(
    name: str, draw: Callable[..., Any], what: Any, size: tuple[float, float] = (5.0, 3.4), **options: Any
) -> str:
    """An SVG file that is light or dark as the reader's system asks."""
    from tempering.plots import style

    svg = style.to_svg(draw(what, ax=style.new_axes("page", size), theme="page", **options), name, name)
    names = ("ink", "faint", "blue", "orange", "red", "green")
    light, dark = (";".join(f"--{n}:{getattr(t, n)}" for n in names) for t in (style.LIGHT, style.DARK))
    rules = f"svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}text{{font-family:sans-serif!important}}"
    start, _, rest = svg.partition(">")
    return f"{start}><style>{rules}</style>{rest}"


def posterior() -> Any:
    """Eight schools (Rubin 1981)."""
    import jax.numpy as jnp
    import numpy as np

    import tempering as tp

    effects = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    errors = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_likelihood(x: Any) -> Any:
        theta = x["mu"] + jnp.exp(x["log_tau"]) * x["z"]
        return jnp.sum(-0.5 * ((effects - theta) / errors) ** 2 - jnp.log(errors * jnp.sqrt(2 * jnp.pi)))

    parts = {"log_tau": tp.Normal(1.0, 1.0), "mu": tp.Normal(0.0, 5.0), "z": tp.Normal(np.zeros(8), 1.0)}
    return tp.estimate(tp.Posterior(log_likelihood, tp.Product(parts)), progress=False)


def held_up() -> Any:
    """A Potts model with a transition of first order, which chains rarely pass: a knot."""
    import tempering as tp

    how = {"num_sweeps": 200, "num_rungs": 40, "warmup": "annealed", "keep_draws": True, "progress": False}
    return tp.estimate(tp.Potts.square(20, 8, 8, 2.4), **how)


def trained() -> Any:
    """A short training run on draws of the demo's frequencies, in two kinds."""
    import numpy as np

    import tempering as tp

    rng, (_, frequencies) = np.random.default_rng(0), tp.load_example()
    kinds = np.stack([frequencies, frequencies[::-1]])
    data = (rng.random((600, 64)) < kinds[rng.integers(2, size=600)]).astype(np.uint8)
    settings = tp.training.RunSettings(
        num_hidden=16,
        num_updates=150,
        num_chains=60,
        num_rungs=20,
        check="ais:50",
        optimizer="adam",
        learning_rate=0.01,
    )
    with tp.training.TrainingRun(data[:400], data[400:], settings=settings) as run:
        for _ in run:
            pass
        return run.outcome()


if __name__ == "__main__":
    for file, text in made().items():
        (Path(sys.argv[1]) / file).write_text(text)
