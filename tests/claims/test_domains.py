"""Domains: storage, comparison of what a sentence says with what was checked, and sampling."""

import math

import numpy as np
import pytest
from scipy.stats import qmc
from sympy import Symbol, oo

from derivations.claims.domains import (
    Argument,
    Every,
    Values,
    Words,
    domain_of,
    integers,
    logarithmic,
    sample,
    uniform,
)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (integers(1, 1000), r"$K = 1, \ldots, 1000$"),
        (integers(1, oo), r"$K = 1, 2, \ldots$"),
        (uniform(-3, 3), r"$-3 \le K \le 3$"),
        (logarithmic(1e-8, 1e8), r"$10^{-8} \le K \le 10^{8}$"),
        (uniform(0, oo), r"$K > 0$"),
        (uniform(-math.inf, 0), r"$K < 0$"),
        (uniform(-math.inf, math.inf), r"$K$ real"),
        (Values((1, 2.5)), r"$K = 1,\ 2.5$"),
        (Values(("gamma", "Pareto: heavy")), r"$K$: gamma, Pareto: heavy"),
        (Words("every law: of finite mean"), r"$K$: every law: of finite mean"),
        (Every(0.0), r"every real $K > 0$"),
        (Every(integer=True), r"every integer $K$"),
    ],
)
def test_arguments_are_shown_and_survive_storage(values, text):
    argument = Argument("K", values)
    assert argument.text() == text
    assert Argument.read(argument.stored()) == argument


def test_names_are_letters_or_words():
    assert [Argument(name, Words("any")).tex for name in ("lambda", "B_{s-1}", "mu_2")] == [
        r"\lambda",
        "B_{s-1}",
        r"\mu_{2}",
    ]
    assert Argument("law", Words("any")).text() == "law: any"
    assert Argument("order", integers(0, 3)).text() == r"$\text{order} = 0, \ldots, 3$"


def test_values_of_any_library_become_plain_numbers():
    (lam, orders, sizes, one, laws) = domain_of(
        {
            Symbol("lambda"): logarithmic(1, 2),
            "order": range(3),
            "s": np.array([1.0, 2.5]),
            "d": 1,
            "laws": ["gamma"],
        }
    )
    assert (lam.name, lam.values) == ("lambda", logarithmic(1, 2))
    assert [one.values.items for one in (orders, sizes, one, laws)] == [
        (0, 1, 2),
        (1, 2.5),
        (1,),
        ("gamma",),
    ]


WIDE, EVERY_LAW = uniform(0, oo), Words("every law")


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (integers(1, 10), integers(2, 9)),
        (Values(range(1, 11)), integers(2, 9)),
        (logarithmic(1, 10), Values((1, 5, 10))),
        (uniform(1, 10), integers(2, 9)),
        (Values((1, 2, 3, 4, 10)), uniform(1, 10)),
        (Every(0.0), WIDE),
        (Every(integer=True), integers(0, oo)),
        (EVERY_LAW, EVERY_LAW),
        (Values(("gamma", "Pareto")), Values(("gamma",))),
    ],
)
def test_evidence_that_reaches_as_far_as_the_sentence(evidence, sentence):
    assert evidence.covers(sentence)


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (integers(1, 3), integers(1, 10)),
        (integers(1, 10), uniform(1, 10)),
        (Values((1, 2, 3, 10)), integers(1, 10)),
        (Values((1, 10)), uniform(1, 10)),
        (Values((2, 3, 4, 5, 10)), uniform(1, 10)),
        (Values(range(1000)), integers(0, oo)),
        (logarithmic(1, 10), WIDE),
        (logarithmic(1, 10), Values((5, 11))),
        (integers(1, 10), Values((1, 2.5))),
        (Every(0.0), uniform(-1, 1)),
        (Every(integer=True), uniform(0, 1)),
        (Every(), EVERY_LAW),
        (Values(("gamma",)), EVERY_LAW),
        (Words("some laws"), EVERY_LAW),
        (WIDE, EVERY_LAW),
        (EVERY_LAW, WIDE),
    ],
)
def test_evidence_that_is_narrower_than_the_sentence(evidence, sentence):
    assert not evidence.covers(sentence)


def test_points_are_those_of_halton():
    box = {name: uniform(0, 1) for name in "abcd"}
    expected = qmc.Halton(4, scramble=False).random(301)[1:]
    assert np.allclose(sample(box, 300)[:300], expected, rtol=0, atol=1e-15)
