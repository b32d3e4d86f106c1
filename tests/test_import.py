"""What `import tempering` loads: no more than is used."""

import subprocess
import sys

import pytest

OPTIONAL = (
    "arviz", "blackjax", "h5py", "matplotlib", "numpyro", "optax", "pandas", "platformdirs", "pymc", "rich",
    "safetensors", "scipy.stats", "sklearn", "torch", "typer", "xarray",
)  # fmt: skip
UNUSED_IN_HELP = tuple(name for name in OPTIONAL if name not in ("platformdirs", "rich", "typer"))
UNUSED_BY_DEFAULT = ("scipy.integrate", "scipy.optimize", "scipy.sparse")
ESTIMATE = "import tempering; tempering.estimate, tempering.LogDensity"
FIRST, ALL = "import tempering", "import tempering\nfor name in tempering.__all__: getattr(tempering, name)"


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        pytest.param(FIRST, ("jax", "numpy", "scipy", *OPTIONAL), id="first"),
        pytest.param(ESTIMATE, UNUSED_BY_DEFAULT, id="estimate"),
        pytest.param(ALL, OPTIONAL, id="all names"),
    ],
)
def test_heavy_modules_wait_until_they_are_used(code, heavy):
    """Kills: a library of an extra that is imported at the top of a module, and a name that is imported early.

    Also kills: a part of SciPy that takes half a second to import, where a default run does not need it.
    """
    asked = f"{code}\nimport sys\nprint(*(name for name in {heavy!r} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


COMMANDS = ("", "estimate", "compare", "train", "sample", "report")


def test_help_needs_no_jax():
    """Kills: a command whose module imports JAX or NumPy at its top, and with it a second of waiting for every help."""
    asked = (
        "import sys\nfrom tempering import cli\n"
        f"for command in {COMMANDS!r}:\n"
        "    try: cli.app([*command.split(), '--help'])\n"
        "    except SystemExit: pass\n"
        f"print('LOADED', *(name for name in {('jax', 'numpy', 'scipy', *UNUSED_IN_HELP)!r} if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout.count("Usage:") == len(COMMANDS)
    assert ran.stdout.partition("LOADED")[2].split() == []
