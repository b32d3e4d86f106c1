"""Annealed importance sampling on the way, as an independent check of the tracked line."""

import numpy as np

from tempering._types import Key
from tempering.estimators import Annealed
from tempering.ladder import Ladder
from tempering.models import RBM
from tempering.sampling import Setup
from tempering.training.settings import Checking
from tempering.warmups import AnnealedStart


def annealed_log_z(key: Key, rbm: RBM, frequencies: np.ndarray, how: Checking) -> Annealed:
    """log Z by passes from the data's frequencies to the RBM, in equal steps of β."""
    ladder = Ladder.create(rbm.path(frequencies, np.linspace(0.0, 1.0, 2)))
    first = AnnealedStart(anneal_steps=how.num_steps).first(Setup(key, ladder, rbm.move(), how.num_chains))
    *_, ended = first.walk(key)
    return Annealed.from_weights(ended.recording.log_weights(), ladder.path.log_z_base())
