"""Install a wheel in a fresh environment outside the repository, and try what a user would.

python scripts/check_wheel.py dist/tempering-0.1.0-py3-none-any.whl
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

TYPED = "import pathlib, tempering; assert (pathlib.Path(tempering.__file__).parent / 'py.typed').exists()"


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")

        def run(program: str, *arguments: str, good: tuple[int, ...] = (0,)) -> None:
            print("$", program, *arguments)
            status = subprocess.run([programs / program, *arguments], cwd=folder).returncode
            if status not in good:
                sys.exit(f"{program} {' '.join(arguments)} ended with status {status}")

        run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel.resolve()}[train]")
        run("python", "-c", TYPED)
        run("tempering", "--version")
        for command in ("estimate", "compare", "train", "reproduce"):
            run("tempering", command, "--help")
        run("tempering", "verify", "--failures", "--no-cache")
        # Short runs, whose verdict may be anything: status 3 says that it is not good.
        short = ("--chains", "20", "--sweeps", "50", "--no-cache", "--quiet")
        run("tempering", "estimate", "ising:3x4:0.3", *short, good=(0, 3))
        run("tempering", "compare", "ising:3x4:0.3", "--methods", "rts,ais", *short, good=(0, 3))
        Path(folder, "rows.csv").write_text("0,1,1,0\n1,0,0,1\n1,1,0,0\n0,0,1,1\n" * 25)
        run("tempering", "train", "rows.csv", "--hidden", "2", "--updates", "5", "--no-cache", "--quiet", good=(0, 3))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
