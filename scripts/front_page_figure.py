"""Draw docs/figures/front_page.svg from a run of the demo.

    python scripts/front_page_figure.py

Left: log Z along the ladder, estimated and exact. Right: the same after the exact values are subtracted, with the 95 %
band, so that the error can be seen. Needs matplotlib (`pip install 'tempering[plots]'`).
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt

import tempering as tp

PAGE_FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "front_page.svg"
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


def draw(betas: np.ndarray, exact: np.ndarray, answer: tp.LogZ) -> None:
    low, high = np.array(answer.intervals()).T
    figure, (ladder, error) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    some = slice(None, None, 6)
    ladder.plot(betas, answer.values, color=BLUE, lw=2, label="estimate")
    ladder.plot(betas[some], exact[some], "o", ms=5, mfc="none", mew=1.4, color=ORANGE, label="exact")
    ladder.set_title("log Z along the ladder")
    ladder.set_ylabel("log Z(β)")
    error.fill_between(betas, low - exact, high - exact, color=BLUE, alpha=0.25, lw=0, label="95 % interval")
    error.plot(betas, answer.values - exact, color=BLUE, lw=2, label="estimate")
    error.axhline(0, color=ORANGE, lw=1.4, ls="--", label="exact")
    error.set_title("the same, less the exact value")
    error.set_ylabel("difference in nats")
    for axes in (ladder, error):
        axes.set_xlabel("β, from the base (0) to the model (1)")
        axes.legend(frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    error.set_ylim(-0.08, 0.11)
    figure.savefig(PAGE_FIGURE, transparent=True, metadata={"Date": None})


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
    draw(result.betas, exact_log_z(rbm, frequencies, result.betas), result.log_z_by_rung)
    PAGE_FIGURE.write_text(with_both_themes(PAGE_FIGURE.read_text()))
    print(result)


if __name__ == "__main__":
    main()
