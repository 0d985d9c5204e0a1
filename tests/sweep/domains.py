"""What each public function of qcore takes: a base point and the domain around it.

`ENTRIES` has a key for every public function, class and method that the sweep finds by itself.
"""

import dataclasses
import math

import numpy as np
from scipy import stats

from qcore import admission, deferral, erlang, idling, qed, simulate


@dataclasses.dataclass(frozen=True)
class Real:
    """A real number, drawn log-uniformly from ``low`` (``least`` where that is 0) to ``high``."""

    base: float
    low: float
    high: float
    least: float = 1e-9
    arrays: bool = True
    signed: bool = False
    optional: bool = False

    def draw(self, rng):
        low, high = math.log(self.low or self.least), math.log(self.high)
        size = math.exp(rng.uniform(low, high))
        return -size if self.signed and rng.random() < 0.5 else min(max(size, self.low), self.high)


def number(base, low, high, **options):
    """Return a real number that must not be an array."""
    return Real(base, low, high, arrays=False, **options)


@dataclasses.dataclass(frozen=True)
class Count:
    """An integer, drawn log-uniformly; a seed is one of any size.

    What is allowed above ``high``, up to ``costly``, takes long, as the docstring says.
    """

    base: int
    low: int
    high: int
    optional: bool = False
    unbounded: bool = False
    costly: float = 0

    def draw(self, rng):
        return int(math.exp(rng.uniform(math.log(max(self.low, 1)), math.log(self.high + 0.999))))


@dataclasses.dataclass(frozen=True)
class Flag:
    base: bool = False
    optional: bool = False

    def draw(self, rng):
        return bool(rng.random() < 0.5)


@dataclasses.dataclass(frozen=True)
class Thing:
    """No number: a profile, a law, a word, a function; drawn from ``base`` and ``others``."""

    base: object
    others: tuple = ()
    optional: bool = False
    law: bool = False  # a law of times, which a number (a constant time) or a sample is too
    sequence: bool = False  # of numbers, which an array is too

    def draw(self, rng):
        return (self.base, *self.others)[rng.integers(1 + len(self.others))]


@dataclasses.dataclass(frozen=True)
class Entry:
    """Parameters of a function, and where its numbers lie."""

    parameters: dict
    low: float = -math.inf
    high: float = math.inf
    infinite: bool = False  # whether ±∞ is a value, as the docstring says
    draws: int = 25
    refused: float = 0.5  # part of the draws that a condition on several arguments may refuse
    owner: object = None  # of a method


def probability(parameters, **options):
    return Entry(parameters, 0.0, 1.0, **options)


def non_negative(parameters, **options):
    return Entry(parameters, 0.0, **options)


def square(b):
    return b * b


def all_enter(busy, waiting):
    return min(waiting, 3 - busy)


def after_one(random, now, last_return, deferred, parameters):
    return now + 1.0


def decay(x):
    return np.exp(-x)


def transform(theta):
    return 1.0 / (1.0 + theta)


RESULT = None  # a class whose objects only the package makes
PROFILES = {
    "Abandonment": admission.Abandonment(0.5),
    "FiniteBuffer": admission.FiniteBuffer(1.5),
    "ModifiedDrift": admission.ModifiedDrift(0.5),
    "NoWaiting": admission.NoWaiting(),
    "OpenAdmission": admission.OpenAdmission(),
    "PowerDecay": admission.PowerDecay(1.5),
}
PROFILE = Thing(PROFILES["Abandonment"], tuple(PROFILES.values()))
CONTROL = Thing(None, ("global", "local"), optional=True)
GAMMA = Real(0.7, 1e-6, 1e6, signed=True)
ORDER = Count(2, 0, 8)
LOAD = Real(9.0, 0, 1e18)
RATE = Real(1.0, 1e-60, 1e60)
ONE_RATE = number(1.0, 1e-60, 1e60)
SEED = Count(1, 0, 2**40, unbounded=True)

ERLANG = "qcore.erlang."
ENTRIES = {
    ERLANG + "ErlangAMeasures": RESULT,
    ERLANG + "erlang_a": non_negative(
        {
            "servers": Real(8.0, 0, 1e18),
            "offered_load": LOAD,
            "abandonment_rate": Real(1.0, 0, 1e280),
        }
    ),
    ERLANG + "erlang_b": probability({"servers": Real(8.0, 0, 1e18), "offered_load": LOAD}),
    ERLANG + "erlang_c": probability(
        {"servers": Real(12.0, 0, 1e18), "offered_load": LOAD}, refused=0.8
    ),
    ERLANG + "inverse_erlang_b": Entry(
        {"servers": Real(8.0, 0, 1e18), "offered_load": LOAD}, 1.0, infinite=True
    ),
    ERLANG + "log_erlang_b": Entry(
        {"servers": Real(8.0, 0, 1e18), "offered_load": LOAD}, high=0.0, infinite=True
    ),
    ERLANG + "log_erlang_c": Entry(
        {"servers": Real(12.0, 0, 1e18), "offered_load": LOAD},
        high=0.0,
        infinite=True,
        refused=0.8,
    ),
    ERLANG + "servers_for_blocking": non_negative(
        {
            "offered_load": Real(9.0, 1e-9, 1e15),
            "target": Real(0.1, 1e-300, 1 - 1e-9),
            "real_valued": Flag(),
        }
    ),
    ERLANG + "servers_for_delay": non_negative(
        {
            "offered_load": Real(9.0, 1e-9, 1e15),
            "target": Real(0.1, 1e-300, 1 - 1e-9),
            "abandonment_rate": Real(1.0, 0, 1e280),
            "real_valued": Flag(),
        }
    ),
}

TIME = Real(0.7, 0, 1e150)
CHANCE = Real(0.9, 1e-9, 1 - 1e-9)
WHOSE = Thing("all", ("served", "abandoning", "virtual"))
AMONG = Thing("all", ("served",))
STAFFED = {
    "offered_load": Real(9.0, 1e-9, 1e15),
    "abandonment_rate": Real(1.0, 1e-9, 1e9),
    "real_valued": Flag(),
    "errors": Thing("raise"),
}
IMPATIENT = erlang.queue(8, 9.0, 0.5)
ENTRIES |= {
    ERLANG + "Queue": RESULT,
    ERLANG + "Queue.wait_tail": probability({"t": TIME, "of": WHOSE}, owner=IMPATIENT),
    ERLANG + "Queue.wait_quantile": non_negative({"p": CHANCE, "of": WHOSE}, owner=IMPATIENT),
    ERLANG + "Queue.service_level": probability({"t": TIME, "of": AMONG}, owner=IMPATIENT),
    ERLANG + "Queue.missed": probability({"t": number(0.7, 0, 1e150)}, owner=IMPATIENT),
    ERLANG + "queue": non_negative(
        {
            "servers": number(8.0, 1e-9, 1e18),
            "offered_load": number(9.0, 1e-290, 1e18),
            "abandonment_rate": number(1.0, 1e-100, 1e100),
        }
    ),
    ERLANG + "load_for_blocking": non_negative(
        {
            "servers": Real(8.0, 1e-3, 1e15),
            "target": Real(0.1, 1e-300, 1 - 1e-9),
            "errors": Thing("raise"),
        }
    ),
    ERLANG + "servers_for_service_level": non_negative(
        STAFFED | {"target": CHANCE, "acceptable_wait": Real(0.1, 0, 1e9)}
    ),
    ERLANG + "servers_for_mean_wait": non_negative(STAFFED | {"target": Real(0.1, 1e-300, 1e9)}),
    ERLANG + "servers_for_abandonment": non_negative(
        STAFFED | {"target": Real(0.1, 1e-300, 1 - 1e-9)}
    ),
}

ADMISSION = "qcore.admission."
QUEUE = {
    "servers": Real(9.0, 1e-3, 1e9),
    "traffic_intensity": Real(0.9, 1e-6, 1e6),
    "profile": PROFILE,
    "control": CONTROL,
}
ENTRIES |= {
    ADMISSION + "Abandonment": Entry({"abandonment_rate": number(0.5, 1e-150, 1e150)}),
    ADMISSION + "FiniteBuffer": Entry({"size": number(1.5, 1e-150, 1e150)}),
    ADMISSION + "ModifiedDrift": Entry({"p": number(0.5, 1e-150, 1.0)}),
    ADMISSION + "NoWaiting": Entry({}),
    ADMISSION + "OpenAdmission": Entry({}),
    ADMISSION + "PowerDecay": Entry({"exponent": number(1.5, 1e-150, 1e150)}),
    ADMISSION + "Piece": RESULT,
    ADMISSION + "QueueDistribution": RESULT,
    ADMISSION + "ScalingProfile": RESULT,
    ADMISSION + "delay_probability": probability(QUEUE),
    ADMISSION + "rejection_probability": probability(QUEUE),
    ADMISSION + "is_stable": Entry(QUEUE),
    ADMISSION + "queue_distribution": non_negative(
        QUEUE | {"servers": Count(9, 1, 10**6), "traffic_intensity": number(0.9, 1e-6, 1e3)}
    ),
    ADMISSION + "from_global": Entry(
        {"f": Thing(decay), "gamma_min": number(-1.0, 1e-3, 1e3, optional=True)}, draws=2, refused=1
    ),
    ADMISSION + "from_local": Entry({"a": Thing(square)}, draws=2),
    ADMISSION + "varies_smoothly": Entry({"function": Thing(square)}),
}
CONTROLLED = admission.queue(9, 0.9, PROFILES["Abandonment"])
REJECTING = {
    "offered_load": Real(9.0, 1e-3, 1e6),
    "profile": Thing(
        PROFILES["ModifiedDrift"], (PROFILES["Abandonment"], PROFILES["FiniteBuffer"])
    ),
    "control": CONTROL,
    "real_valued": Flag(),
    "errors": Thing("raise"),
}
ENTRIES |= {
    ADMISSION + "AdmissionRule": RESULT,
    ADMISSION + "AdmissionRule.at": RESULT,
    ADMISSION + "AdmissionRule.p": probability(
        {"k": Real(1.0, 0, 1e6)}, owner=admission.from_probabilities([0.5, 0.2]), refused=1
    ),
    ADMISSION + "Queue": RESULT,
    ADMISSION + "Queue.wait_tail": probability({"t": TIME}, owner=CONTROLLED),
    ADMISSION + "Queue.wait_quantile": non_negative({"p": CHANCE}, owner=CONTROLLED),
    ADMISSION + "Queue.service_level": probability({"t": TIME, "of": AMONG}, owner=CONTROLLED),
    ADMISSION + "Queue.missed": probability({"t": number(0.7, 0, 1e150)}, owner=CONTROLLED),
    ADMISSION + "from_probabilities": Entry({"p": Thing([0.5, 0.2])}),
    ADMISSION + "queue": non_negative(
        QUEUE | {"servers": number(9.0, 1e-3, 1e18), "traffic_intensity": number(0.9, 1e-290, 1e3)}
    ),
    ADMISSION + "servers_for_rejection": non_negative(
        REJECTING | {"target": Real(0.1, 1e-290, 1 - 1e-9)}, draws=10
    ),
    ADMISSION + "servers_for_service_level": non_negative(
        REJECTING | {"target": Real(0.9, 0.5, 1 - 1e-9), "acceptable_wait": Real(0.1, 0, 1e9)},
        draws=10,
    ),
}

METHODS = {
    "f": probability({"x": Real(0.7, 0, 1e300)}),
    "log_f": Entry({"x": Real(0.7, 0, 1e300)}, high=0.0, infinite=True),
    "a": non_negative({"x": Real(0.7, 0, 1e300)}, infinite=True),
    "a_derivatives_at_zero": Entry({"n": ORDER}, infinite=True, refused=1),
    "derivatives_at_zero": Entry({"n": ORDER}, infinite=True, refused=1),
    "is_finite_at": Entry({"gamma": GAMMA, "derivative": Count(0, 0, 8)}),
    "laplace": Entry({"gamma": GAMMA, "derivative": Count(0, 0, 8)}, infinite=True, refused=1),
    "log_laplace": Entry({"gamma": GAMMA}, infinite=True, refused=1),
    "log_abs_derivative": Entry(
        {"gamma": number(0.7, 1e-6, 1e6), "derivative": Count(1, 0, 8)}, infinite=True, refused=1
    ),
    "log_tail_transform": Entry(
        {"gamma": number(0.7, 1e-6, 1e6), "x": number(0.7, 0, 1e6)}, infinite=True, refused=1
    ),
    "resolve_control": Entry({"control": CONTROL}),
    "places": non_negative({"servers": number(9.0, 1e-3, 1e9)}),
}
ENTRIES |= {
    f"{ADMISSION}{profile}.{method}": dataclasses.replace(entry, owner=owner)
    for profile, owner in PROFILES.items()
    for method, entry in METHODS.items()
}

# What expansions and exact measures ask of a profile, with arguments that they have checked.
PROTOCOL = (
    "constant_refusal",
    "critical_sum",
    "excess_moments",
    "moments",
    "pieces",
    "rate_jets",
    "rate_polynomial",
    "taylor_of_a",
    "taylor_of_f",
    "taylor_within",
)
ENTRIES |= {f"{ADMISSION}{profile}.{method}": RESULT for profile in PROFILES for method in PROTOCOL}

ENTRIES[ADMISSION + "NoWaiting.a_derivatives_at_zero"] = RESULT  # it refuses every n
ENTRIES[ADMISSION + "PowerDecay.a_derivatives"] = RESULT  # of the protocol

QED = "qcore.qed."
EXPANSION = {"gamma": GAMMA, "profile": PROFILE, "order": ORDER, "control": CONTROL}
LATE = EXPANSION | {"scaled_time": Real(0.7, 0, 1e6)}
EXPANDED = qed.delay_expansion(0.7, PROFILE.base, order=2)
ENTRIES |= {
    QED + "Expansion": RESULT,
    QED + "Expansion.coefficients_at": Entry({"servers": Real(9.0, 1e-9, 1e15)}, owner=EXPANDED),
    QED + "Expansion.truncation_error": non_negative(
        {"servers": Real(9.0, 1e-9, 1e15)}, owner=EXPANDED
    ),
    **{
        QED + name: Entry(EXPANSION | {"gamma": number(0.7, 1e-6, 1e6)}, refused=0.8)
        for name in (
            "delay_coefficients",
            "delay_expansion",
            "mean_wait_coefficients",
            "mean_wait_expansion",
            "rejection_coefficients",
            "rejection_expansion",
        )
    },
    QED + "delay_probability": Entry({"servers": Real(100.0, 1, 1e12)} | EXPANSION, refused=0.9),
    QED + "rejection_probability": Entry(
        {"servers": Real(100.0, 1, 1e12)} | EXPANSION, refused=0.9
    ),
    QED + "mean_wait": non_negative({"servers": Real(100.0, 1, 1e12)} | EXPANSION, refused=0.9),
    QED + "wait_tail": probability(LATE | {"servers": Real(100.0, 1, 1e12)}, refused=0.95),
    QED + "service_level": probability(
        LATE | {"servers": Real(100.0, 1, 1e12), "of": AMONG}, refused=0.95
    ),
    QED + "wait_tail_coefficients": Entry(LATE | {"gamma": number(0.7, 1e-6, 1e6)}, refused=0.9),
    QED + "service_level_coefficients": Entry(
        LATE | {"gamma": number(0.7, 1e-6, 1e6), "of": AMONG}, refused=0.9
    ),
}

DIFFUSION = "qcore.diffusion."
LIMIT = {"gamma": GAMMA, "profile": PROFILE}
ENTRIES |= {
    DIFFUSION + "SamplePath": RESULT,
    DIFFUSION + "delay_probability": probability(LIMIT, refused=0.6),
    DIFFUSION + "mean": Entry(LIMIT, refused=0.6),
    DIFFUSION + "variance": non_negative(LIMIT, refused=0.6),
    DIFFUSION + "moment": Entry({"order": ORDER} | LIMIT, refused=0.7),
    DIFFUSION + "stationary_cdf": probability(
        {"x": Real(0.5, 1e-6, 1e6, signed=True)} | LIMIT, refused=0.6
    ),
    DIFFUSION + "stationary_density": non_negative(
        {"x": Real(0.5, 1e-6, 1e6, signed=True)} | LIMIT, refused=0.6
    ),
    DIFFUSION + "sample_path": Entry(
        LIMIT
        | {
            "gamma": number(0.7, 1e-3, 1e3),
            "horizon": number(2.0, 1e-3, 1e3),
            "seed": SEED,
            "step": number(0.01, 1e-2, 1e2),
            "start": number(0.1, 1e-6, 1e3, signed=True),
            "paths": Count(2, 1, 10, optional=True),
        },
        refused=0.9,
    ),
}

SINGLE_SERVER = "qcore.deferral.single_server."
ONE = {"arrival_rate": RATE, "service_rate": RATE}
SYSTEM = {
    "servers": Count(3, 1, 200),
    "max_deferrals": Count(2, 0, 20),
    "arrival_rate": Real(2.5, 1e-60, 1e60),
    "service_rate": RATE,
}
OPTIMISED = {
    "servers": Count(3, 1, 50),
    "max_deferrals": Count(2, 1, 10),
    "arrival_rate": number(2.5, 1e-60, 1e60),
    "service_rate": ONE_RATE,
    "max_deferral_time": number(1.0, 1e-60, 1e60),
}
DSRT, ESRT = "qcore.deferral.dsrt.", "qcore.deferral.esrt."
SINGLE_DEFERRAL = "qcore.deferral.single_deferral."
DEFERRED = {
    "servers": Count(3, 1, 1000),
    "arrival_rate": number(2.5, 1e-60, 1e60),
    "service_rate": ONE_RATE,
    "deferral_time": number(0.5, 0, 1e300),
}
BY_PLACE = "qcore.deferral.spacing_by_place."
SPACINGS = Thing((0.3, 0.2), ((0.5,), [2.0, 1.0, 0.5], (1e-9, 1e3)), sequence=True)
ONE_SYSTEM = {name: DEFERRED[name] for name in ("servers", "arrival_rate", "service_rate")}
ASYMPTOTICS = "qcore.deferral.asymptotics."
BETA = Real(0.5, 1e-6, 30.0, signed=True)
ONE_BETA = number(0.5, 1e-6, 30.0, signed=True)
ENTRIES |= {
    SINGLE_SERVER + "blocking_probability": probability(ONE | {"spacing": RATE}),
    SINGLE_SERVER + "exponential_blocking_probability": probability(ONE | {"rearrival_rate": RATE}),
    SINGLE_SERVER + "random_return_blocking_probability": probability(
        ONE | {"mean_deferral_time": RATE, "laplace_transform": Thing(transform)}, refused=1
    ),
    SINGLE_SERVER + "relative_gain": probability(ONE | {"spacing": RATE}),
    SINGLE_SERVER + "optimal_spacing": non_negative(ONE | {"max_deferral_time": RATE}),
    DSRT + "Optimum": RESULT,
    DSRT + "blocking_probability": probability(
        SYSTEM | {"spacing": Real(0.3, 1e-60, 1e60)}, refused=1, draws=8
    ),
    DSRT + "configuration_distribution": probability(
        SYSTEM
        | {"arrival_rate": ONE_RATE, "service_rate": ONE_RATE, "spacing": number(0.3, 1e-60, 1e60)},
        refused=1,
    ),
    DSRT + "deferrals_in_use": non_negative(
        {
            "max_deferrals": Count(5, 1, 10**9),
            "spacing": number(0.3, 1e-60, 1e60),
            "max_deferral_time": number(1.0, 1e-60, 1e60),
        },
        refused=0.8,  # a spacing beyond the limit
    ),
    DSRT + "optimal_spacing": non_negative(OPTIMISED, refused=1),
    ESRT + "Optimum": RESULT,
    ESRT + "blocking_probability": probability(SYSTEM | {"rearrival_rate": Real(3.0, 1e-60, 1e60)}),
    ESRT + "configuration_distribution": probability(
        SYSTEM
        | {
            "arrival_rate": ONE_RATE,
            "service_rate": ONE_RATE,
            "rearrival_rate": number(3.0, 1e-60, 1e60),
        }
    ),
    ESRT + "deferrals_in_use": non_negative(
        {
            "max_deferrals": Count(5, 1, 10**9),
            "rearrival_rate": number(3.0, 1e-60, 1e60),
            "max_deferral_time": number(1.0, 1e-60, 1e60),
        },
        refused=0.8,  # a mean beyond the limit
    ),
    ESRT + "optimal_rearrival_rate": non_negative(OPTIMISED, refused=1),
    SINGLE_DEFERRAL + "Optimum": RESULT,
    SINGLE_DEFERRAL + "blocking_probability": probability(DEFERRED, refused=1),
    SINGLE_DEFERRAL + "relative_gain": probability(DEFERRED, refused=1),
    SINGLE_DEFERRAL + "optimal_deferral_time": non_negative(
        ONE_SYSTEM | {"max_deferral_time": number(1.0, 1e-60, 1e60)},
        refused=1,
    ),
    BY_PLACE + "Optimum": RESULT,
    BY_PLACE + "blocking_probability": probability(
        ONE_SYSTEM | {"spacings": SPACINGS},
        refused=1,
    ),
    BY_PLACE + "longest_deferral_time": non_negative({"spacings": SPACINGS}),
    BY_PLACE + "optimal_spacings": non_negative(
        {
            "servers": Count(3, 1, 20, costly=1000),
            "max_deferrals": Count(2, 1, 2, costly=6),
            "arrival_rate": number(2.5, 1e-60, 1e60),
            "service_rate": ONE_RATE,
            "max_deferral_time": number(1.0, 1e-60, 1e60),
        },
        refused=1,
    ),
    ASYMPTOTICS + "ManyDeferrals": RESULT,
    ASYMPTOTICS + "SpacingExpansion": RESULT,
    ASYMPTOTICS + "SpacingEstimate": RESULT,
    **{
        f"{ASYMPTOTICS}SpacingExpansion.{method}": non_negative(
            {"servers": number(1e4, 1.0, 1e15), "service_rate": ONE_RATE},
            owner=deferral.asymptotics.esrt_spacing(2, 0.5),
            refused=1,
        )
        for method in ("estimate", "spacing")
    },
    ASYMPTOTICS + "TimeLimit": RESULT,
    ASYMPTOTICS + "UnderloadedTimeLimit": RESULT,
    ASYMPTOTICS + "deferral_slot_value": non_negative({"beta": BETA}),
    ASYMPTOTICS + "dsrt_spacing": Entry(
        {"max_deferrals": Count(2, 1, 10), "beta": ONE_BETA}, refused=1
    ),
    ASYMPTOTICS + "esrt_spacing": Entry(
        {"max_deferrals": Count(2, 1, 10), "beta": ONE_BETA}, refused=1
    ),
    ASYMPTOTICS + "many_deferrals": Entry(
        {"beta": ONE_BETA, "delta": number(0.5, 1e-9, 20.0)}, refused=1
    ),
    ASYMPTOTICS + "mean_time_limit": non_negative(
        {
            "scaled_beta": number(0.5, 1e-3, 5.0, signed=True),
            "max_deferral_time": number(1.0, 1e-3, 1e3),
        },
        refused=1,
    ),
    ASYMPTOTICS + "scaled_erlang_b": non_negative({"beta": BETA}),
    ASYMPTOTICS + "scaled_waiting_room_blocking": non_negative(
        {"beta": BETA, "delta": Real(0.5, 0.0, 20.0)}
    ),
    ASYMPTOTICS + "throughput_floor": probability({"servers": Real(9.0, 1.0, 1e15)} | ONE),
    ASYMPTOTICS + "underloaded_time_limit": Entry(
        {
            "servers": number(1000.0, 1.0, 1e9),
            "beta": number(-2.0, 1e-2, 30.0, signed=True),
            "max_deferral_time": number(1.0, 1e-3, 1e3),
            "service_rate": ONE_RATE,
        },
        refused=1,
    ),
    ASYMPTOTICS + "waiting_room_blocking": probability(
        {"servers": Real(9.0, 1.0, 1e9), "waiting_places": Real(3.0, 0.0, 1e9)} | ONE
    ),
}

IDLING, MARKOV = "qcore.idling.", "qcore.idling.markov."
COSTS = {
    "abandonment_cost": number(1.0, 0, 1e6),
    "utilization_cost": Thing(square),
    "holding_cost": number(0.1, 0, 1e6),
}
MARKOVIAN = {
    "servers": Count(3, 1, 30),
    "arrival_rate": number(3.3, 1e-3, 1e3),
    "service_rate": number(1.0, 1e-3, 1e3),
    "abandonment_rate": number(0.5, 1e-3, 1e3),
}
FLUID = idling.FluidControlProblem(
    1.2, 1.0, 1.0, square, 0.3, stats.gamma(3, scale=1 / 3), rejection=True
)
FRACTIONS = {
    "busy_fraction": Real(0.5, 0, 1.0),
    "admission_probability": Real(0.8, 0, 1.0, optional=True),
}
ENTRIES |= {
    IDLING + "FluidControlProblem": Entry(
        {
            "arrival_rate": number(1.2, 1e-6, 1e6),
            "service_rate": number(1.0, 1e-6, 1e6),
            "abandonment_cost": number(1.0, 0, 1e6),
            "utilization_cost": Thing(square),
            "holding_cost": number(0.3, 0, 1e6),
            "patience": Thing(stats.expon(), optional=True),
            "rejection": Flag(),
        }
    ),
    **{
        f"{IDLING}FluidControlProblem.{method}": Entry(
            FRACTIONS, 0.0, infinite=method == "waiting_time", owner=FLUID, refused=1
        )
        for method in ("abandonment_rate", "cost", "queue_length", "rejection_rate", "waiting_time")
    },
    MARKOV + "OptimalPolicy": RESULT,
    MARKOV + "PolicyCost": RESULT,
    MARKOV + "exponential_idling": non_negative(
        MARKOVIAN
        | {"idle_time": number(0.5, 0, 1e3)}
        | COSTS
        | {"max_waiting": Count(40, 1, 200, optional=True)},
        refused=1,
    ),
    MARKOV + "fewer_servers": non_negative(
        MARKOVIAN | {"working_servers": Count(2, 1, 30)} | COSTS, refused=1
    ),
    MARKOV + "lower_bound": non_negative(
        {name: MARKOVIAN[name] for name in ("servers", "arrival_rate", "service_rate")}
        | {name: COSTS[name] for name in ("abandonment_cost", "utilization_cost")}
        | {"whole_servers": Flag()}
    ),
    MARKOV + "non_idling": non_negative(MARKOVIAN | COSTS),
    MARKOV + "optimal_policy": Entry(
        MARKOVIAN | COSTS | {"rejection": Flag(), "max_waiting": Count(40, 1, 200, optional=True)},
        draws=5,
        refused=1,
    ),
    MARKOV + "policy_cost": non_negative(
        MARKOVIAN
        | {"entering": Thing(all_enter)}
        | COSTS
        | {"max_waiting": Count(40, 1, 200, optional=True)},
        draws=5,
        refused=1,
    ),
    MARKOV + "thinned": non_negative(
        MARKOVIAN | {"admission_probability": number(0.8, 1e-6, 1.0)} | COSTS
    ),
}

PATIENCE = "qcore.idling.general_patience."
IMPATIENT = {
    "servers": Count(3, 1, 10**9),
    "arrival_rate": number(2.5, 1e-9, 1e9),
    "service_rate": number(1.0, 1e-9, 1e9),
    "patience": Thing(stats.expon(), (stats.gamma(2.0), stats.uniform(0, 3), stats.lomax(0.5))),
}
ENTRIES |= {
    PATIENCE + "StationaryQueue": RESULT,
    PATIENCE + "StationaryQueue.virtual_wait_tail": probability(
        {"time": Real(0.5, 0, 1e300)},
        owner=idling.general_patience.queue(3, 2.5, 1.0, stats.gamma(2.0)),
    ),
    PATIENCE + "queue": non_negative(IMPATIENT, draws=40, refused=0),
    PATIENCE + "thinned": non_negative(
        IMPATIENT
        | {"servers": Count(3, 1, 10**5), "admission_probability": number(0.8, 1e-6, 1.0)}
        | COSTS
    ),
}

SIMULATE = "qcore.simulate."
HISTOGRAM = simulate.Histogram(
    edges=np.array([0.0, 1.0, 2.0]),
    density=np.array([0.6, 0.4]),
    standard_error=np.array([0.01, 0.01]),
    tail=simulate.Estimate(np.array([1.0, 0.4, 0.0]), np.array([0.0, 0.01, 0.0])),
)
RUN = {"customers": Count(2000, 1000, 5000, costly=1e11), "seed": SEED}
WARMUP = Count(100, 1, 1000, optional=True, costly=1e11)
SWEPT = {
    "servers": 1,
    "max_deferrals": 1,
    "arrival_rate": 1.0,
    "service_rate": 1.0,
    "policy": simulate.Dsrt(0.5),
    "customers": 2000,
}
ENTRIES |= {
    SIMULATE + "Estimate": RESULT,
    SIMULATE + "DeferralEstimates": RESULT,
    SIMULATE + "DeferralCensus": RESULT,
    SIMULATE + "QueueEstimates": RESULT,
    SIMULATE + "QueueCensus": RESULT,
    SIMULATE + "Histogram": RESULT,
    SIMULATE + "Histogram.quantile": non_negative(
        {"probability": number(0.5, 1e-9, 1.0)}, owner=HISTOGRAM
    ),
    SIMULATE + "Dsrt": Entry({"spacing": number(0.5, 1e-60, 1e60)}, refused=1),
    SIMULATE + "Esrt": Entry({"rearrival_rate": number(2.0, 1e-60, 1e60)}, refused=1),
    SIMULATE + "FixedReturn": Entry({"deferral_time": number(0.5, 1e-60, 1e60)}, refused=1),
    SIMULATE + "UniformReturn": Entry({"max_deferral_time": number(0.5, 1e-60, 1e60)}, refused=1),
    SIMULATE + "ReturnRule": Entry({"return_time": Thing(after_one)}),
    SIMULATE + "NonIdling": Entry({}),
    SIMULATE + "Thinned": Entry({"admission_probability": number(0.8, 1e-6, 1.0)}),
    SIMULATE + "ServerIdle": Entry({"idle_time": number(0.5, 0, 1e3)}),
    SIMULATE + "deferrals": Entry(
        {
            "servers": Count(3, 1, 1000),
            "max_deferrals": Count(2, 0, 100),
            "arrival_rate": number(2.5, 1e-9, 1e9),
            "service_rate": number(1.0, 1e-9, 1e9),
            "policy": Thing(simulate.Dsrt(0.5), (simulate.Esrt(2.0), simulate.FixedReturn(0.5))),
            **RUN,
            "warmup": WARMUP,
            "configurations": Flag(),
        },
        draws=10,
        refused=1,
    ),
    SIMULATE + "many_server_queue": Entry(
        {
            "servers": Count(3, 1, 1000),
            "interarrival": Thing(stats.expon(scale=0.4), (stats.gamma(2.0), 0.5), law=True),
            "service": Thing(stats.expon(), (stats.gamma(2.0), [0.5, 2.0]), law=True),
            "patience": Thing(stats.expon(), (None,), optional=True, law=True),
            "policy": Thing(simulate.NonIdling(), (simulate.Thinned(0.5),)),
            **RUN,
            "warmup": WARMUP,
            "abandonment_cost": number(1.0, 0, 1e6),
            "utilization_cost": Thing(square, optional=True),
            "holding_cost": number(0.1, 0, 1e6),
        },
        draws=8,
        refused=1,
    ),
    SIMULATE + "sweep": Entry(
        {
            "function": Thing(simulate.deferrals),
            "arguments": Thing([SWEPT]),
            "seed": SEED,
            "workers": Count(1, 1, 1),
            "progress": Flag(),
        },
        draws=1,
    ),
    SIMULATE + "replications": Entry(
        {
            "function": Thing(simulate.deferrals),
            "arguments": Thing(SWEPT),
            "runs": Count(2, 2, 3),
            "seed": SEED,
            "workers": Count(1, 1, 1),
            "progress": Flag(),
        },
        draws=1,
    ),
}
