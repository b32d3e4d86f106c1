"""What the repository promises about its own code: files that are read in one sitting, functions that fit a screen."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 350, 40


def name_of(file: Path) -> str:
    return str(file.relative_to(SOURCE))


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From the first statement to the last: neither the signature nor the docstring counts."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Decorated as a command of the command line, whose options are its arguments."""
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_a_function_is_measured_without_its_signature_and_docstring():
    """Kills: a docstring that counts, a last statement of several lines of which one counts."""
    code = 'def f(\n    a,\n    b,\n):\n    """Two.\n\n    Lines.\n    """\n    c = a\n    return (\n        c\n    )\n'
    (function,) = ast.parse(code).body
    assert lines_of_code(function) == 4
    (nothing,) = ast.parse('def f():\n    """Nothing."""\n').body
    assert lines_of_code(nothing) == 0


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_files_are_read_in_one_sitting(file):
    assert len(file.read_text().splitlines()) <= MOST_LINES_OF_A_FILE


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_functions_fit_a_screen(file):
    functions = [
        n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = {
        f.name: lines_of_code(f) for f in functions if lines_of_code(f) > MOST_LINES_OF_A_FUNCTION and not is_command(f)
    }
    assert not long, f"more than {MOST_LINES_OF_A_FUNCTION} lines: {long}"
