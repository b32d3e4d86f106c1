"""The README and the pages in docs/, read as blocks of code and numbers."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Block(NamedTuple):
    mark: str  # the comment on the line before the block: "demo", "runnable", "runnable, exits 3"
    language: str
    text: str
    line: int  # of the first line of text


def blocks_of(file: Path) -> list[Block]:
    text = file.read_text()
    return [
        Block(m["mark"] or "", m["language"], m["text"], text.count("\n", 0, m.start("text")) + 1)
        for m in FENCE.finditer(text)
    ]


def commands_of(block: Block) -> list[str]:
    return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]
