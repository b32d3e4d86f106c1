"""The tracker in other people's loops: the pages run, and what they read is the likelihood, by enumeration."""

from pathlib import Path
from typing import Any

import pytest
from scipy.special import stdtrit

import tempering as tp
from pages import ROOT, blocks_of, numbers_in
from tempering import Verdict

PYTORCH, SKLEARN = (ROOT / "docs" / "guides" / name for name in ("tracking_pytorch.md", "tracking_sklearn.md"))


def namespace_of(page: Path) -> dict[str, Any]:
    """What the page's one block of Python leaves behind."""
    (block,) = [block for block in blocks_of(page) if block.language == "python"]
    namespace = {}
    exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    return namespace


def assert_reads(page: dict[str, Any], log_z: float, mean_log_density: float) -> None:
    """The last log Z is off by at most 4 of its errors, which are small, and so is the likelihood read by it.

    Log Z too, since a likelihood may stand still while parameters move. Seeds are fixed: on one machine this passes
    always or never. A CPU that rounds differently walks other chains, and there a right program fails with probability
    8e-4 (Student with 19 degrees).
    """
    tracked, read = page["tracked"], page["likelihood"]
    assert tracked.verdict is Verdict.GOOD
    assert 0 < tracked.std_error < 0.5
    off = abs(tracked.log_z - log_z) / tracked.std_error
    assert off < 4, f"log Z {tracked.log_z:.3f} ± {tracked.std_error:.3f}, exactly {log_z:.3f}"
    assert (read.num_rows, read.std_error) == (len(page["data"]), tracked.std_error)
    assert read.value == pytest.approx(mean_log_density - tracked.log_z, abs=1e-3)  # parameters are kept in float32


@pytest.mark.slow  # test_tracker.py holds the band while an RBM is trained
def test_a_loop_of_pytorch_reads_its_likelihood():
    """Against PyTorch's own free energy. Kills: no prediction, hidden biases of 0, a tracker left behind."""
    pytest.importorskip("torch", reason="docs/guides/tracking_pytorch.md needs PyTorch: pip install 'tempering[torch]'")
    page = namespace_of(PYTORCH)
    rbm = page["rbm"].double().requires_grad_(False)
    log_z = tp.RBM(rbm.W, rbm.vbias, rbm.hbias).exact_log_z()
    assert_reads(page, log_z, -float(rbm.free_energy(page["data"].double()).mean()))


@pytest.mark.slow  # likewise
def test_a_loop_of_scikit_learn_reads_its_likelihood(capsys):
    """And while one number fell the other rose, as the page says: what it shows is what it prints. Kills: the same."""
    pytest.importorskip(
        "sklearn", reason="docs/guides/tracking_sklearn.md needs scikit-learn: pip install 'tempering[digits]'"
    )
    page = namespace_of(SKLEARN)
    rbm = page["rbm"]
    trained = tp.RBM(rbm.components_.T, rbm.intercept_visible_, rbm.intercept_hidden_)
    assert_reads(page, trained.exact_log_z(), float(trained.log_density(page["data"]).mean()))

    printed = capsys.readouterr().out
    came = rows_of(printed)
    (shown,) = [rows_of(block.text) for block in blocks_of(SKLEARN) if block.language == "text"]
    for step, row in shown.items():
        assert_same_row(came[step], row, f"Step {step} has changed. Paste this into the page:\n{printed}")
    assert shown[260][2] < shown[240][1]  # the bands do not touch
    assert shown[260][3] > shown[240][3]


def rows_of(table: str) -> dict[int, list[float]]:
    """Likelihood, both ends of its band, and pseudo-likelihood, by step."""
    rows = [numbers_in(line) for line in table.splitlines()]
    return {int(step): rest for step, *rest in rows}


def assert_same_row(came: list[float], shown: list[float], advice: str) -> None:
    """As two runs of the chains agree: within 7√2 errors but for one case in 10⁶ (Student with 19 degrees).

    Training is the same everywhere: float64, with random numbers of NumPy's.
    """
    std_error = max(high - low for _, low, high, _ in (came, shown)) / 2 / float(stdtrit(19, 0.975))
    assert came[0] == pytest.approx(shown[0], abs=7 * 2**0.5 * std_error), advice
    assert came[3] == pytest.approx(shown[3], abs=0.02), advice
