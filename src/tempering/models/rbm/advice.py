"""What to do about a verdict on an RBM."""

from tempering.verdicts import Verdict


def rbm_advice(verdict: Verdict) -> str | None:
    """Advice for RBMs of all kinds, see `AbstractModel.advice`."""
    match verdict:
        case Verdict.STUCK | Verdict.KNOT | Verdict.UNREACHED:
            return "start from the training data, `base=data`, or raise `num_sweeps`"
        case Verdict.RELAXING | Verdict.DISAGREES:
            return "raise `num_sweeps`, or start from the training data, `base=data`"
        case _:
            return None


def binary_rbm_advice(verdict: Verdict) -> str | None:
    """The same for a binary RBM, which also has a path of averaged moments."""
    if verdict in (Verdict.STUCK, Verdict.KNOT, Verdict.UNREACHED):
        moments = "try a path of averaged moments, `tp.MomentAveragedRBM.fitted(rbm, base)`"
        return f"{rbm_advice(verdict)}. If that is not enough, {moments}"
    return rbm_advice(verdict)


def averaged_rbm_advice(verdict: Verdict) -> str | None:
    """The same for an RBM with a path of averaged moments, whose base and knots are chosen when it is fitted."""
    if verdict in (Verdict.STUCK, Verdict.KNOT, Verdict.UNREACHED):
        return "raise `num_sweeps`, or fit again with more knots or with `tp.MomentAveragedRBM.fitted(rbm, data=data)`"
    return None
