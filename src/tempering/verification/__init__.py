"""Whether an installation gives right answers: every estimator and move on problems whose answers are known exactly.

- `verify`: all checks, one after the other.
- `Check`: the outcome of one of them.
- `enumerated`: a small RBM whose every state is listed.
"""

from tempering.verification.check import Check as Check
from tempering.verification.checks import verify as verify
