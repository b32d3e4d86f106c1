"""Unknown arguments: refused with the name of the one that was meant, by the caller's words for it."""

import inspect

import pytest

from tempering import InputError
from tempering._signatures import suggests


@suggests({"epochs": "`train` has it."})
def sample(model, /, data=None, *, num_chains: int = 100, betas="auto") -> tuple:
    """Draw."""
    return model, data, num_chains, betas


class Sampler:
    @suggests()
    def __init__(self, num_hidden: int = 3):
        self.num_hidden = num_hidden


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample(1, num_chain=3), "`sample` has no argument `num_chain`. Did you mean `num_chains`?"),
        (lambda: sample(1, chains=3), "`sample` has no argument `chains`. Did you mean `num_chains`?"),
        (lambda: sample(1, ladder=3), "`sample` has no argument `ladder`. Did you mean `betas`?"),
        (
            lambda: sample(1, qqq=3),
            "`sample` has no argument `qqq`. It takes: model, data, num_chains, betas.",
        ),
        (lambda: sample(1, epochs=3), "`sample` has no argument `epochs`. `train` has it."),
        (lambda: Sampler(hidden=3), "`Sampler` has no argument `hidden`. Did you mean `num_hidden`?"),
        (lambda: Sampler(num_hiden=3), "`Sampler` has no argument `num_hiden`. Did you mean `num_hidden`?"),
        (lambda: Sampler(sweeps=3), "`Sampler` has no argument `sweeps`. It takes: num_hidden."),
    ],
)
def test_the_nearest_argument_is_named(call, message):
    """Kills: a flag's name where the function has no such argument, the class's `self` or `__init__` in a message."""
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == message


def test_known_arguments_and_the_signature_pass_through():
    assert sample(1, 2, num_chains=3) == (1, 2, 3, "auto")
    assert Sampler(num_hidden=5).num_hidden == 5
    assert list(inspect.signature(sample).parameters) == ["model", "data", "num_chains", "betas"]
    assert sample.__doc__ == "Draw."
    with pytest.raises(TypeError, match="model"):
        sample(num_chains=3)
