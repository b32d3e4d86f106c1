"""A population of particles on its way up the ladder: weights, resampling, ancestors, and what it leaves behind."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from tempering._logspace import log_sum_exp
from tempering.estimators import Annealed
from tempering.stats import ClimbSteps, systematic_picks

_MIDDLE = 0.5  # of the numbers that systematic resampling may begin with, where one is as good as another
_KEPT_FACTOR = 4  # states that are kept on the way, as a multiple of the particles


class Population(eqx.Module):
    """What sequential Monte Carlo has found so far, on the host.

    Attributes:
        betas: The inverse temperatures of all steps so far, from 0 on.
        log_z: log Z(β) − log Z(0) at each of them, from the weights.
        kept: States from all along the way, from which chains start later.
        kept_betas: The inverse temperature of each kept state.
        kept_families: The draw of the base that each kept state descends from.
        stride: Every how many-th particle is kept.
        log_increments: What each step added to the log weight of each particle.
        log_weights: The log weights since the last resampling, with mean weight 1.
        families: The draw of the base that each particle descends from.
    """

    betas: Float[np.ndarray, " place"]
    log_z: Float[np.ndarray, " place"]
    kept: Any
    kept_betas: Float[np.ndarray, " kept"]
    kept_families: Int[np.ndarray, " kept"]
    stride: int
    log_increments: Float[np.ndarray, "particle step"]
    log_weights: Float[np.ndarray, " particle"]
    families: Int[np.ndarray, " particle"]

    @classmethod
    def at_base(cls, x: Any) -> "Population":
        """Draws of the base.

        Args:
            x: The states; leading axis: particle.
        """
        num, kept = jax.tree.leaves(x)[0].shape[0], jax.tree.map(np.asarray, x)
        families, none = np.arange(num), np.zeros(num)
        return cls(np.zeros(1), np.zeros(1), kept, none, families, 1, np.zeros((num, 0)), none, families)

    @property
    def beta(self) -> float:
        """Where the particles stand."""
        return float(self.betas[-1])

    @property
    def num_particles(self) -> int:
        """How many particles there are."""
        return len(self.log_weights)

    @property
    def weights(self) -> Float[np.ndarray, " particle"]:
        """The normalised weights."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return weights / weights.sum()

    @property
    def effective_share(self) -> float:
        """1 / (N Σ W²): the effective number of particles, as a share of all."""
        return float(1 / (self.num_particles * np.sum(self.weights**2)))

    @property
    def std_error(self) -> float:
        """The standard error of log Z, √Σ_a (W_a − 1/N)² over families a with total weight W_a (Chan and Lai 2013).

        Particles of one family share a draw of the base, so their weights are not independent. Without resampling it
        is the error of annealed importance sampling.
        """
        shares = np.bincount(self.families, self.weights, self.num_particles)
        return float(np.sqrt(np.sum((shares - 1 / self.num_particles) ** 2)))

    @property
    def log_weight_variance(self) -> float:
        """The variance of the log weights, of those that are not 0."""
        return float(np.var(self.log_weights[np.isfinite(self.log_weights)]))

    @property
    def num_families(self) -> float:
        """1 / Σ_a W_a²: the effective number of families, which are independent."""
        return float(1 / np.sum(np.bincount(self.families, self.weights, self.num_particles) ** 2))

    def estimate(self, log_z_base: float) -> Annealed:
        """log Z of the target with its error, of particles that have reached it.

        Args:
            log_z_base: log Z of the base.
        """
        return Annealed(log_z_base + self.log_z[-1], self.std_error, self.log_weight_variance, self.num_families)

    def weighed(self, log_weights: Float[np.ndarray, " particle"]) -> "Population":
        """Draws of the base that are weighed by the target without a step between them, some kept at each end.

        Args:
            log_weights: log f of the target minus that of the base.
        """
        none = np.zeros(self.num_particles)
        there = self.climbed(np.ones(1), ClimbSteps(log_weights[:, None], none, none.astype(np.int64)))
        return there.keeping(self.kept, _MIDDLE)

    def climbed(self, betas: Float[np.ndarray, " step"], steps: ClimbSteps) -> "Population":
        """The population after a few more steps, not yet resampled.

        A NaN or infinite weight counts as 0. Where no particle has a weight left, all of them go on with weight 1: the
        guess of log Z is then of no use, and the verdict on the run will say so.

        Args:
            betas: The inverse temperature that each step led to.
            steps: What the particles gave.
        """
        increments = np.where(steps.log_increments < np.inf, steps.log_increments, -np.inf)
        log_weights = self.log_weights[:, None] + np.cumsum(increments, axis=1)
        log_means = log_sum_exp(log_weights, axis=0) - log_sum_exp(self.log_weights, axis=0)
        is_alive = bool(np.isfinite(log_means[-1]))
        log_z = self.log_z[-1] + (log_means if is_alive else np.zeros_like(log_means))
        last = log_weights[:, -1] if is_alive else np.zeros(self.num_particles)
        return dataclasses.replace(
            self,
            betas=np.concatenate([self.betas, betas]),
            log_z=np.concatenate([self.log_z, log_z]),
            log_increments=np.concatenate([self.log_increments, steps.log_increments], axis=1),
            log_weights=last - log_sum_exp(last, axis=0) + np.log(self.num_particles),
        )

    def resampled(self, x: Any, offset: float, least_share: float) -> tuple["Population", Any]:
        """Particles drawn anew in proportion to their weights (systematic), where too few are effective.

        Args:
            x: The states of the particles.
            offset: A uniform random number in [0, 1).
            least_share: The effective share below which they are drawn anew.

        Returns:
            The population and its states.
        """
        if self.effective_share >= least_share:
            return self, x
        picks = systematic_picks(self.weights, self.num_particles, offset)
        x = jax.tree.map(lambda leaf: np.asarray(leaf)[picks], x)
        return dataclasses.replace(self, log_weights=np.zeros(len(picks)), families=self.families[picks]), x

    def keeping(self, x: Any, offset: float) -> "Population":
        """The population with some of its present states kept, in proportion to their weights.

        Args:
            x: The states of the particles.
            offset: A uniform random number in [0, 1).
        """
        num_new = -(-self.num_particles // self.stride)
        picks = systematic_picks(self.weights, num_new, offset)
        kept = jax.tree.map(lambda old, new: np.concatenate([old, np.asarray(new)[picks]]), self.kept, x)
        betas, stride = np.concatenate([self.kept_betas, np.full(num_new, self.beta)]), self.stride
        families = np.concatenate([self.kept_families, self.families[picks]])
        if len(betas) > _KEPT_FACTOR * self.num_particles:
            kept, stride = jax.tree.map(lambda leaf: leaf[::2], kept), 2 * stride
            betas, families = betas[::2], families[::2]
        return dataclasses.replace(self, kept=kept, kept_betas=betas, kept_families=families, stride=stride)

    def states_near(self, betas: Float[np.ndarray, " chain"]) -> tuple[Any, Int[np.ndarray, " chain"]]:
        """A kept state for each chain from the nearest place on the way; the states of a place are used in turn.

        Args:
            betas: The inverse temperature at which each chain starts.

        Returns:
            The states, and the family of each.
        """
        places = np.unique(self.kept_betas)
        at_log = np.searchsorted(self.betas, places)  # nearest in steps, which are of equal length, not in β
        wanted = np.interp(betas, self.betas, np.arange(len(self.betas)))
        nearest = np.abs(at_log - wanted[:, None]).argmin(axis=1)
        picks = np.empty(len(betas), np.int64)
        for place in np.unique(nearest):
            chains, there = np.flatnonzero(nearest == place), np.flatnonzero(self.kept_betas == places[place])
            evenly = np.linspace(0, len(there), len(chains), endpoint=False).astype(np.int64)
            picks[chains] = there[evenly]
        return jax.tree.map(lambda leaf: leaf[picks], self.kept), self.kept_families[picks]
