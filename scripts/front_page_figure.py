"""Draw the two plots of the front page, docs/figures/front_page_*.svg, from a run of the demo.

    python scripts/front_page_figure.py

First: log Z along the ladder, estimated and exact. Second: the same after the exact values are subtracted, with the
95 % band, so that the error can be seen. Needs matplotlib (`pip install 'tempering[plots]'`).
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import tempering as tp

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
# Stand-ins that matplotlib writes into the file. The browser replaces them as the reader's system asks.
COLOURS = {  # stand-in: (name, on a light page, on a dark page)
    "#010101": ("ink", "#24292f", "#d8dee9"),
    "#020202": ("faint", "#9aa3ad", "#6b7482"),
    "#030303": ("blue", "#2457c5", "#7aa2f7"),
    "#040404": ("orange", "#c2410c", "#ff9e64"),
}
INK, FAINT, BLUE, ORANGE = COLOURS


def exact_log_z(rbm: tp.RBM, base: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """log Z at every β by enumeration. A rung of the path is itself an RBM."""
    weights, vbias, hbias = rbm.on_host()
    base_bias = np.asarray(rbm.base_logits(base))
    rungs = (tp.RBM(b * weights, (1 - b) * base_bias + b * vbias, b * hbias) for b in betas)
    return np.array([rung.exact_log_z() for rung in rungs])


def draw_ladder(axes: Axes, betas: np.ndarray, exact: np.ndarray, answer: tp.LogZ) -> None:
    some = slice(None, None, 6)
    axes.plot(betas, answer.values, color=BLUE, lw=2, label="estimate")
    axes.plot(betas[some], exact[some], "o", ms=5, mfc="none", mew=1.4, color=ORANGE, label="exact")
    axes.set_title("log Z along the ladder")
    axes.set_ylabel("log Z(β)")


def draw_error(axes: Axes, betas: np.ndarray, exact: np.ndarray, answer: tp.LogZ) -> None:
    low, high = np.array(answer.intervals()).T
    axes.fill_between(betas, low - exact, high - exact, color=BLUE, alpha=0.25, lw=0, label="95 % interval")
    axes.plot(betas, answer.values - exact, color=BLUE, lw=2, label="estimate")
    axes.axhline(0, color=ORANGE, lw=1.4, ls="--", label="exact")
    axes.set_title("The same, minus the exact value")
    axes.set_ylabel("difference in nats")
    axes.set_ylim(-0.2, 0.2)


def with_both_themes(svg: str) -> str:
    """Replace the stand-ins by colours that follow the reader's light or dark theme."""
    light = "".join(f"--{name}:{colour};" for name, colour, _ in COLOURS.values())
    dark = "".join(f"--{name}:{colour};" for name, _, colour in COLOURS.values())
    style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    for stand_in, (name, _, _) in COLOURS.items():
        svg = svg.replace(stand_in, f"var(--{name})")
    return svg.replace(" <defs>", f" {style}\n <defs>", 1)


def main() -> None:
    rbm, frequencies = tp.load_example()
    result = tp.estimate(rbm, base=frequencies)
    mpl.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "front page", "font.family": "sans-serif",
        "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "axes.edgecolor": FAINT,
        "xtick.color": FAINT, "ytick.color": FAINT, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    })  # fmt: skip
    exact = exact_log_z(rbm, frequencies, result.betas)
    for name, draw in (("ladder", draw_ladder), ("error", draw_error)):
        figure, axes = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
        draw(axes, result.betas, exact, result.log_z_by_rung)
        axes.set_xlabel("β, from the base (0) to the model (1)")
        axes.legend(frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        file = FIGURES / f"front_page_{name}.svg"
        figure.savefig(file, transparent=True, metadata={"Date": None})
        file.write_text(with_both_themes(file.read_text()))
    print(result)


if __name__ == "__main__":
    main()
