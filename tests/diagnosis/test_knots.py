"""What the transitions between rungs say: exact chains first, then ladders with a known transition, then few counts."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

import exact
from tempering import InputError
from tempering.diagnosis import find_knots, knots, rung_chain, rung_flow, rung_weight_cost
from tempering.diagnosis.rung_flow import flow_matrix, merge_rungs, spectral_gap

MANY = 1e12  # draws: what was not seen is then nothing


def random_flow(num_rungs: int, seed: int) -> np.ndarray:
    counts = np.random.default_rng(seed).gamma(0.5, size=(num_rungs, num_rungs))
    return flow_matrix(counts)


def birth_death(steps: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """A flow with F_{k,k+1} = steps, and `stay` on the diagonal."""
    counts = np.diag(steps, 1) + np.diag(steps, -1) + np.diag(stay)
    return counts / counts.sum()


def even_flow(num_rungs: int, jump: float, lazy: float = 0.0) -> np.ndarray:
    """A walk with normal jumps, refused beyond the ends; jump 0 is to a neighbour."""
    away = np.abs(np.subtract.outer(np.arange(num_rungs), np.arange(num_rungs)))
    law = (away == 1) / 2 if jump == 0 else np.exp(-0.5 * (away / jump) ** 2)
    steps = (1 - lazy) * law / max(law.sum(axis=1).max(), 1)
    np.fill_diagonal(steps, 0.0)
    return (steps + np.diag(1 - steps.sum(axis=1))) / num_rungs


def iid_flow(log_f: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """F_jk = E[q(j|x) q(k|x)] of a ladder whose moves redraw x and whose guess is right; log_f is (state, rung)."""
    joint = np.exp(log_f - logsumexp(log_f, axis=0)) * prior
    law = joint.sum(axis=1, keepdims=True)
    return joint.T @ np.divide(joint, law, out=np.zeros_like(joint), where=law > 0)


def shrinking_normals(num_dims: int, num_rungs: int, ratio: float) -> np.ndarray:
    """N(0, s_k² I) with s_k from 1 to `ratio`: all that matters of x is |x|², chi-square, and the ladder is even."""
    log_scale = np.linspace(0, np.log(ratio), num_rungs)
    log_square = np.linspace(np.log(num_dims) + 2 * np.log(ratio) - 2, np.log(num_dims) + 2, 3001)
    return chi2.logpdf(np.exp(log_square[:, None] - 2 * log_scale), num_dims) + log_square[:, None] - 2 * log_scale


def two_phases(betas: np.ndarray, distance: float, where: float = 0.62) -> np.ndarray:
    """log f_β(E) = S(E) + βE with two parabolas in S: a transition of first order at β = `where`."""
    energy, variance = np.linspace(-100, 500 + distance, 8001), 400.0
    low, high = -(energy**2) / (2 * variance), -((energy - distance) ** 2) / (2 * variance) - where * distance
    return np.logaddexp(low, high)[:, None] + betas * energy[:, None]


def ends_prior(num_rungs: int, share: float) -> np.ndarray:
    num_outer = num_rungs // 20
    outer, inner = np.full(num_outer, share / num_outer), num_rungs - 2 * num_outer
    return np.concatenate([outer, np.full(inner, (1 - 2 * share) / inner), outer])


def fundamental(flow: np.ndarray) -> np.ndarray:
    """Z = (I − P + 1πᵀ)⁻¹ (Kemeny and Snell 1960)."""
    visited = flow.sum(axis=1)
    return np.linalg.inv(np.eye(len(flow)) - flow / visited[:, None] + visited)


def test_two_rungs():
    """P = [[1−a, a], [b, 1−b]]: gap a + b."""
    up, down = 0.03, 0.012
    visited = np.array([down, up]) / (up + down)
    flow = visited[:, None] * np.array([[1 - up, up], [down, 1 - down]])
    chain = rung_chain(flow * MANY, np.array([0.0, 1.0]))
    np.testing.assert_allclose(chain.gap, up + down, rtol=1e-10)
    np.testing.assert_allclose(chain.relaxation_sweeps, 1 / (up + down), rtol=1e-10)
    np.testing.assert_allclose(chain.visited, visited, rtol=1e-10)
    np.testing.assert_allclose(chain.conductance, up, rtol=1e-10)  # the lighter side is the first
    assert chain.best_cut_beta == 0.5
    np.testing.assert_allclose(chain.committor, [0, 1])
    np.testing.assert_allclose(chain.crossings_per_sweep, 2 * visited[0] * up, rtol=1e-10)
    assert chain.knots == ()
    np.testing.assert_allclose(knots._stretch(flow, 0, 1)[0], chain.relaxation_sweeps, rtol=1e-10)


def test_the_potential_of_a_birth_and_death_chain():
    """Steps of h are as 1/F_{k,k+1}: resistances in series."""
    rng = np.random.default_rng(5)
    flow = birth_death(rng.gamma(1.0, size=11), rng.gamma(1.0, size=12))
    wires = 1 / np.diag(flow, 1)
    potential = rung_flow.committor(flow)
    np.testing.assert_allclose(np.diff(potential), wires / wires.sum(), rtol=1e-10)
    np.testing.assert_allclose(rung_flow.resistance(flow), wires.sum(), rtol=1e-10)
    between_ends = rung_flow.committor(flow, 3, 2)
    np.testing.assert_allclose(np.diff(between_ends)[2:10], wires[2:10] / wires[2:10].sum(), rtol=1e-10)
    assert np.all(between_ends[:3] == 0)
    assert np.all(between_ends[10:] == 1)
    below = np.cumsum(flow.sum(axis=1))[:-1]
    np.testing.assert_allclose(rung_flow.conductances(flow), 1 / wires / np.minimum(below, 1 - below), rtol=1e-10)


def test_crossings_are_what_hitting_times_say():
    """A round trip takes E[0 → K−1] + E[K−1 → 0] sweeps and has two crossings, for chains with jumps of any length."""
    flow = random_flow(9, 0)
    steps = flow / flow.sum(axis=1, keepdims=True)

    def hitting_time(start: int, end: int) -> float:
        others = [rung for rung in range(9) if rung != end]
        times = np.linalg.solve(np.eye(8) - steps[np.ix_(others, others)], np.ones(8))
        return times[others.index(start)]

    chain = rung_chain(flow * MANY, np.linspace(0, 1, 9))
    round_trip = hitting_time(0, 8) + hitting_time(8, 0)
    np.testing.assert_allclose(chain.crossings_per_sweep, 2 / round_trip, rtol=1e-9)


def test_cuts_add_up_the_flow_through_them():
    flow = random_flow(7, 3)
    below = flow.sum(axis=1).cumsum()
    for cut in range(6):
        through = flow[: cut + 1, cut + 1 :].sum() / min(below[cut], 1 - below[cut])
        np.testing.assert_allclose(rung_flow.conductances(flow)[cut], through, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_cheeger(seed):
    """gap/2 ≤ φ of every cut; √(2 gap) is above the narrowest of all sets, listed here."""
    flow = random_flow(9, seed)
    gap, visited = spectral_gap(flow), flow.sum(axis=1)
    assert gap / 2 <= rung_flow.conductances(flow).min()
    sets = [np.array(chosen) for chosen in itertools.product([False, True], repeat=9)][1:-1]
    narrowest = min(flow[np.ix_(s, ~s)].sum() / min(visited[s].sum(), visited[~s].sum()) for s in sets)
    assert narrowest <= np.sqrt(2 * gap)


def test_cuts_of_the_ladder_may_all_be_wide_where_the_gap_is_small():
    """Odd and even rungs that hardly meet: no cut of the ladder shows it, and none is called a knot."""
    parity = np.arange(10) % 2
    counts = np.where(parity[:, None] == parity, 1.0, 1e-4)
    chain = rung_chain(counts * MANY, np.linspace(0, 1, 10))
    assert chain.gap < 1e-3
    assert chain.conductance > np.sqrt(2 * chain.gap)
    assert chain.knots == ()


@pytest.mark.parametrize("seed", range(3))
def test_no_stretch_alone_relaxes_slower_than_the_chain(seed):
    flow = random_flow(12, seed)
    for low, high in itertools.combinations(range(12), 2):
        sweeps, potential = knots._stretch(flow, low, high)
        assert 0 < sweeps <= 1 / spectral_gap(flow) * (1 + 1e-12)
        np.testing.assert_allclose(potential, rung_flow.committor(flow, low + 1, 12 - high), atol=1e-10)
        visited, laplacian = flow.sum(axis=1), np.diag(flow.sum(axis=1)) - flow
        variance = visited @ potential**2 - (visited @ potential) ** 2
        np.testing.assert_allclose(sweeps, variance / (potential @ laplacian @ potential), rtol=1e-9)


def test_the_flow_is_the_same_whatever_the_move_and_real_moves_are_slower():
    """F_jk = E[q(j|x) q(k|x)] with Gibbs sweeps as with exact draws, but the gap of (x, k) is smaller with sweeps."""
    path = exact.small_path()
    log_f = exact.log_densities(path)
    law = exact.joint_law(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    posterior = exact.rung_posterior(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    sweeps = [exact.gibbs_matrix(path, rung) for rung in range(3)]
    redraws = [np.broadcast_to(law[:, rung] / law[:, rung].sum(), (32, 32)) for rung in range(3)]
    gaps = {}
    for name, moves in (("sweeps", sweeps), ("redraws", redraws)):
        flow = np.stack([law[:, rung] @ moves[rung] @ posterior for rung in range(3)])
        np.testing.assert_allclose(flow, posterior.T @ (law.sum(axis=1)[:, None] * posterior), atol=1e-10)
        whole = sum(posterior[:, rung, None] * moves[rung] for rung in range(3))  # of x, just before the rung is drawn
        gaps[name] = 1 - np.sort(np.linalg.eigvals(whole).real)[-2]
    counts = exact.recording_from_law(path).transition_counts
    chain = rung_chain(counts, exact.BETAS, exact.LOG_PRIOR)
    np.testing.assert_allclose(chain.gap, gaps["redraws"], rtol=1e-9)
    assert gaps["sweeps"] < 0.9 * chain.gap


def test_variance_is_that_of_the_fundamental_matrix():
    """2⟨f, Z f⟩ − ⟨f, f⟩ for counted visits (Kemeny and Snell), by a route without resistances."""
    flow = random_flow(8, 1)
    visited = flow.sum(axis=1)
    per_visit = np.zeros(8)
    per_visit[0], per_visit[-1] = -1 / visited[0], 1 / visited[-1]
    expected = 2 * visited * per_visit @ fundamental(flow) @ per_visit - visited @ per_visit**2
    np.testing.assert_allclose(rung_flow.log_ratio_variance(flow, averaged=False), expected, rtol=1e-9)


def test_variance_of_averaged_posteriors_is_that_of_the_chain_over_x():
    """x → k → x', with u(x) = q(K−1|x)/c_{K−1} − q(0|x)/c_0: its asymptotic variance over all 32 states."""
    log_f = exact.log_densities(exact.small_path())
    law = exact.joint_law(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    marginal, over_x = law.sum(axis=0), law.sum(axis=1)
    posterior = law / over_x[:, None]
    score = posterior[:, -1] / marginal[-1] - posterior[:, 0] / marginal[0]
    steps = over_x[:, None] * (posterior @ (law / marginal).T)
    expected = 2 * over_x * score @ fundamental(steps) @ score - over_x @ score**2
    flow = posterior.T @ law
    np.testing.assert_allclose(rung_flow.log_ratio_variance(flow), expected, rtol=1e-9)


def test_two_cliques_and_a_bridge():
    """One knot, exactly at the bridge, which is also the narrowest cut."""
    counts = np.ones((40, 40))
    counts[:17, 17:] = counts[17:, :17] = 0
    counts[16, 17] = counts[17, 16] = 0.2
    betas = np.linspace(0, 1, 40) ** 2
    chain = rung_chain(counts * MANY, betas)
    (knot,) = chain.knots
    assert (knot.low, knot.high) == (betas[16], betas[17])
    np.testing.assert_allclose([knot.beta, chain.best_cut_beta], (betas[16] + betas[17]) / 2)
    np.testing.assert_allclose(knot.conductance, 0.2 / (17**2 + 0.2), rtol=1e-9)
    below, flow = (17**2 + 0.2) / counts.sum(), 0.2 / counts.sum()
    np.testing.assert_allclose(knot.sweeps, below * (1 - below) / flow, rtol=1e-9)
    np.testing.assert_allclose(knot.share, knot.sweeps / chain.relaxation_sweeps, rtol=1e-6)
    assert 0.9 < knot.share <= 1
    assert knot.even_share < 0.2


@pytest.mark.parametrize("num_draws", [2e4, 2e5])
def test_a_cut_that_nobody_passed_is_a_knot(num_draws):
    flow = even_flow(50, 6.0)
    flow[:30, 30:] = flow[30:, :30] = 0
    chain = rung_chain(np.rint(flow * num_draws), np.linspace(0, 1, 50))
    (knot,) = chain.knots
    assert (chain.gap, chain.relaxation_sweeps, chain.conductance) == (0.0, np.inf, 0.0)
    assert (knot.sweeps, knot.conductance) == (np.inf, 0.0)
    assert knot.low <= 29 / 49 < 30 / 49 <= knot.high + 1e-12
    np.testing.assert_allclose(chain.best_cut_beta, 59 / 98)
    assert chain.crossings_per_sweep == 0
    np.testing.assert_allclose(chain.committor, np.arange(50) >= 30, atol=1e-10)


def test_two_knots_are_two():
    counts = np.zeros((60, 60))
    for low, high in ((0, 20), (20, 45), (45, 60)):
        counts[low:high, low:high] = 1
    counts[19, 20] = counts[20, 19] = 0.02
    counts[44, 45] = counts[45, 44] = 0.03
    found = find_knots(counts * MANY, np.arange(60) / 59)
    np.testing.assert_allclose([knot.beta for knot in found], np.array([19.5, 44.5]) / 59)
    assert found[0].share > found[1].share


def test_a_knot_wider_than_one_stretch_is_one():
    """A tenth of the ladder that conducts a thirtieth as well."""
    steps = np.where((np.arange(99) >= 40) & (np.arange(99) < 50), 1 / 30, 1.0)
    chain = rung_chain(birth_death(steps, np.full(100, 2.0)) * MANY, np.arange(100.0))
    (knot,) = chain.knots
    assert knot.conductance == chain.conductance
    assert 39 <= knot.low < 43
    assert 47 < knot.high <= 51
    assert knot.high - knot.low > 6


def test_widths_and_ends_go_by_the_prior():
    """The same cliques and bridge where the prior is steep: a stretch is as wide as its rungs are likely."""
    counts = np.ones((30, 30))
    counts[:20, 20:] = counts[20:, :20] = 0
    counts[19, 20] = counts[20, 19] = 0.2
    prior = np.exp(0.1 * np.arange(30))
    prior /= prior.sum()
    chain = rung_chain(counts * MANY, np.arange(30.0), np.log(prior))
    (knot,) = chain.knots
    moves = chain.relaxation_sweeps * (1 - np.trace(counts) / counts.sum())
    np.testing.assert_allclose(knot.even_share, knots.even_share((prior[19] + prior[20]) / 2, moves), rtol=1e-6)
    num_bottom = int(np.sum(np.cumsum(prior) <= 0.05))
    num_top = max(1, int(np.sum(np.cumsum(prior[::-1]) <= 0.05)))
    assert num_bottom > num_top
    np.testing.assert_allclose(
        chain.committor, rung_flow.committor(flow_matrix(counts), num_bottom, num_top), atol=1e-10
    )


@pytest.mark.parametrize("power", [1.0, 2.0, 0.5])
def test_a_transition_of_first_order_is_found_where_it_is(power):
    """Exact flows of a model with two phases: one knot at β = 0.62, however the rungs are spaced; and it is told."""
    betas = np.linspace(0, 1, 100) ** power
    flow = iid_flow(two_phases(betas, 300.0), np.full(100, 0.01))
    chain = rung_chain(flow * MANY, betas)
    (knot,) = chain.knots
    assert abs(knot.beta - 0.62) < 0.01
    assert knot.low < 0.62 < knot.high < knot.low + 0.1
    assert knot.share > 2 * knot.even_share
    assert knot.low <= chain.best_cut_beta <= knot.high
    assert rung_chain(iid_flow(two_phases(betas, 0.0), np.full(100, 0.01)) * MANY, betas).knots == ()


def test_rungs_made_several_change_nothing():
    """Each rung split into unequal ones of the same density: flow, prior and draws are shared among them."""
    flow = iid_flow(two_phases(np.linspace(0, 1, 60), 300.0), np.full(60, 1 / 60))
    parts = np.tile([1, 3, 2], 20)
    owner = np.repeat(np.arange(60), parts)
    share = 1 / parts[owner]
    betas = np.linspace(0, 1, 60)[owner] + 1e-6 * np.concatenate([np.arange(number) for number in parts])
    one = rung_chain(flow * MANY, np.linspace(0, 1, 60))
    more = rung_chain(flow[np.ix_(owner, owner)] * np.outer(share, share) * MANY, betas, np.log(share / 60))
    np.testing.assert_allclose(more.gap, one.gap, rtol=1e-9)
    np.testing.assert_allclose(more.committor, one.committor[owner], atol=1e-8)
    np.testing.assert_allclose(more.crossings_per_sweep, one.crossings_per_sweep, rtol=1e-8)
    whole_cuts = np.flatnonzero(np.diff(owner))
    np.testing.assert_allclose(more.conductances[whole_cuts], one.conductances, rtol=1e-8)
    (knot,), (again,) = one.knots, more.knots
    assert abs(again.beta - knot.beta) < 0.005
    np.testing.assert_allclose(again.share, knot.share, rtol=0.1)  # a stretch may end within a rung


def test_rungs_never_visited_are_left_out():
    flow, betas = even_flow(30, 3.0), np.linspace(0, 1, 32)
    padded = np.zeros((32, 32))
    others = np.r_[:10, 12:32]
    padded[np.ix_(others, others)] = flow
    with_holes, without = rung_chain(padded * MANY, betas), rung_chain(flow * MANY, betas[others])
    np.testing.assert_array_equal(with_holes.betas, betas[others])
    np.testing.assert_allclose(with_holes.gap, without.gap, rtol=1e-10)
    np.testing.assert_allclose(with_holes.conductances, without.conductances, rtol=1e-10)


def test_one_rung_only():
    counts = np.zeros((5, 5), int)
    counts[2, 2] = 100
    chain = rung_chain(counts, np.linspace(0, 1, 5))
    assert (chain.gap, chain.relaxation_sweeps, chain.conductance, chain.knots) == (0.0, np.inf, np.inf, ())
    assert np.isnan(chain.best_cut_beta)


@pytest.mark.parametrize("lazy", [0.0, 0.97])
@pytest.mark.parametrize(
    ("num_rungs", "jump"), [(3, 0), (5, 0), (10, 0), (20, 0), (20, 3), (100, 0), (100, 3), (100, 10), (100, 30)]
)
def test_an_even_ladder_has_no_knot(num_rungs, jump, lazy):
    assert find_knots(even_flow(num_rungs, jump, lazy) * MANY, np.linspace(0, 1, num_rungs)) == ()


@pytest.mark.parametrize("jump", [0, 3, 8])
def test_the_share_of_a_stretch_of_an_even_ladder(jump):
    """(π²/4)(width + 1/√(πτ)) on 300 rungs, and up to 15 % less where jumps are short or the stretch is wide."""
    flow = even_flow(300, jump)
    relaxation = 1 / spectral_gap(flow)
    share = knots._stretch(flow, 142, 157)[0] / relaxation
    expected = knots.even_share(0.05, relaxation * (1 - np.trace(flow)))
    assert 0.85 * expected < share < expected


@pytest.mark.parametrize(("num_rungs", "jump"), [(100, 0), (100, 5), (30, 2)])
def test_few_counts_make_no_knot(num_rungs, jump):
    """30 runs of 50 chains × 40 sweeps on an even ladder without an alarm; seeds are fixed, 0 of 600 others had one."""
    rng = np.random.default_rng(num_rungs + jump)
    for _ in range(30):
        rungs, counts = np.arange(50) * num_rungs // 50, np.zeros((num_rungs, num_rungs))
        for _ in range(40):
            jumps = rng.choice([-1, 1], 50) if jump == 0 else np.rint(rng.normal(0, jump, 50)).astype(int)
            to = np.where((rungs + jumps < 0) | (rungs + jumps >= num_rungs), rungs, rungs + jumps)
            np.add.at(counts, (rungs, to), 1)
            rungs = to
        assert find_knots(counts, np.linspace(0, 1, num_rungs)) == ()


def test_the_error_of_the_relaxation_time():
    """The jackknife over groups, written out; none from one group, and 0 from groups that agree."""
    rng = np.random.default_rng(2)
    groups = np.stack([rng.poisson(even_flow(12, 2.0) * 5000) for _ in range(6)])
    betas = np.linspace(0, 1, 12)
    times = [1 / spectral_gap(flow_matrix(np.delete(groups, i, axis=0).sum(axis=0))) for i in range(6)]
    expected = np.sqrt(5 / 6 * np.sum((np.array(times) - np.mean(times)) ** 2))
    np.testing.assert_allclose(rung_chain(groups, betas).relaxation_error, expected, rtol=1e-10)
    assert rung_chain(groups[0], betas).relaxation_error == np.inf
    assert rung_chain(np.stack([groups[0]] * 4), betas).relaxation_error < 1e-9
    np.testing.assert_allclose(rung_chain(groups, betas).gap, rung_chain(groups.sum(axis=0), betas).gap)


def test_balancing():
    flow = random_flow(10, 4)
    visited = np.random.default_rng(0).dirichlet(np.ones(10))
    other = rung_flow.balanced(flow, visited)
    np.testing.assert_allclose(other.sum(axis=1), visited, rtol=1e-9)
    np.testing.assert_allclose(other, other.T, rtol=1e-12)
    np.testing.assert_allclose(rung_flow.balanced(other, flow.sum(axis=1)), flow, rtol=1e-3)  # and back
    odds = other / flow  # what no scaling of rows and columns changes
    np.testing.assert_allclose(odds[0, 1] * odds[2, 3], odds[0, 3] * odds[2, 1], rtol=1e-8)


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_what_a_prior_costs(share):
    """Against the exact flow under the uniform prior, on an even ladder that relaxes in 90 sweeps: within 3 %."""
    log_f = shrinking_normals(50, 40, 0.05)
    prior, uniform = ends_prior(40, share), np.full(40, 1 / 40)
    with_prior, with_uniform = iid_flow(log_f, prior), iid_flow(log_f, uniform)
    expected = rung_flow.log_ratio_variance(with_prior) / rung_flow.log_ratio_variance(with_uniform)
    assert expected > 1.05  # where all rungs are even, a uniform prior is best
    np.testing.assert_allclose(rung_weight_cost(with_prior * MANY, np.log(prior)), expected, rtol=0.03)
    np.testing.assert_allclose(rung_weight_cost(with_uniform * MANY, np.log(uniform)), 1, rtol=1e-6)


def test_the_cost_of_a_prior_is_unknown_where_the_ends_are_not_tied():
    counts = np.zeros((6, 6))
    counts[:3, :3] = counts[3:, 3:] = 10
    uniform = np.full(6, -np.log(6))
    assert np.isnan(rung_weight_cost(counts, uniform))
    counts[0] = counts[:, 0] = 0
    assert np.isnan(rung_weight_cost(counts, uniform))


@pytest.mark.parametrize(
    ("counts", "betas", "log_prior", "named"),
    [
        (np.ones((3, 4)), np.linspace(0, 1, 3), None, "counts"),
        (np.ones((4, 4)), np.linspace(0, 1, 3), None, "counts"),
        (np.ones((2, 2, 3, 3)), np.linspace(0, 1, 3), None, "counts"),
        (np.zeros((3, 3)), np.linspace(0, 1, 3), None, "counts"),
        (-np.ones((3, 3)), np.linspace(0, 1, 3), None, "counts"),
        (np.full((3, 3), np.nan), np.linspace(0, 1, 3), None, "counts"),
        (np.ones((3, 3)), np.array([0.0, 0.5, 0.5]), None, "betas"),
        (np.ones((3, 3)), np.linspace(0, 1, 3), np.zeros(3), "log_prior"),
    ],
)
def test_silly_input_is_refused(counts, betas, log_prior, named):
    refused = (
        (InputError, TypeError) if counts.shape[-1] != counts.shape[-2] or len(betas) != len(counts) else InputError
    )
    with pytest.raises(refused, match=named):
        rung_chain(counts, betas, log_prior)


def test_merged_rungs_keep_every_transition_and_the_place_of_a_knot():
    counts = np.zeros((90, 90))
    for rung in range(89):
        counts[rung, rung + 1] = counts[rung + 1, rung] = 10.0 if rung == 61 else 40_000.0
    betas, log_prior = np.linspace(0, 1, 90), np.full(90, -np.log(90))
    fewer = merge_rungs(counts, betas, log_prior, most=45)
    assert fewer[0].shape == (45, 45)
    assert fewer[0].sum() == counts.sum()
    np.testing.assert_allclose(np.exp(fewer[2]).sum(), 1.0)
    assert fewer[1][0] == pytest.approx(betas[:2].mean())
    assert abs(find_knots(*fewer)[0].beta - find_knots(counts, betas)[0].beta) < 2 / 90
    assert merge_rungs(counts, betas, log_prior)[0] is counts
