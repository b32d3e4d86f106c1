"""Models with their own paths, moves and, where it exists, the exact log Z."""

from tempering.models.rbm import RBM as RBM
from tempering.models.rbm import RBMPath as RBMPath
from tempering.models.rbm import RBMState as RBMState
