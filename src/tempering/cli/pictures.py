"""Small drawings made of characters: curves and grey images."""

from collections.abc import Iterable, Sequence

import numpy as np

_BARS = "▁▂▃▄▅▆▇█"
_HALVES = np.array([[" ", "▄"], ["▀", "█"]])  # by whether the upper and the lower pixel is set
_LARGEST = 32  # pixels per side; larger images are shrunk, so that a few fit side by side


def sparkline(values: Iterable[float | None], width: int) -> str:
    """Numbers as a row of bars, from the smallest to the largest; blank where a number is missing.

    Where there are more numbers than columns, each bar is the mean of some successive ones.
    """
    numbers = np.array([*values], np.float64)  # None becomes NaN
    if not len(numbers):
        return ""
    shares = np.array_split(numbers, min(width, len(numbers)))
    means = np.array([np.mean(share[np.isfinite(share)]) if np.any(np.isfinite(share)) else np.nan for share in shares])
    is_known = np.isfinite(means)
    if not np.any(is_known):
        return " " * len(means)
    low, high = means[is_known].min(), means[is_known].max()
    heights = (np.where(is_known, means, low) - low) / (high - low) if high > low else np.full(len(means), 0.5)
    bars = np.minimum(np.floor(heights * len(_BARS)), len(_BARS) - 1).astype(int)
    return "".join(_BARS[bar] if known else " " for bar, known in zip(bars, is_known, strict=True))


def guess_image(num_pixels: int) -> tuple[int, int] | None:
    """Height and width of a square image of so many pixels; None where the number is not a square."""
    side = round(num_pixels**0.5)
    return (side, side) if side > 1 and side * side == num_pixels else None


def picture_size(image: tuple[int, int]) -> tuple[int, int]:
    """Lines and columns that an image of this height and width takes."""
    factor = _shrinking(image)
    height, width = (-(-side // factor) for side in image)
    return -(-height // 2), width


def draw(grey: np.ndarray) -> list[str]:
    """An image of values in [0, 1] as lines of half blocks, two pixels per character; a pixel is set from 0.5 on."""
    factor = _shrinking(grey.shape)
    padded = np.pad(grey, [(0, -side % factor) for side in grey.shape], mode="edge")
    height, width = (side // factor for side in padded.shape)
    is_set = padded.reshape(height, factor, width, factor).mean(axis=(1, 3)) >= 0.5
    is_set = np.pad(is_set, [(0, height % 2), (0, 0)])
    return ["".join(line) for line in _HALVES[is_set[::2].astype(int), is_set[1::2].astype(int)]]


def beside(drawings: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Drawings of equal height side by side."""
    return [gap.join(lines) for lines in zip(*drawings, strict=True)]


def _shrinking(image: Sequence[int]) -> int:
    """How many pixels along each side become one."""
    return max(1, -(-max(image) // _LARGEST))
