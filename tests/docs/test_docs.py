"""What the README and the pages show is what happens: examples run, links lead somewhere, names exist."""

import ast
import importlib.util
import math
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import typer

import tempering
from pages import FENCE, NUMBER, ROOT, Block, blocks_of, commands_of, numbers_in
from tempering import cli
from tempering.diagnosis import checks
from tempering.estimators.methods import METHODS

PAGES = sorted((ROOT / "docs").rglob("*.md"))
MARKDOWN = [*sorted(ROOT.glob("*.md")), *PAGES]


def page_id(file: Path) -> str:
    return str(file.relative_to(ROOT))


def needed_by(block: Block) -> list[str]:
    """Packages beyond our own that a block marked "needs NAME" imports."""
    return re.findall(r"^needs (\w+)$", block.mark)


def prose_of(file: Path) -> str:
    """The page without its code, so that brackets in code are not taken for links."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", file.read_text()))


def called(command: str, monkeypatch) -> int:
    """The exit status of `tempering ...`, run in this process so that pages share what was compiled.

    How many CPU devices there are can be chosen only once in a process, and conftest.py has done it.
    """
    program, *arguments = shlex.split(command)
    assert program == "tempering", command
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    monkeypatch.setattr("tempering.cli.common.use_cores", lambda devices: None)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


# Some seconds and more each, and what they show is tested elsewhere.
LONG = (
    *("paths.md", "paths_rbm.md", "bayes.md", "any_model.md", "stopping.md", "moves.md", "discrete.md"),
    *("index.md", "training.md", "comparing.md", "own_loop.md", "ladders.md", "long_runs.md", "plots.md"),
    *("verdicts.md", "adjusting.md", "knots.md", "tracking.md", "annealing.md", "controls.md", "command_line.md"),
    *("sequential.md", "continuous.md", "expectations.md"),
)
# What `make test` runs instead: smaller models, and fewer chains, rungs and sweeps, of the same sizes wherever they can
# be, so that programs are shared. The verdict of a command, and its status, may be another.
_FEW = "--chains 20 --rungs 20"
_ESTIMATE = "tempering estimate rbm.npz --data data.npz"
_COMPARE = "tempering compare rbm.npz --data data.npz --methods"
_TRAIN = "tempering train data.npz --hidden 8 --method pcd --optimizer adam"
SHORTENED = {
    "tempering estimate ising:16x16:0.44": "tempering estimate ising:4x6:0.44 --chains 20 --sweeps 100",
    f"{_ESTIMATE} --target-error 0.02": f"{_ESTIMATE} --target-error 0.2 --sweeps 100 {_FEW}",
    f"{_COMPARE} rts,mbar,ti_rb,sams,ais,raise --budget 600": f"{_COMPARE} rts,mbar,ais,raise --budget 60 {_FEW}",
    f"{_ESTIMATE} --out run": f"{_ESTIMATE} --out run --sweeps 100 {_FEW}",
    f"{_TRAIN} --updates 40 --chains 100 --sweeps 5 --out fit":
        f"{_TRAIN} --updates 4 --chains 40 --no-track --out fit",
}  # fmt: skip
SHORTENED_CODE = {
    "target_error=0.05, seed=0": "target_error=0.2, seed=0, num_chains=20, num_rungs=20",
    "tp.Normal(jnp.zeros(4), 4.0))": "tp.Normal(jnp.zeros(4), 4.0)), num_chains=20, move=tp.RandomWalk(1.0)",
}
ELSEWHERE = ("tracking_pytorch.md", "tracking_sklearn.md")  # run, and held to more, by test_tracking_examples.py


# PyTensor warns on import where no BLAS is installed, which JAX, the only back end here, does not need.
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize(
    ("file", "is_short"),
    [
        pytest.param(f, is_short, marks=[pytest.mark.slow] * (not is_short), id=page_id(f))
        for f in (ROOT / "README.md", *PAGES)
        for is_short in ([True, False] if f.name == "README.md" else [f.name not in LONG])
        if f.name not in ELSEWHERE
    ],
)
def test_examples_run(file, is_short, tmp_path, monkeypatch):
    """Every Python block, in one namespace per page, and every console line that is marked as runnable."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks_of(file):
        if block.language == "python":
            if not all(importlib.util.find_spec(name) for name in needed_by(block)):
                continue  # an optional package that is not there
            code = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
            for long, short in SHORTENED_CODE.items() if is_short else ():
                code = code.replace(long, short)
            exec(compile(code, str(file), "exec"), namespace)
        elif block.mark.startswith("runnable"):
            expected = int(NUMBER.findall(block.mark)[0]) if "exits" in block.mark else 0
            for command in commands_of(block):
                if is_short and command in SHORTENED:
                    assert called(SHORTENED[command], monkeypatch) in (0, 3), command
                else:
                    assert called(command, monkeypatch) == expected, command


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.name)
def test_examples_name_what_exists(file):
    """On every page, also on those that only the study runs: names of the package, commands and their options.

    Kills: a name or an option that was renamed in the package alone.
    """
    for block in blocks_of(file):
        if block.language == "python":
            for module, name in package_names_in(block.text):
                thing = importlib.import_module(module)
                for part in name.split("."):
                    assert hasattr(thing, part), f"{file.name}:{block.line}: {module}.{name}"
                    thing = getattr(thing, part)
        for command in commands_of(block):
            program, *arguments = shlex.split(command)
            if program == "tempering" and arguments:
                group = typer.main.get_command(cli.app)
                assert arguments[0] in group.commands, f"{file.name}:{block.line}: {command}"
                group.commands[arguments[0]].make_context(arguments[0], arguments[1:])  # refuses unknown options


def package_names_in(code: str) -> set[tuple[str, str]]:
    """Modules and dotted names in them that a block imports from the package or reaches through `tp`."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tempering":
            names |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            if re.fullmatch(r"tp(\.\w+)+", dotted):
                names.add(("tempering", dotted.removeprefix("tp.")))
    return names


def test_every_marked_block_is_found():
    """Kills: a comment that is misspelt or not right before its block, so that nothing is run."""
    for file in MARKDOWN:
        found = [block for block in blocks_of(file) if block.mark]
        marks = re.findall(r"^<!-- (?!made by scripts/|end of what scripts/)", file.read_text(), re.M)
        assert len(found) == len(marks), file.name
        for block in found:
            if block.language == "python":
                assert re.fullmatch(r"needs \w+", block.mark), f"{file.name}:{block.line}"
                continue
            assert re.fullmatch(r"demo|runnable(, exits \d+)?", block.mark), f"{file.name}:{block.line}"
            assert block.language == "console"
            assert commands_of(block)


# What varies from run to run of the demo, which decides its own length: standard deviations of the logarithms of the
# numbers in a row, over seeds 0 to 29. 0 is for numbers that are given.
SCATTER = {
    "standard error": (0.087, 0, 0.133, 0.251),
    "rungs": (0, 0.023, 0.073, 0.112),
    "round trips": (0.088,),
    "chains × sweeps": (0, 0.109, 0.099),
}


def test_the_readme_shows_what_the_demo_prints(monkeypatch, capsys):
    """The same rows in the same words, and numbers that agree as two independent runs do.

    Not to the last digit: another CPU rounds matrix products differently, a bit of one chain then falls the other
    way, and from there on that chain is another one. Two such runs differ by less than 5√2 standard errors but for
    one case in a million, and so do the logarithms of other numbers.
    """
    (demo,) = [block for block in blocks_of(ROOT / "README.md") if block.mark == "demo"]
    (command,) = commands_of(demo)
    shown = rows_of(demo.text.split("\n", 1)[1])
    assert called(command, monkeypatch) == 0
    printed = capsys.readouterr().out
    came = rows_of(printed)
    advice = f"The README shows something else than `{command}` prints. Paste this into it:\n{printed}"
    assert list(came) == list(shown), advice
    assert {"log Z", "95 % interval", "exact log Z", "verdict"} <= set(came)
    for label, text in shown.items():
        in_words = [NUMBER.sub("#", row).replace("(outside", "(inside") for row in (came[label], text)]  # 1 in 20 is
        assert in_words[0] == in_words[1], f"{label}: {advice}"
        if label in SCATTER:
            for now, then, scatter in zip(numbers_in(came[label]), numbers_in(text), SCATTER[label], strict=True):
                assert abs(math.log(now / then)) <= 5 * 2**0.5 * scatter, f"{label}: {advice}"
            continue
        std_error = numbers_in(text)[1] if label == "annealing says" else numbers_in(shown["standard error"])[0]
        tolerance = {"exact log Z": 2e-4, "seconds": float("inf")}.get(label, 5 * 2**0.5 * std_error)
        assert numbers_in(came[label]) == pytest.approx(numbers_in(text), abs=tolerance), f"{label}: {advice}"


def rows_of(table: str) -> dict[str, str]:
    """A printed table by its labels; a value that was wrapped is joined again."""
    rows, label = {}, ""
    for line in filter(None, map(str.rstrip, table.splitlines())):
        if not line.startswith(" "):
            label, line = re.split(r"\s{2,}", line, maxsplit=1)
        rows[label] = f"{rows.get(label, '')} {line.strip()}".strip()
    return rows


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: page_id(file))
def test_links_lead_somewhere(file):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(file)):
        if target.startswith("https://"):
            continue
        if "/gallery/" in target:  # made when the site is built
            assert target.rpartition("/")[2] in gallery_files(), f"{page_id(file)} links to {target}"
            continue
        if re.fullmatch(r"notebooks/\w+\.md", target):  # likewise, of scripts
            target = target.removesuffix(".md") + ".py"
        name, _, anchor = target.partition("#")
        page = (file.parent / name).resolve() if name else file
        assert page.exists(), f"{page_id(file)} links to {target}"
        assert page.is_relative_to(ROOT / "docs") or file.parent == ROOT, f"{target} is not on the site"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose_of(page), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
            assert anchor in slugs, f"{file.name} links to {target}"


def gallery_files() -> tuple[str, ...]:
    return runpy.run_path(str(ROOT / "scripts" / "gallery.py"))["FILES"]


def test_the_site_lists_every_page():
    """In five sections, each page once."""
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n", 1)[1].split("\n\n", 1)[0]
    listed = re.findall(r"^ +- .+: (\S+\.md)$", nav, re.M)
    notebooks = [page.with_suffix(".md") for page in (ROOT / "docs" / "notebooks").glob("*.py")]
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in [*PAGES, *notebooks])
    assert re.findall(r"^  - (\w+):$", nav, re.M) == ["Start", "Guides", "Methods", "Reference", "Measured"]


def test_the_front_page_shows_the_demo_of_the_readme():
    shown = [[b.text for b in blocks_of(ROOT / name) if b.mark == "demo"] for name in ("README.md", "docs/index.md")]
    assert len(shown[0]) == 1
    assert shown[0] == shown[1]


def test_the_guides_know_every_verdict_threshold_method_and_option():
    guides = {name: (ROOT / "docs" / "guides" / f"{name}.md").read_text() for name in GUIDES}
    for verdict in tempering.Verdict:
        assert f"\n| `{verdict.name}` |" in guides["verdicts"]
    thresholds = {name for name in vars(checks) if name.startswith(("MIN_", "MAX_"))}
    assert set(re.findall(r"`((?:MIN|MAX)_\w+)`", guides["verdicts"])) == thresholds
    for method in METHODS:
        assert f"`{method}`" in guides["comparing"]
    text = "".join(guides.values())
    for option in options_of_the_command_line() - {"--help"}:
        assert re.search(f"`{option}[` ]", text), option


GUIDES = ("command_line", "verdicts", "comparing", "training")


def options_of_the_command_line() -> set[str]:
    commands = typer.main.get_command(cli.app).commands.values()
    return {name for command in commands for parameter in command.params for name in parameter.opts if "--" in name}


def test_the_reference_of_the_command_line_is_what_its_script_makes():
    """Every option with its help and its default, as `tempering --help` says it."""
    script = runpy.run_path(str(ROOT / "scripts" / "command_line_page.py"))
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text()
    assert page == script["page"](), "run `python scripts/command_line_page.py`"
    for option in options_of_the_command_line() - {"--help"}:
        assert f"`{option}`" in page


def test_rows_of_the_map_of_the_paper_name_what_exists():
    """Functions and tests, or the reason why there is none. Kills: a function or a test that was renamed."""
    head = (ROOT / "docs" / "paper_map.md").read_text().split("## Not in the paper")[0]
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 50
    for paper, _, here, tested in rows:
        names = re.findall(r"`([a-z_]+\.[\w.]+)`", here.replace("`experiments/", "`"))
        assert "absent:" in here or "absent as" in here or names, paper
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tested)
        assert tests or (tested == "–" and "absent:" in here), paper
        for file, test in tests:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{paper}: {file}::{test}"


def test_names_in_the_map_of_the_paper_exist():
    columns = re.sub(r"`(tests|experiments)/[^`]*`", "", (ROOT / "docs" / "paper_map.md").read_text())
    names = re.findall(r"`([\w.]+\.[\w.]+)`", columns)
    assert len(names) > 30
    for name in names:
        thing, left = module_of(name)
        for part in left:
            assert hasattr(thing, part), name
            thing = getattr(thing, part)


def test_names_in_the_text_of_the_pages_exist():
    """Kills: a name that was changed in the code and not on a page. Names in examples are tested by running them."""
    found = 0
    for file in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]:  # the changelog has old names too
        for name in re.findall(r"`(?:tp|tempering)\.([\w.]+\w)", FENCE.sub("", file.read_text())):
            thing, left = module_of(name, default=tempering)
            for part in left:
                assert hasattr(thing, part), f"{page_id(file)}: {name}"
                thing = getattr(thing, part)
            found += 1
    assert found > 80


def module_of(name: str, default: object = None) -> tuple[object, list[str]]:
    """The longest part of a dotted name that is a module, and what is left.

    Not by attributes: `tempering.estimators.rts` is a function, and a module of the same name is behind it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(["tempering", *parts[:length]])), parts[length:]
        except ModuleNotFoundError:
            continue
    assert default is not None, f"{name} is in no module of tempering"
    return default, parts


def test_the_page_of_results_is_what_its_script_makes():
    """No figure on it is typed in by hand."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    assert (ROOT / "docs" / "measured" / "results.md").read_text() == script["page"]()
