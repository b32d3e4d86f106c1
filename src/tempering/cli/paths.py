"""`--path`: the densities between base and target."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tempering._errors import InputError

if TYPE_CHECKING:
    from tempering.models import AbstractModel

GEOMETRIC, MOMENTS = "geometric", "moments"
_KNOTS = 9  # where none are asked for

PathFlag = Annotated[
    str, Option(help="geometric, the model's own; moments or moments:KNOTS for an RBM: averaged moments, fitted first.")
]


def along(path: str, model: "AbstractModel", base: Any) -> "tuple[AbstractModel, Any]":
    """The model on the path that was asked for, and what it then starts from.

    Args:
        path: What was typed.
        model: The model.
        base: Its base.

    Returns:
        The model itself on its own path; otherwise one that has its base already.
    """
    word, _, knots = path.partition(":")
    if word not in (GEOMETRIC, MOMENTS) or (knots and (word == GEOMETRIC or not knots.isdigit() or int(knots) < 2)):
        raise InputError(f"--path must be geometric, moments or moments:KNOTS with 2 knots or more, got {path!r}.")
    if word == GEOMETRIC:
        return model, base
    from tempering.models import RBM, MomentAveragedRBM

    if not isinstance(model, RBM):
        raise InputError(f"--path moments is for RBMs over bits, not for this {type(model).__name__}. Leave it out.")
    return MomentAveragedRBM.fitted(model, base, num_knots=int(knots or _KNOTS)), None
