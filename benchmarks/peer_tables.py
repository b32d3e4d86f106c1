"""The tables of docs/measured/results.md that show this package beside others, and our place in each, in words.

Each function makes a title, a text, a header and rows of what a benchmark wrote. Places are computed, never typed.
"""

from collections.abc import Mapping
from typing import Any

OURS = "tempering"
MOST_TO_PRODUCTS, MOST_TO_TORCH, LEAST_RBMS = 1.25, 0.6, 20.0  # what was aimed for
Table = tuple[str, str, list[str], list[list[str]]]


def ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


def place(values: Mapping[str, float], ours: str = OURS) -> str:
    """Our rank by a number that is better when it is smaller."""
    rank = 1 + sum(value < values[ours] for value in values.values())
    return f"{ordinal(rank)} of {len(values)}"


def aimed(is_met: bool, aim: str) -> str:
    return f"({aim} was aimed for: {'met' if is_met else 'missed'})"


def evidence(content: dict[str, Any]) -> Table:
    rows = [
        [name, peer, *numbers_of(row), row["why"] or "–"]
        for name, peers in content["rows"].items()
        for peer, row in peers.items()
    ]
    header = ["posterior", "package", "runs", "RMSE", "bias", "claimed error", "first run, s", "later runs, s",
              "why not more"]  # fmt: skip
    settings = "; ".join(
        f"{peer} {content['versions'][peer] or '(not installed)'}: {how}" for peer, how in content["settings"].items()
    )
    places = " ".join(place_in_evidence(name, peers) for name, peers in content["rows"].items())
    text = (
        "Log evidences under the prior N(0, 1)^d, each package in a process of its own. The normal posteriors and "
        "eight schools have exact answers; that of the regression is by importance sampling, to 0.01. The first run "
        "imports and "
        f"compiles; a process is ended after {content['limit']:.0f} s.\n\nSettings: {settings}.\n\n"
        f"**Our place.** {places}"
    )
    return "Evidences beside other packages", text, header, rows


def numbers_of(row: dict[str, Any]) -> list[str]:
    if not row["runs"]:
        return ["0", *["–"] * 5]
    later = "–" if row["seconds"] is None else f"{row['seconds']:.2f}"
    claimed = "none" if row["claimed"] is None else f"{row['claimed']:.3f}"
    numbers = [f"{row['rmse']:.3f}", f"{row['bias']:+.3f}", claimed, f"{row['first_seconds']:.1f}", later]
    return [str(len(row["runs"])), *numbers]


def place_in_evidence(name: str, peers: dict[str, Any]) -> str:
    """Our rank by error and by time among those that gave an answer, and who is better in both."""
    ended = {peer: row for peer, row in peers.items() if row["runs"]}
    if OURS not in ended:
        return f"{name}: this package gave no answer."
    seconds = {peer: row["first_seconds"] if row["seconds"] is None else row["seconds"] for peer, row in ended.items()}
    errors, ours = {peer: row["rmse"] for peer, row in ended.items()}, ended[OURS]
    better = [peer for peer in ended if errors[peer] < errors[OURS] and seconds[peer] < seconds[OURS]]
    first = {peer: row["first_seconds"] for peer, row in ended.items()}
    return (
        f"{name}: {place(errors)} by error, {place(seconds)} by time, {place(first)} by time with compiling; our RMSE "
        f"is {ours['rmse'] / ours['claimed']:.1f} times what we claim"
        + (f"; better in both error and time: {', '.join(better)}." if better else "; nobody is better in both.")
    )


def rmse_time(content: dict[str, Any]) -> Table:
    rows = [
        [name, *(["–"] * 5 + [row["why"]] if "why" in row else timed_row(row))]
        for name, row in content["summaries"].items()
    ]
    header = ["", "repeats", "RMSE", "bias", "seconds a repeat", "first one, s", f"seconds to RMSE {content['target']}"]
    found, ours = content["ratio"], [row for part in content["rows"].values() for row in part if "verdict" in row]
    told = "rbms gave no answer here, so that our place is not known."
    if found is not None:
        aim = aimed(found["value"] >= LEAST_RBMS, f"at least {LEAST_RBMS:.0f}")
        told = (
            f"By its longest runs, rbms' AIS takes {found['value']:.1f} times as long as this package to an "
            f"RMSE of {content['target']} {aim}; resampled runs give {found['low']:.0f} to {found['high']:.0f} in "
            "90 % of cases."
        )
    text = (
        "Salakhutdinov's 784×500 RBM, repeats of 100 chains, the warm-up included. Ours starts from the data's "
        f"frequencies, and goes on until its error is {content['target']} and its verdict good, or to the end of the "
        f"default length: {sum(row['verdict'] == 'good' for row in ours)} of {len(ours)} runs were good before that. "
        "rbms has one base, the model without weights. Time to the RMSE is read off by its square, which falls as one "
        f"over the time.\n\n**Our place.** {told}"
    )
    return "Seconds to an RMSE of 0.1, beside rbms", text, header, rows


def timed_row(row: dict[str, Any]) -> list[str]:
    first = "–" if row["first_seconds"] is None else f"{row['first_seconds']:.1f}"
    numbers = [f"{row['rmse']:.3f}", f"{row['bias']:+.3f}", f"{row['seconds']:.2f}", first]
    return [str(row["runs"]), *numbers, f"{row['seconds_to_target']:.0f}"]


def growth(content: dict[str, Any]) -> Table:
    rows = [
        [
            grows, row["what"],
            ", ".join(f"{int(size):,}: {seconds * 1e3:.3g}" for size, seconds in row["seconds"].items()),
            f"{row['exponent']:.2f}", f"{row['last_exponent']:.2f}",
        ]
        for grows, row in content["rows"].items()
    ]  # fmt: skip
    header = ["what grows", "what is timed", "size: milliseconds", "exponent", "of the last two sizes"]
    slow = [grows for grows, row in content["rows"].items() if row["last_exponent"] > 1.1]
    told = f"Time grows faster than {' and '.join(slow)}." if slow else "Nothing grows faster than its size."
    text = (
        "One thing grows at a time; seconds ∝ size^exponent. "
        f"{told} What does not grow hides some of the growth at small sizes, so that the last two say more."
    )
    return "How time grows", text, header, rows


def mbar(content: dict[str, Any]) -> Table:
    rows = [
        [
            str(row["rungs"]), str(row["draws"]), f"{row['seconds']:.2f}",
            *(f"{row[f'pymbar_to_ours_{which}']:.1f}" for which in ("first", "later")),
            *("–" if row.get(f"fastmbar_to_ours_{which}") is None else f"{row[f'fastmbar_to_ours_{which}']:.1f}"
              for which in ("first", "later")),
            *(f"{largest(row, what):.0e}" for what in ("largest_difference", "largest_difference_of_errors")),
        ]
        for row in content["rows"]
    ]  # fmt: skip
    large = content["large"]
    header = ["rungs", "draws", "seconds", "pymbar, first call, ×", "later calls, ×", "FastMBAR, first call, ×",
              "later calls, ×", "log Z differs", "errors differ"]  # fmt: skip
    text = (
        "MBAR with its errors beside pymbar 4 and FastMBAR on the CPU, in turns in one process; pymbar compiles in its "
        "first call. Differences are from pymbar. With "
        f"{large['rungs']} rungs and {large['draws']} draws the peak memory of a process of its own is "
        f"{large['peak_megabytes']:.0f} MB, and it takes {large['seconds']:.0f} seconds.\n\n"
        f"**Our place.** {' '.join(place_in_mbar(row) for row in content['rows'])}"
    )
    return "MBAR", text, header, rows


def largest(row: dict[str, Any], what: str) -> float:
    return row[f"pymbar_{what}"] if f"pymbar_{what}" in row else row[what]  # files from before FastMBAR was there


def place_in_mbar(row: dict[str, Any]) -> str:
    found = {"pymbar": row["pymbar_to_ours_later"], "FastMBAR": row.get("fastmbar_to_ours_later")}
    times = {OURS: 1.0} | {name: value for name, value in found.items() if value is not None}
    missing = [name for name, value in found.items() if value is None]
    note = f" ({', '.join(missing)} not measured)" if missing else ""
    return f"{row['rungs']} rungs: {place(times)} by time in later calls{note}."


def cost(content: dict[str, Any]) -> Table:
    rows = [
        [name, f"{row['milliseconds']:.2f}", f"{row['to_plain']:.2f}", f"{row['to_rts_100']:.2f}"]
        for name, row in content["rows"].items()
    ]
    chains = content.get("chains", [100])
    places = " ".join(
        place_of_sweep(content["rows"], number, "" if number == chains[0] else f", {number} chains")
        for number in chains
    )
    text = (
        f"One sweep of {chains[0]} chains on the 784×500 RBM, or of as many as the row says; ratios are medians over "
        f"rounds in which the rows take turns.\n\n**Our place.** {places}"
    )
    return "What a sweep costs", text, ["", "ms", "× plain", "× RTS K = 100"], rows


def place_of_sweep(rows: dict[str, Any], num_chains: int, ending: str) -> str:
    """RTS at K = 100 beside the products alone, torch and NumPy."""
    aims = {
        "two matrix products": MOST_TO_PRODUCTS,
        "plain sweep in torch": MOST_TO_TORCH,
        "plain sweep in NumPy": None,
    }
    told = []
    for name, aim in aims.items():
        if name + ending in rows:
            times = 1 / rows[name + ending]["to_rts_100"]
            verdict = "" if aim is None else " " + aimed(times <= aim, f"at most {aim}")
            told.append(f"{times:.2f} × the {name}{verdict}")
    return f"With {num_chains} chains an RTS sweep at K = 100 costs {', '.join(told)}."
