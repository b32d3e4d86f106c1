"""Pictures: every function with and without axes of the caller's, light and dark, and what they show."""

import dataclasses

import numpy as np
import pytest

import tempering as tp
from pictured import bare_result, posterior_result, rbm_result, small_comparison
from tempering.plots import style
from tempering.results import Details

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

ROWS = [
    {"update": i, "train": -20 + i, "train_low": -21 + i, "train_high": -19 + i, "log_z": 5.0, "verdict": "good"}
    for i in range(1, 6)
]
PLOTS = {
    "ladder": (tp.plots.ladder, rbm_result),
    "occupancy": (tp.plots.occupancy, rbm_result),
    "transitions": (tp.plots.transitions, rbm_result),
    "traces": (tp.plots.traces, rbm_result),
    "convergence": (tp.plots.convergence, rbm_result),
    "comparison": (tp.plots.comparison, small_comparison),
    "readings": (tp.plots.comparison, rbm_result),
    "training": (tp.plots.training, lambda: ROWS),
    "images": (tp.plots.samples, rbm_result),
    "pairs": (tp.plots.samples, posterior_result),
}


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", PLOTS)
def test_on_a_new_figure_and_on_axes_of_the_callers(name, tmp_path):
    """Guards `ax=`: it is used and returned, nothing else is opened, and both can be written to files."""
    draw, make = PLOTS[name]
    what = make()
    settings = dict(matplotlib.rcParams)
    new = draw(what)
    assert pyplot.get_fignums() == [new.figure.number]
    new.figure.savefig(tmp_path / "new.png")
    figure, axes = pyplot.subplots(1, 2)
    assert draw(what, ax=axes[1]) is axes[1]
    assert not axes[0].has_data()
    assert len(pyplot.get_fignums()) == 2
    figure.savefig(tmp_path / "given.png")
    assert dict(matplotlib.rcParams) == settings  # no global state is touched


@pytest.mark.parametrize("name", PLOTS)
def test_light_and_dark(name):
    """Guards `theme` and what is chosen without it; nothing that is drawn has the colour of its ground."""
    draw, make = PLOTS[name]
    for theme, ground in (("light", style.LIGHT.paper), ("dark", style.DARK.paper)):
        ax = draw(make(), theme=theme)
        assert matplotlib.colors.to_hex(ax.figure.get_facecolor()) == ground
        lines = [line for each in (ax, *ax.child_axes) for line in each.lines]
        assert all(matplotlib.colors.to_hex(line.get_color()) != ground for line in lines)
    with matplotlib.style.context("dark_background"):
        dark = draw(make())
        given = draw(make(), ax=pyplot.figure().add_subplot())
    assert matplotlib.colors.to_hex(dark.figure.get_facecolor()) == style.DARK.paper
    colours = {matplotlib.colors.to_hex(line.get_color()) for line in given.lines}
    assert not colours & {style.LIGHT.blue, style.LIGHT.orange, style.LIGHT.ink}


def test_a_wrong_theme_is_refused():
    with pytest.raises(tp.InputError, match='"light" or "dark"'):
        tp.plots.ladder(rbm_result(), theme="grey")


def test_without_matplotlib(monkeypatch):
    """Guards the extra: one line that names it."""
    monkeypatch.setattr(style, "can_plot", lambda: False)
    with pytest.raises(tp.InputError, match=r"pip install 'tempering\[plots\]'"):
        tp.plots.ladder(rbm_result())


def test_the_ladder_shows_every_rung():
    """Kills: a curve of standard errors in the place of log Z, a ladder upside down."""
    result = rbm_result()
    curve = tp.plots.ladder(result).lines[0].get_xydata()
    np.testing.assert_allclose(curve[:, 0], result.betas)
    np.testing.assert_allclose(curve[:, 1], result.log_z_by_rung.values)


def test_occupancy_marks_rungs_that_were_never_visited():
    """Kills: a share of 0 that a logarithmic axis drops without a word."""
    details = Details.of(rbm_result())
    share = [*details.answer["by_rung"]["share"]]
    share[2] = 0.0
    answer = {**details.answer, "by_rung": {**details.answer["by_rung"], "share": share}}
    ax = tp.plots.occupancy(dataclasses.replace(details, answer=answer))
    found = {line.get_label(): line.get_xdata() for line in ax.lines}
    assert found["never visited"].tolist() == [2]
    assert found["found: ĉ"].tolist() == [0, 1, 3, 4]


def test_transitions_show_the_matrix_and_mark_knots():
    """Kills: a matrix on its side, a knot that is marked at β instead of at its rungs."""
    details = Details.of(rbm_result())
    knot = {"beta": 0.6, "low": 0.5, "high": 0.75, "share": 0.8, "sweeps": 12.0}
    ax = tp.plots.transitions(dataclasses.replace(details, answer={**details.answer, "knot_stretches": [knot]}))
    image = ax.images[0].get_array()
    np.testing.assert_allclose(
        image[..., 3] ** 2, details.arrays["transition_matrix"] / details.arrays["transition_matrix"].max()
    )
    assert ax.images[0].origin == "lower"
    rungs = np.searchsorted(details.by_rung["beta"], [0.5, 0.75])
    across = ax.patches[0]
    assert (across.get_x(), across.get_x() + across.get_width()) == (rungs[0] - 0.5, rungs[1] + 0.5)
    assert ax.get_legend_handles_labels()[1] == ["knot at β = 0.60"]


def test_many_rungs_share_cells():
    """Guards large ladders: rows still add up to 1."""
    matrix = np.random.default_rng(0).dirichlet(np.ones(133), 133)
    details = Details.of(rbm_result())
    many = dataclasses.replace(details, arrays={"transition_matrix": matrix})
    cells = tp.plots.transitions(many).images[0].get_array()[..., 3]
    assert len(cells) == 45
    from tempering.plots.transitions_plot import _in_cells

    np.testing.assert_allclose(_in_cells(matrix).sum(axis=1), 1)


def test_convergence_ends_at_the_whole_run():
    """Kills: blocks in reverse, a first point that has all draws."""
    result = rbm_result()
    curve = tp.plots.convergence(result).lines[0].get_xydata()
    assert curve[-1, 0] == result.num_sweeps
    assert curve[-1, 1] == pytest.approx(
        tp.rts(result.recording.stats, log_z_base=result.log_z_by_rung.values[0]).log_z
    )
    assert curve[0, 1] != curve[-1, 1]
    assert np.all(np.diff(curve[:, 0]) > 0)
    assert tp.plots.convergence(result, error=True).get_yscale() == "log"


def test_a_comparison_names_every_method_and_the_truth():
    """Kills: rows from the bottom up, a truth that is left out, estimates far out that widen the axis for all."""
    found = small_comparison().to_dict()
    ax = tp.plots.comparison(found)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["ais", "ts", "rts"]
    assert ax.lines[0].get_xdata()[0] == found["truth"]
    far = {**found["methods"][0], "method": "far", "log_z": 900.0, "interval": [899.0, 901.0], "verdict": "stuck"}
    ax = tp.plots.comparison({**found, "methods": [*found["methods"], far]})
    assert ax.get_xlim()[1] < 100
    assert [text.get_text() for text in ax.texts] == ["900 ▸"]
    unknown = {**far, "log_z": None, "interval": [None, None]}
    assert [text.get_text() for text in tp.plots.comparison({**found, "methods": [unknown]}).texts] == ["unknown"]


def test_samples_are_images_or_pairs():
    """Guards the choice: bits in a square are images, other numbers are not, and `shape` and `names` decide."""
    assert len(tp.plots.samples(rbm_result()).images) == 1
    ax = tp.plots.samples(posterior_result())
    assert [panel.get_xlabel() for panel in ax.child_axes[-3:]] == ["mu", "theta[0]", "theta[1]"]
    assert len(tp.plots.samples(posterior_result(), names=["theta[1]"]).child_axes) == 1
    with pytest.raises(tp.InputError, match=r"2 × 2 pixels, but v has 9"):
        tp.plots.samples(rbm_result(), shape=(2, 2))
    with pytest.raises(tp.InputError, match=r"`names` must be up to 4 of mu, theta\[0\]"):
        tp.plots.samples(posterior_result(), names=["sigma"])
    for draw in (tp.plots.samples, tp.plots.traces):
        with pytest.raises(tp.InputError, match="keep_draws=True"):
            draw(bare_result())


def test_pictures_for_pages():
    """Guards inline SVG: words for those who cannot see it, colours of the page, identifiers of its own."""
    ax = tp.plots.ladder(rbm_result(), ax=style.new_axes("page"), theme="page")
    svg = style.to_svg(ax, "one", 'log Z <& "more"')
    assert svg.startswith("<svg ")
    assert "<title>log Z &lt;&amp; &quot;more&quot;</title>" in svg
    assert 'aria-label="log Z &lt;&amp; &quot;more&quot;"' in svg
    assert "var(--blue)" in svg
    assert "var(--ink)" in svg
    assert "#030303" not in svg
    assert 'id="figure_1"' not in svg
    assert "url(#p" not in svg
    assert not pyplot.get_fignums()


def answer_with(**changes) -> Details:
    details = Details.of(rbm_result())
    return dataclasses.replace(details, answer={**details.answer, **changes})


def test_a_reading_without_weight_is_not_called_bad():
    """Kills: one legend for a reading that was left out and for an answer that is not good; ticks that touch."""
    readings = Details.of(rbm_result()).answer["readings"]
    weights = [0.0] + [1 / (len(readings) - 1)] * (len(readings) - 1)
    changed = [{**each, "weight": weight} for each, weight in zip(readings, weights, strict=True)]
    ax = tp.plots.comparison(answer_with(readings=changed, verdict="good"))
    assert ax.get_legend_handles_labels()[1][-1] == "of no weight in the answer"
    ax = tp.plots.comparison(answer_with(readings=changed[1:], verdict="stuck"))
    assert ax.get_legend_handles_labels()[1][-1] == "not good by its own verdict"
    ax.set_xlim(450.92, 451.33)
    assert len([tick for tick in ax.get_xticks() if 450.92 < tick < 451.33]) <= 5


@pytest.mark.parametrize("draw", [tp.plots.ladder, tp.plots.convergence])
def test_nothing_to_draw_is_said(draw):
    """Kills: empty axes without a word, and the word where there is a curve."""
    answer = Details.of(rbm_result()).answer
    empty = {name: {**answer[name], "log_z": [None] * len(answer[name]["log_z"])} for name in ("by_rung", "by_sweeps")}
    shown = [[text.get_text() for text in draw(each).texts] for each in (answer_with(**empty), answer_with())]
    assert shown == [["unknown"], []]
