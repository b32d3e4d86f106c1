"""Write docs/reference/command_line.md from what `tempering --help` knows.

    python scripts/command_line_page.py

A test checks that the page is what this script makes.
"""

from pathlib import Path
from typing import Any

import typer

from tempering import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "command_line.md"

INTRODUCTION = """# Command line

Every command, argument and option, as `tempering --help` shows them. For explanations see [the command
line](../guides/command_line.md) (`estimate`, `verify`, `reproduce`), [comparing methods](../guides/comparing.md)
(`compare`), [training an RBM](../guides/training.md) (`train`), and [plots, samples and reports](../guides/plots.md)
(`sample`, `report`).
"""


def page() -> str:
    commands = typer.main.get_command(cli.app).commands
    return "\n".join([INTRODUCTION, *(section(name, command) for name, command in commands.items())])


def section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    usage = " ".join(p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments)
    lines = [
        f"## tempering {name}\n",
        f"```text\ntempering {name} [OPTIONS] {usage}\n```\n",
        "\n".join(line.strip() for line in command.help.strip().splitlines()) + "\n",
        "| argument | meaning |\n| --- | --- |",
        *(f"| `{p.name.upper()}` | {cell(p.help)} |" for p in arguments),
        "",
        "| option | default | meaning |\n| --- | --- | --- |",
        *(option_row(p) for p in options),
        "",
    ]
    return "\n".join(lines)


def option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = "" if option.default is None or option.default is False else f"`{shown(option)}`"
    return f"| {names} | {default} | {cell(option.help)} |"


def shown(option: Any) -> str:
    return option.opts[0] if option.default is True else str(option.default)


def cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("[", "\\[")


if __name__ == "__main__":
    PAGE.write_text(page())
