"""`--path`: the densities between base and target."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tempering._errors import InputError

if TYPE_CHECKING:
    from tempering.models import AbstractModel

GEOMETRIC, MOMENTS = "geometric", "moments"
_KNOTS, _MOST_KNOTS = 9, 1000  # where none are asked for, and at most: each is an RBM that is trained

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
    if word not in (GEOMETRIC, MOMENTS) or (knots and (word == GEOMETRIC or not knots.isdecimal() or int(knots) < 2)):
        raise InputError(f"--path must be geometric, moments or moments:KNOTS with 2 knots or more, got {path!r}.")
    if word == GEOMETRIC:
        return model, base
    from tempering.models import RBM, MomentAveragedRBM

    if not isinstance(model, RBM):
        raise InputError(f"--path moments is for RBMs over bits, not for this {type(model).__name__}. Leave it out.")
    if int(knots or _KNOTS) > _MOST_KNOTS:
        raise InputError(
            f"--path {path} asks for more RBMs to be trained than {_MOST_KNOTS}: give moments:20, or fewer."
        )
    return MomentAveragedRBM.fitted(model, base, num_knots=int(knots or _KNOTS)), None
