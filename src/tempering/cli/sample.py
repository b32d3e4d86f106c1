"""`tempering sample`: draws of a model, with how independent they are."""

import json as json_module
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import tempering as tp
from tempering import _defaults
from tempering._errors import InputError
from tempering.cli import common, paths, reporting
from tempering.cli.flags import in_flags
from tempering.cli.placing import placed

if TYPE_CHECKING:
    import numpy as np

_MOST_DRAWS = 10_000
_PICTURE, _MOST_IMAGES = 900, 400  # pixels across, about; images in it


@placed()
def sample_command(
    model: common.ModelFile = None,
    names: common.NamesFlag = None,
    base: common.BaseFlag = None,
    binarize: common.BinarizeFlag = None,
    chains: common.ChainsFlag = _defaults.NUM_CHAINS,
    sweeps: Annotated[
        int | None, common.count_option("Sweeps per chain after the warm-up; by default until log Z is known.")
    ] = None,
    out: Annotated[Path, Option(help="FILE.npz for draws, FILE.png for a picture of them.")] = Path("draws.npz"),
    image: reporting.ImageFlag = None,
    num: Annotated[int | None, Option(help="How many draws; by default as many as are independent.")] = None,
    rungs: common.RungsFlag = None,
    path: paths.PathFlag = paths.GEOMETRIC,
    ladder: common.LadderFlag = _defaults.BETAS,
    rung_weights: common.RungWeightsFlag = _defaults.RUNG_WEIGHTS,
    warmup: common.WarmupFlag = _defaults.WARMUP,
    seed: common.SeedFlag = _defaults.SEED,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> None:
    """Draw from a model by tempering, and say how many independent draws the result is worth.

    Exit status: 0 good, 2 the arguments are wrong, 3 draws were written but the run is not to be believed.
    """
    from tempering.progress import is_terminal

    shape = reporting.read_image(image)
    _check_arguments(out, num)
    target, start, _ = common.read_inputs(model, names, base, None, binarize, seed)
    target, start = paths.along(path, target, start)
    with common.only_answers_on_stdout():
        result = tp.estimate(
            target, start, num_chains=chains, num_sweeps=sweeps, num_rungs=common.read_rungs(rungs),
            betas=common.read_betas(ladder), rung_weights=rung_weights, warmup=warmup, seed=seed,
            keep_draws=True, progress=is_terminal() and not quiet,
        )  # fmt: skip
    about = _written(result, num, out, shape, use_images=image != "none")
    if json:
        print(json_module.dumps(about, ensure_ascii=False))
    else:
        common.print_rows(_rows(result, about))
    raise typer.Exit(common.EXIT_GOOD if result.verdict.is_good else common.EXIT_NOT_GOOD)


def _check_arguments(out: Path, num: int | None) -> None:
    from tempering.plots.style import HOW_TO_INSTALL, can_plot

    if out.suffix.lower() not in (".npz", ".png"):
        raise InputError(f"--out must end in .npz or .png, got {out}.")
    if out.suffix.lower() == ".png" and not can_plot():
        raise InputError(f"Pictures need matplotlib: {HOW_TO_INSTALL}; or write --out draws.npz.")
    reporting.check_file("--out", out)
    if num is not None and not 1 <= num <= _MOST_DRAWS:
        raise InputError(f"--num must lie between 1 and {_MOST_DRAWS}, got {num}.")


def _written(
    result: "tp.Result", num: int | None, out: Path, shape: tuple[int, int] | None, *, use_images: bool
) -> dict[str, Any]:
    """Write the draws; what is to be said of them."""
    import numpy as np

    from tempering.results.details import draws_of

    worth = result.draws.independent_size
    draws = draws_of(result, max(1, min(round(worth), _MOST_DRAWS)) if num is None else num, seed=result.seed)
    if not draws:
        raise InputError(
            f"No draw carries any weight at the target, so there is nothing to write. {result.verdict.value}"
        )
    try:
        if out.suffix.lower() == ".npz":
            np.savez(out, allow_pickle=False, **draws)
        else:
            _write_picture(draws, out, shape, use_images=use_images)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}.") from error
    return {
        "file": str(out),
        "num_draws": len(next(iter(draws.values()))),
        "names": {name: list(values.shape[1:]) for name, values in draws.items()},
        "independent_size": worth,
        "effective_size": result.draws.effective_size,
        "verdict": result.verdict.label,
        "message": result.verdict.value,
        "findings": [{"verdict": f.verdict.label, "seen": f.seen, "cure": f.cure} for f in result.diagnosis.findings],
        "log_z": result.log_z if np.isfinite(result.log_z) else None,
    }


def _write_picture(
    draws: "Mapping[str, np.ndarray]", out: Path, shape: tuple[int, int] | None, *, use_images: bool
) -> None:
    """A grid of images, pixel by pixel, where draws are images; else marginals and pairs."""
    import numpy as np
    from matplotlib.image import imsave

    from tempering.plots.samples_plot import as_images, tiled
    from tempering.plots.style import new_axes, write_figure

    images = as_images(draws, shape) if use_images else None
    if images is None:
        write_figure(tp.plots.samples(draws, ax=new_axes("light", (6.4, 6.0)), theme="light"), out)
        return
    images = images[np.linspace(0, len(images) - 1, min(len(images), _MOST_IMAGES)).round().astype(int)]
    num_columns = max(1, round((len(images) * images.shape[1] / images.shape[2]) ** 0.5))
    grid = tiled(1 - images, num_columns, edge=0.85)
    factor = max(1, round(_PICTURE / grid.shape[1]))
    imsave(out, np.kron(grid, np.ones((factor, factor))), cmap="gray", vmin=0, vmax=1)


def _rows(result: "tp.Result", about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "draws", f"[bold]{about['num_draws']}[/bold] of {_in_words(about['names'])}"
    yield "independent", f"about {about['independent_size']:.0f}; by weights alone {about['effective_size']:.0f}"
    if about["num_draws"] > 1.5 * about["independent_size"]:
        yield "", "Some draws are equal or nearly so: there are more of them than they are worth."
    yield "file", common.escape(about["file"])
    yield "verdict", common.in_colour(result.verdict.value, result.verdict.is_good)
    for finding in result.diagnosis.findings:
        yield "", in_flags(str(finding))


def _in_words(names: Mapping[str, list[int]]) -> str:
    listed = [f"{name} ({' × '.join(map(str, shape))})" if shape else name for name, shape in names.items()]
    return common.escape(", ".join(listed[:6]) + (" …" if len(listed) > 6 else ""))
