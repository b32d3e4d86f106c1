"""One self-contained page: whatever is put into it is text, unless it was made here."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="$generator">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
"""
)


class Html(str):
    """Markup that was made here, and in which all text has been escaped."""


def as_html(content: str) -> Html:
    """Text with its special characters escaped; markup stays as it is.

    Args:
        content: Text, or markup.
    """
    return content if isinstance(content, Html) else Html(escape(content, quote=True))


def tag(name: str, *contents: str, kind: str | None = None) -> Html:
    """An element.

    Args:
        name: Such as "p".
        contents: Text or markup.
        kind: Its class.
    """
    attribute = "" if kind is None else f' class="{escape(kind, quote=True)}"'
    return Html(f"<{name}{attribute}>{''.join(map(as_html, contents))}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Parts below one another.

    Args:
        parts: Text or markup.
    """
    return Html("\n".join(map(as_html, parts)))


def with_code(text: str) -> Html:
    """Text in which flags of the command line, and what stands in backticks, are code.

    Args:
        text: The text.
    """
    pieces = re.split(r"`([^`]+)`|((?<!\S)--[a-z][a-z-]*(?: [\w.:]*\w)?)", text)
    words, code = pieces[::3], [first or second for first, second in zip(pieces[1::3], pieces[2::3], strict=True)]
    made = [as_html(words[0])]
    for quoted, after in zip(code, words[1:], strict=True):
        made += [tag("code", with_whole_flags(quoted)), as_html(after)]
    return Html("".join(made))


def with_whole_flags(command: str) -> Html:
    """A command line whose flags are not broken after a hyphen on a narrow screen.

    Args:
        command: The command line.
    """
    return Html(re.sub(r"(?<!\S)--[a-z-]+", lambda flag: tag("span", flag[0]), as_html(command)))


def section(title: str, *contents: str) -> Html:
    """A part of the page with a heading; nothing where it would be empty.

    Args:
        title: The heading.
        contents: Text or markup.
    """
    return tag("section", tag("h2", title), *contents) if any(contents) else Html("")


def pairs_table(rows: Iterable[tuple[str, str]]) -> Html:
    """Names and what stands beside them.

    Args:
        rows: The pairs.
    """
    lines = [tag("tr", tag("th", name), tag("td", value)) for name, value in rows]
    return tag("table", *lines, kind="pairs") if lines else Html("")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[str] = ()) -> Html:
    """A table that scrolls by itself on a narrow screen.

    Args:
        header: The names of the columns.
        rows: The cells.
        words: The columns that hold words; the others hold numbers, and are aligned at the right.
    """
    kinds = [None if name in words else "number" for name in header]
    head = tag("tr", *(tag("th", name, kind=kind) for name, kind in zip(header, kinds, strict=True)))
    lines = [
        tag(
            "tr",
            *(tag("td", cell if kind else _breakable(cell), kind=kind) for cell, kind in zip(row, kinds, strict=True)),
        )
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *lines)), kind="scroll")


def _breakable(name: str) -> Html:
    """A name that may be broken after each of its underscores, where the screen is narrow."""
    return Html(as_html(name).replace("_", "_<wbr>"))


def page(title: str, generator: str, body: str) -> str:
    """The whole document.

    Args:
        title: Of the window.
        generator: What made it.
        body: Markup.
    """
    style = (resources.files("tempering.report") / "page.css").read_text(encoding="utf-8")
    return _PAGE.substitute(title=as_html(title), generator=as_html(generator), style=style, body=as_html(body))
