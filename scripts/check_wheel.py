"""Install a wheel in a fresh environment outside the repository, and try what a user would.

    python scripts/check_wheel.py dist/tempering-0.1.0-py3-none-any.whl [DATA]

DATA is a directory with the paper's data, for `tempering reproduce`; without it they are downloaded.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

RIGHT = "import tempering as tp\n\nnumber: float = tp.estimate(tp.Ising.square(3, 4, 0.3)).log_z\n"
WRONG = RIGHT.replace("float", "str")  # which a type checker sees only if it finds the types
# Short runs, whose verdict may be anything: status 3 says that it is not good.
SHORT = ("--chains", "20", "--sweeps", "50", "--no-cache", "--quiet")
TRIED = (
    ("estimate", "ising:3x4:0.3", *SHORT, "--out", "run", "--report", "estimate.html"),
    ("report", "run"),
    ("compare", "ising:3x4:0.3", "--methods", "rts,ais", *SHORT, "--report", "compare.html"),
    ("sample", "ising:3x4:0.3", *SHORT, "--out", "draws.npz"),
    ("train", "rows.csv", "--hidden", "2", "--updates", "5", "--no-cache", "--quiet", "--report", "train.html"),
    ("verify",),
    ("reproduce", "fig1", "--quick"),
)
WRITTEN = (
    "estimate.html", "run/report.html", "compare.html", "draws.npz", "train.html", "figures/figure1.csv",
    "figures/figure1.png",
)  # fmt: skip


class Environment:
    """A fresh environment in a folder, in which programs run as for somebody who has no clone."""

    def __init__(self, folder: Path):
        self.folder = folder
        venv.create(folder / "env", with_pip=True)
        self.programs = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")

    def run(self, program: str, *arguments: str, good: tuple[int, ...] = (0,)) -> str:
        """Run a program, and end where its status is not good; what it printed."""
        print("$", program, *arguments, flush=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        ran = subprocess.run(
            [self.programs / program, *arguments], cwd=self.folder, env=clean, stdout=subprocess.PIPE, text=True
        )
        print(ran.stdout, end="")
        if ran.returncode not in good:
            sys.exit(f"{program} {' '.join(arguments)} ended with status {ran.returncode}")
        return ran.stdout

    def install(self, *packages: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def main(wheel: Path, data: Path | None = None) -> None:
    where = () if data is None else ("--data-dir", str(data.resolve()))
    with tempfile.TemporaryDirectory() as folder:
        fresh = Environment(Path(folder))
        fresh.install(f"{wheel.resolve()}[train,plots]")
        fresh.run("tempering", "--version")
        fresh.run("tempering", "--help")
        (fresh.folder / "rows.csv").write_text("0,1,1,0\n1,0,0,1\n1,1,0,0\n0,0,1,1\n" * 25)
        for command, *arguments in TRIED:
            fresh.run("tempering", command, "--help")
            fresh.run("tempering", command, *arguments, *(where if command == "reproduce" else ()), good=(0, 3))
        missing = [file for file in WRITTEN if not (fresh.folder / file).stat().st_size]
        if missing:
            sys.exit(f"empty files: {missing}")
        fresh.install("basedpyright")
        for text, status in ((RIGHT, 0), (WRONG, 1)):
            (fresh.folder / "typed.py").write_text(text)
            python = str(fresh.programs / "python")
            fresh.run("basedpyright", "--level", "error", "--pythonpath", python, "typed.py", good=(status,))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
