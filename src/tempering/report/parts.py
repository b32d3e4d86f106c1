"""What the reports share: numbers in words, the verdict, settings, versions and the command."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tempering.report.page import Html, joined, pairs_table, section, tag, with_code, with_whole_flags

Words = Callable[[str], str]  # how a cure is said: as Python arguments, or as flags of the command line


def number(value: float | int | None, decimals: int = 3) -> str:
    """A number with so many decimals; "unknown" where there is none.

    Args:
        value: The number.
        decimals: Of a float; whole numbers have none.
    """
    if value is None:
        return "unknown"
    text = str(value) if isinstance(value, int) else f"{value:.{decimals}f}"
    return text.replace("-", "−")


def half_count(value: float | None) -> str:
    """A count in halves, such as that of round trips: 3 or 3.5.

    Args:
        value: The count.
    """
    return number(value, 1).removesuffix(".0")


def with_error(value: float | None, std_error: float | None) -> str:
    """A value and its error.

    Args:
        value: The value.
        std_error: Its standard error.
    """
    return f"{number(value)} ± {number(std_error)}"


def between(interval: Sequence[float | None]) -> str:
    """An interval in words.

    Args:
        interval: Its two ends.
    """
    low, high = interval
    if low is None and high is None:
        return number(None)
    return f"{number(low)} to\N{NO-BREAK SPACE}{number(high)}"


def verdict_box(label: str, message: str, findings: Iterable[tuple[str, str]], words: Words) -> Html:
    """The verdict in words, and for each finding what was seen and what to do.

    Args:
        label: "good", or another verdict.
        message: The verdict in a sentence.
        findings: What was seen and its cure.
        words: How cures are said.
    """
    items = [tag("li", with_code(words(f"{seen}; {cure}."))) for seen, cure in findings]
    listed = tag("ul", *items) if items else Html("")
    return tag("div", tag("strong", message), listed, kind=f"verdict {'good' if label == 'good' else 'bad'}")


def made_by(settings: Mapping[str, Any], versions: Mapping[str, Any], command: str | None) -> Html:
    """Settings, versions, and how to make it again.

    Args:
        settings: By name.
        versions: By package.
        command: The command line; None where the run was made in Python.
    """
    again = tag("pre", with_whole_flags(command)) if command else Html("")
    shown = [(name, str(value)) for name, value in settings.items() if value is not None and str(value) != "None"]
    return joined(
        [
            section("The command that makes it again", again),
            tag(
                "div",
                section("Settings", pairs_table(shown)),
                section("Versions", pairs_table((name, str(value)) for name, value in versions.items())),
                kind="figures",
            ),
        ]
    )
