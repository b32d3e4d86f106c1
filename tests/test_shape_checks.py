"""The checks of shapes themselves: what is wrong is seen, in the package too, and loops are let run."""

import numpy as np
import pytest
from beartype import beartype
from jaxtyping import Float, TypeCheckError

import shape_checks
from tempering.training.anchor import left_out


def test_which_calls_are_checked():
    """Kills: calls after the first ones that are never checked again."""
    assert [number for number in range(1, 100) if shape_checks.is_checked(number)] == [1, 2, 3, 4, 8, 16, 32, 64]


def test_a_wrong_shape_is_seen_and_functions_made_anew_are_counted_together():
    """Kills: a decorator that checks nothing, results that are not checked, calls counted from one test to the next."""

    def cut_short():
        def function(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return x[1:]

        return shape_checks.checked_often(function, typechecker=beartype)

    for _ in range(2):
        shape_checks.forget_calls()
        for _ in range(4):
            with pytest.raises(TypeCheckError, match="return value"):
                cut_short()(np.zeros(3))
        assert len(cut_short()(np.zeros(3))) == 2  # the 5th call


def test_the_package_is_checked():
    """Kills: modules that were imported before the hook, and classes whose fields are not checked."""
    with pytest.raises(TypeCheckError, match="num_groups"):
        left_out(None, "two")


def test_functions_made_by_one_definition_share_a_check_and_run_as_themselves():
    """Kills: the first of them that runs for all, a check of arguments that is lost, recursion into another."""

    def power(exponent):
        def function(x: Float[np.ndarray, " n"], then=None) -> Float[np.ndarray, " n"]:
            return x**exponent if then is None else then(x) ** exponent

        return shape_checks.checked_often(function, typechecker=beartype)

    twos = np.full(3, 2.0)
    assert [power(exponent)(twos)[0] for exponent in (1, 2)] == [2, 4]
    assert power(3)(twos, power(2))[0] == 64
    shape_checks.forget_calls()
    with pytest.raises(TypeCheckError, match="parameters"):
        power(1)(np.zeros((3, 2)))
