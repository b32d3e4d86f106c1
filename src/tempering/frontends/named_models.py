"""Models by name, such as ising:16x16:0.44: one family a line."""

import dataclasses
import math
import re
from collections.abc import Callable

import numpy as np

from tempering._errors import InputError
from tempering.models import (
    RBM,
    AbstractModel,
    BoltzmannMachine,
    CategoricalRBM,
    Gaussian,
    GaussianRBM,
    Ising,
    Potts,
    paper_mixture,
)

_REAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_REALS = ("COUPLING", "SCALE", "DISTANCE")  # the other words of a form stand for whole numbers
_MOST_NUMBERS = 10**7  # that describe a model: a slip of the finger must not fill the memory


@dataclasses.dataclass(frozen=True)
class Family:
    """Models that are told apart by a few numbers.

    Attributes:
        form: how a model is written; capital letters stand for numbers.
        example: a model that is written so.
        meaning: what it is.
        make: from the numbers to the model.
        num_parameters: about how many numbers describe the model, by its whole numbers.
    """

    form: str
    example: str
    meaning: str
    make: Callable[..., AbstractModel]
    num_parameters: Callable[..., int] = lambda *sizes: math.prod(sizes)

    @property
    def name(self) -> str:
        """What stands before the first colon."""
        return self.form.partition(":")[0]

    def model(self, text: str) -> AbstractModel:
        """The model that a text names.

        Args:
            text: in the form of this family.
        """
        words = re.findall(r"[A-Z]+", self.form)
        pattern = re.sub(r"[A-Z]+", lambda word: f"({_REAL if word[0] in _REALS else '[0-9]{1,18}'})", self.form)
        found = re.fullmatch(pattern, text)
        if found is None:
            raise InputError(f"{text!r} must be {self.form}, as in {self.example}.")
        pairs = zip(words, found.groups(), strict=True)
        numbers = [float(part) if word in _REALS else int(part) for word, part in pairs]
        sizes = [number for number in numbers if isinstance(number, int)]
        if 0 in sizes:
            raise InputError(f"{text!r} must be {self.form} with sizes of 1 or more, as in {self.example}.")
        size = self.num_parameters(*sizes)
        if size > _MOST_NUMBERS:
            raise InputError(f"{text!r} would take {size:.0e} numbers or more. Give a smaller model.")
        return self.make(*numbers)


def _boltzmann(bits: int, scale: float) -> BoltzmannMachine:
    first, second = np.triu_indices(bits, 1)
    rng = np.random.default_rng(0)
    weights = rng.normal(0.0, scale / np.sqrt(bits), len(first))
    return BoltzmannMachine(weights, rng.normal(size=bits), edges=np.stack([first, second], axis=1))


def _rbm(kind: Callable[..., AbstractModel], visible: tuple[int, ...], hidden: int, scale: float) -> AbstractModel:
    """An RBM with normal weights of a standard deviation of `scale` and normal biases, the same each time."""
    rng = np.random.default_rng(0)
    return kind(rng.normal(0.0, scale, (*visible, hidden)), rng.normal(size=visible), rng.normal(size=hidden))


def _gaussian(dimensions: int, distance: float) -> Gaussian:
    return Gaussian(np.full(dimensions, distance / np.sqrt(dimensions)), 0.5)


FAMILIES = {family.name: family for family in (
    Family("mixture", "mixture", "the mixture of two normals of the paper's Appendix E.1", paper_mixture),
    Family("ising:ROWSxCOLUMNS:COUPLING", "ising:16x16:0.44", "an Ising model on a periodic square lattice",
           Ising.square),
    Family("potts:ROWSxCOLUMNS:COLOURS:COUPLING", "potts:6x6:3:0.9", "a Potts model on a periodic square lattice",
           lambda rows, columns, colours, coupling: Potts.square(colours, rows, columns, coupling)),
    Family("boltzmann:BITS:SCALE", "boltzmann:20:2", "a Boltzmann machine with normal weights between all bits, of "
           "standard deviation SCALE/√BITS", _boltzmann, lambda bits: bits**2),
    Family("rbm:VISIBLExHIDDEN:SCALE", "rbm:30x12:0.5", "an RBM with normal weights of standard deviation SCALE",
           lambda visible, hidden, scale: _rbm(RBM, (visible,), hidden, scale)),
    Family("gaussian_rbm:VISIBLExHIDDEN:SCALE", "gaussian_rbm:10x8:0.5", "the same for real data, with σ = 1",
           lambda visible, hidden, scale: _rbm(GaussianRBM, (visible,), hidden, scale)),
    Family("categorical_rbm:VISIBLExHIDDEN:CATEGORIES:SCALE", "categorical_rbm:10x8:4:0.5", "the same for categories",
           lambda visible, hidden, categories, scale: _rbm(CategoricalRBM, (visible, categories), hidden, scale)),
    Family("gaussian:DIMENSIONS:DISTANCE", "gaussian:10:8", "a normal density of variance 0.5, DISTANCE from the base "
           "N(0, 1)", _gaussian),
)}  # fmt: skip


def named_model(text: str) -> AbstractModel | None:
    """The model that a text names; None where it begins with no name of a family.

    Args:
        text: such as "ising:16x16:0.44".
    """
    family = FAMILIES.get(text.partition(":")[0])
    return None if family is None else family.model(text)
