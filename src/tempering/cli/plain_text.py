"""What is printed where the terminal cannot show every character."""

import codecs
import io
from typing import Any

_NAME = "tempering.plain_text"
_PLAIN = {
    "±": "+/-", "×": "x", "√": "sqrt ", "→": "->", "−": "-", "–": "-", "—": "-", "…": "...", "·": "*", "≤": "<=",
    "≥": ">=", "β": "beta", "α": "alpha", "σ": "sigma", "λ": "lambda", "²": "^2", "³": "^3", "½": "1/2", "Ẑ": "Z",
    "━": "-", "╸": "-", "╺": "-", "│": "|", "─": "-", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
} | dict(zip("▁▂▃▄▅▆▇█", "_.-~=+*#", strict=True))  # fmt: skip


def plain(text: str) -> str:
    """Text in ASCII: ± becomes +/-, × becomes x; what has no such form becomes a question mark."""
    return "".join(_PLAIN.get(letter, letter if letter.isascii() else "?") for letter in text)


def print_plainly_where_needed(*streams: Any) -> None:
    """Let streams write in ASCII what their encoding does not have. An ASCII terminal must not stop a run at its end.

    Args:
        streams: Standard output and standard error.
    """
    codecs.register_error(_NAME, _replaced)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return plain(error.object[error.start : error.end]), error.end
