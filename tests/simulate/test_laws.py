"""The laws of times that the queue takes, and how they are drawn."""

import numpy as np
import pytest
from scipy import stats

from qcore.simulate import NonIdling, many_server_queue
from qcore.simulate import _quantile_table as laws
from qcore.simulate._laws import law_of_times


def test_random_bits_are_the_published_sequence():
    """SplitMix64 from the seed 1234567, as its users agree on it."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [laws.random_bits(np.uint64(1234567), i) for i in range(5)] == published


SAMPLED = {
    "expon": stats.expon(scale=3.0),
    "gamma above one": stats.gamma(2.3),
    "gamma below one": stats.gamma(0.4, scale=5.0),
    "lognorm": stats.lognorm(1.2, scale=0.1),
    "uniform": stats.uniform(0.5, 2.0),
    "weibull": stats.weibull_min(0.6),
    "pareto": stats.pareto(1.3),
    "beta": stats.beta(2.0, 3.5),
    "invgamma": stats.invgamma(3.0),
    "shifted gamma": stats.gamma(2.0, loc=1.0),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_tabulated_times_have_the_law(name):
    law = SAMPLED[name]
    table = law_of_times("law", law, finite_mean=False).table
    assert table is not None
    times = laws.tabulated_times(table, np.uint64(7), 0, 1_000_000)
    assert stats.kstest(times, law.cdf).pvalue > 1e-3
    again = laws.tabulated_times(table, np.uint64(7), 999_000, 1000)
    assert np.array_equal(again, times[999_000:])


@pytest.mark.parametrize("name", SAMPLED)
def test_tabulated_times_are_quantiles_far_into_the_tails(name):
    law = SAMPLED[name]
    table = law_of_times("law", law, finite_mean=False).table
    powers = np.linspace(0.0, laws.DEGREE, laws.DEGREE + 1)
    for low in (2.0**-54, 1e-15, 1e-9, 1e-4, 0.3, 0.4999):
        tail = (np.floor(low * 2.0**53) + 0.5) * 2.0**-53
        bits = int(low * 2.0**53) << 11
        for half, exact in ((0, law.ppf(tail)), (2**63, law.isf(tail))):
            row, place = laws.place_in_table(np.uint64(bits + half))
            assert table[row] @ place**powers == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    "law", [stats.triang(0.3), stats.randint(0, 4), stats.rv_histogram(([1, 2], [0, 1, 2]))()]
)
def test_laws_with_kinks_are_not_tabulated(law):
    assert law_of_times("law", law, finite_mean=True).table is None


def test_equal_names_do_not_share_a_table():
    first, second = (stats.rv_histogram((counts, [0, 1, 2]))() for counts in ([1, 3], [3, 1]))
    tables = [law_of_times("law", law, finite_mean=True).table for law in (first, second)]
    assert not np.array_equal(*tables)
    assert law_of_times("law", stats.expon(), finite_mean=True).table is (
        law_of_times("law", stats.expon(), finite_mean=True).table
    )


@pytest.mark.parametrize("name", SAMPLED)
def test_compiled_draws_are_the_quantiles_of_their_uniform_numbers(name):
    """The loop that draws, not only the table behind it, has the documented accuracy of 1e-9."""
    law = SAMPLED[name]
    table = law_of_times("law", law, finite_mean=False).table
    seed, first, size = np.uint64(99), 12_345, 3000
    times = laws.tabulated_times(table, seed, first, size)
    bits = [int(laws.random_bits(seed, first + i)) for i in range(size)]
    # An odd multiple of 2**-54, of which the top bit says whether it is a tail above or below.
    tails = np.array([(2 * (word >> 11 & 2**52 - 1) + 1) * 2.0**-54 for word in bits])
    exact = np.where([word >> 63 for word in bits], law.isf(tails), law.ppf(tails))
    assert np.max(np.abs(times / exact - 1)) < 1e-9


class Kinked(stats.rv_continuous):
    """A tail without mean and a kink at the quantile of 0.3."""

    def _ppf(self, q):
        return q / (1 - q) + np.maximum(q - 0.3, 0.0)

    def _cdf(self, x):
        grid = np.linspace(0.0, 1.0, 2001)[:-1]
        return np.interp(x, self._ppf(grid), grid)

    def _stats(self):
        return np.inf, np.inf, None, None


def test_a_kink_is_seen_although_the_mean_is_infinite():
    law = Kinked(a=0.0)()
    assert law.mean() == np.inf
    assert law_of_times("law", law, finite_mean=False).table is None


def times_of(given, size=200_000, seed=3):
    law = law_of_times("law", given, finite_mean=True)
    return law, law.draw(0, size, np.uint64(seed), np.random.default_rng(seed))


def new_laws():
    """Return SciPy's newer random variables with older ones of the same law."""
    if not hasattr(stats, "make_distribution"):
        return []
    mixed = stats.Mixture([stats.Uniform(a=0.0, b=1.0), stats.Uniform(a=3.0, b=4.0)])
    return [
        (stats.make_distribution(stats.gamma)(a=2.0), stats.gamma(2.0)),
        (2.0 * stats.make_distribution(stats.gamma)(a=2.0), stats.gamma(2.0, scale=2.0)),
        (stats.Uniform(a=0.5, b=1.5), stats.uniform(0.5, 1.0)),
        (stats.exp(stats.Normal()), stats.lognorm(1.0)),
        (stats.truncate(stats.Normal(), lb=0.0), stats.halfnorm()),
        (mixed, stats.rv_histogram(([1, 0, 0, 1], [0, 1, 2, 3, 4]))()),
    ]


@pytest.mark.parametrize(
    ("new", "old"),
    new_laws(),
    # The old law's text names an address, which differs between workers.
    ids=lambda law: "" if hasattr(law, "dist") else str(law).replace("\n", ""),
)
def test_newer_random_variables_have_their_law(new, old):
    law, times = times_of(new)
    assert law.mean == pytest.approx(old.mean(), rel=1e-9)
    assert law.squared_variation == pytest.approx(old.var() / old.mean() ** 2, rel=1e-6)
    assert stats.kstest(times, old.cdf).pvalue > 1e-3
    grid = np.array([0.2, 0.9, 3.3])
    assert law.survival(grid) == pytest.approx(old.sf(grid), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("given", [1.5, 2, np.float64(0.25), np.array(3.0)], ids=repr)
def test_a_number_is_a_constant_time(given):
    law, times = times_of(given, size=100)
    assert np.all(times == float(given))
    assert (law.mean, law.squared_variation) == (float(given), 0.0)
    assert list(law.survival([0.0, float(given), 9.0])) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_sample_is_drawn_with_replacement(kind):
    law, times = times_of(kind([3.0, 1.0, 1.0, 0.5]))
    values, counts = np.unique(times, return_counts=True)
    assert list(values) == [0.5, 1.0, 3.0]
    assert stats.chisquare(counts, len(times) * np.array([0.25, 0.5, 0.25])).pvalue > 1e-3
    assert law.mean == 1.375
    assert law.squared_variation == pytest.approx(np.var([3.0, 1.0, 1.0, 0.5]) / 1.375**2)
    assert list(law.survival([0.0, 0.5, 1.0, 3.0])) == [1.0, 0.75, 0.25, 0.0]
    assert np.array_equal(law.draw(1000, 50, np.uint64(3), None), times[1000:1050])


@pytest.mark.parametrize(
    "given",
    [
        stats.rv_histogram(([1, 2], [0, 1, 2])),
        stats.rv_discrete(values=([1, 2], [0.25, 0.75])),
        stats.rv_discrete(values=([1, 2], [0.25, 0.75]))(),
        stats.randint(0, 4),
    ],
)
def test_tables_and_discrete_laws_are_taken(given):
    law, times = times_of(given)
    assert law.mean == pytest.approx(given.mean(), rel=1e-12)
    assert np.mean(times) == pytest.approx(given.mean(), abs=5 * given.std() / 200_000**0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1.0", "must be"),
        (b"1", "must be"),
        (None, "must be a number"),
        (True, "must be"),
        (1j, "must be"),
        (-1.0, "must be finite and >= 0"),
        (np.nan, "must be finite"),
        (np.inf, "must be finite"),
        (1e300, "<= 1e"),
        (10**400, "must be"),
        ([], "sample"),
        ([[1.0, 2.0]], "sample"),
        ([1.0, -1.0], "= -1"),
        ([1.0, np.nan], "= nan"),
        ([1.0, "2"], "must be"),
        ([[1.0], [1.0, 2.0]], "must be"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "must be|mask"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "must be"),
        (stats.expon, "frozen"),
        (stats.gamma, "frozen"),
        (stats.expon(scale=1e200), "must have a mean from 1e-150 to 1e"),
        (stats.expon(scale=1e-200), "must have a mean from 1e-150 to 1e"),
        (stats.uniform(1.0, 0.0), "a constant time is a number"),
        (0.0, "must have a mean > 0"),
        ([0.0, 0.0], "must have a mean > 0"),
        (object(), "must be a number"),
        ({"mean": 1.0}, "must be a number"),
        (lambda size: 1.0, "must be a number"),
        (stats.gaussian_kde([1.0, 2.0, 4.0]), "must be a number"),
    ],
)
def test_what_is_no_law_is_refused_by_name(given, message):
    with pytest.raises(ValueError, match=rf"^law.*({message})"):
        law_of_times("law", given, finite_mean=True)


@pytest.mark.skipif(not hasattr(stats, "Normal"), reason="this SciPy has no newer distributions")
def test_newer_random_variables_are_refused_like_older_ones():
    for given, message in (
        (stats.Normal(), "support begins at -inf"),
        (stats.Normal, "must be a number"),
        (stats.make_distribution(stats.pareto)(b=0.9), "must have a finite mean"),
        (stats.Uniform(a=0.0, b=[1.0, 2.0]), "not an array of laws"),
    ):
        with pytest.raises(ValueError, match=message):
            law_of_times("law", given, finite_mean=True)


@pytest.mark.parametrize(("servers", "load", "millions"), [(1, 0.8, 3), (3, 2.4, 3), (20, 17.0, 8)])
def test_constant_services_are_crommelins_queue(servers, load, millions):
    """M/D/c, by the chain that looks at the number in the system once every service time.

    Whoever is in service at an epoch has left one service time later, and nobody who arrives
    after it has: the number is max(number − c, 0) plus a Poisson number.
    """
    states = 400
    arrivals = stats.poisson(load).pmf(np.arange(states))
    chain = np.zeros((states, states))
    for number in range(states):
        left = max(number - servers, 0)
        chain[number, left:] = arrivals[: states - left]
    chain[:, -1] += 1 - chain.sum(axis=1)
    system = np.vstack([chain.T - np.eye(states), np.ones(states)])
    number = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    assert number[-1] < 1e-12
    queue = number @ np.maximum(np.arange(states) - servers, 0)
    run = many_server_queue(
        servers,
        stats.expon(scale=1 / load),
        1.0,
        None,
        NonIdling(),
        customers=millions * 10**6,
        seed=5,
    )
    for name, exact in (
        ("queue_length", queue),
        ("waiting_time", queue / load),
        ("delay_probability", number[servers:].sum()),
        ("busy_fraction", load / servers),
    ):
        found = getattr(run, name)
        assert abs(found.value - exact) < 4 * found.standard_error, name
        assert found.standard_error < 0.012 * exact, name
