"""What the library says in its arguments, the command line says in its flags."""

import re
from pathlib import Path

import pytest
import typer

from tempering import cli
from tempering.cli import common
from tempering.cli.flags import _FLAGS, in_flags
from tempering.models import RBM, MomentAveragedRBM


@pytest.mark.parametrize(("said", "shown"), [
    ("run more sweeps, `num_sweeps=4000`", "run more sweeps, --sweeps 4000"),
    ("leave `warmup` out", "leave --warmup out"),
    ("start from the training data, `base=data`", "start from the training data, --base FILE"),
    ("it differs in `keep_draws` (True there, False here)", "it differs in --report (True there, False here)"),
    ('`betas="adaptive"` or `x`', "--ladder adaptive or `x`"),
    ("differs in `model` or `base`", "differs in MODEL or --base"),
    ("take a smaller step, `move=tp.HMC(0.01)`", "take a smaller step, move=tp.HMC(0.01) in Python"),
    ("such as `base=tp.Normal(mean, std)`", "such as base=tp.Normal(mean, std) in its file"),
    (RBM.stuck_advice, "start from the training data, --base FILE, or take a path of averaged moments, --path moments"),
    (MomentAveragedRBM.stuck_advice, "fit again with more knots or from data, --path moments:20 or --base FILE"),
])  # fmt: skip
def test_arguments_become_flags(said, shown):
    assert in_flags(said) == shown


def test_every_flag_exists():
    """Kills: a flag that was renamed, told to people in its old name."""
    commands = typer.main.get_command(cli.app).commands.values()
    known = {name for command in commands for parameter in command.params for name in parameter.opts}
    assert set(_FLAGS.values()) <= known


def test_no_cure_of_the_library_names_a_flag():
    for file in (Path(cli.__file__).parents[1]).rglob("*.py"):
        if "cli" not in file.parts:
            assert not re.search(r"[ \"'(`]--(?!xla_)[a-z]{3}", file.read_text()), file.name  # XLA has flags of its own


def test_the_version(tempering):
    from tempering import __version__

    assert tempering("--version") == (0, f"tempering {__version__}\n", "")


def test_tables_in_files_have_no_trailing_spaces(capsys):
    """Kills: lines that are filled up to the longest one, which may be a finding of 250 characters."""
    common.print_rows([("log Z", "1.0"), ("verdict", "a longer line")])
    assert capsys.readouterr().out == "log Z    1.0\nverdict  a longer line\n"
