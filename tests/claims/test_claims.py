"""Each kind of evidence accepts a true claim and rejects a wrong one."""

import subprocess
import sys
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import sympy
from sympy import Function, Integral, Limit, Matrix, cos, exp, log, oo, sin, symbols

import derivations.claims as claims
from derivations.claims import ClaimFailed
from derivations.claims.records import RecordError

x, y = symbols("x y", positive=True)
SINGLE_SERVER = {"a": claims.logarithmic(1e-2, 1e2), "b": claims.logarithmic(1e-2, 1e2)}
LENGTHS = SINGLE_SERVER | {"c": claims.logarithmic(1e-2, 1e2)}


def check(*evidence, identifier="a-claim", sentence="It holds.", sources=("A.1",), **stated):
    return claims.check(identifier, sentence, sources, *evidence, **stated)


def closed_form(arrival_rate, service_rate, spacing, factor=1):
    both = arrival_rate + service_rate
    gain = service_rate**2 * (1 - mpmath.exp(-both * spacing))
    return factor * arrival_rate / both * (1 - gain / (both * (both + arrival_rate**2 * spacing)))


def blocking_probability(*arguments):
    from qcore.deferral import single_server

    return single_server.blocking_probability(*arguments)


def agrees(derived, **options):
    from qcore.deferral import single_server

    return claims.agrees(derived, single_server.blocking_probability, LENGTHS, **options)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sin(x) ** 2 + cos(x) ** 2, 1),
        ((x + y) ** 2, x**2 + 2 * x * y + y**2),
        (Limit((1 + 1 / x) ** x, x, oo), sympy.E),
        (Integral(1 / x, (x, 1, y)), log(y)),
        (Matrix([[x + x * y]]), Matrix([[x * (1 + y)]])),
        ([x * (x + 1), 2], [x**2 + x, 2]),
    ],
)
def test_proved_accepts_identities(left, right):
    record, _ = check(claims.proved(left, right))
    assert record.kinds == ("proved",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((x + y) ** 2, x**2 + y**2),
        (sin(x) ** 2 + cos(x) ** 2, 1 + 10 ** sympy.Rational(-30)),
        (Limit(x * exp(-x), x, oo), sympy.Rational(1, 10**6)),
        (Matrix([[x, y]]), Matrix([[x, -y]])),
        ([x * (x + 1), 2], [x**2 + x, 3]),
        (Function("f")(x), Function("g")(x)),
    ],
)
def test_proved_rejects_what_is_not_equal(left, right):
    with pytest.raises(ClaimFailed, match=r"claim a-claim \(proved\): the difference reduces to"):
        check(claims.proved(left, right))


def test_proved_rejects_sides_that_are_written_alike():
    with pytest.raises(ClaimFailed, match="written alike"):
        check(claims.proved(x * (x + 1), x * (x + 1)))


def test_proved_rejects_sides_of_different_length_or_shape():
    with pytest.raises(ValueError, match="shapes"):
        claims.proved(Matrix([x, y]), Matrix([[x, y]]))
    with pytest.raises(ValueError, match=r"longer|shorter"):
        claims.proved([x], [x, y])


def test_inequality_needs_its_certificate():
    check(claims.proved_inequality((x + y) ** 2, x**2, [2 * x * y, y**2]))
    with pytest.raises(ClaimFailed, match="reduces to"):
        check(claims.proved_inequality((x + y) ** 2, x**2, [x * y, y**2]))
    with pytest.raises(ClaimFailed, match="not visibly >= 0"):
        check(claims.proved_inequality(x**2, 2 * x - 1, [x**2 - 2 * x + 1]))
    real = symbols("t", real=True)
    with pytest.raises(ClaimFailed, match=r"no term .* visibly > 0"):
        check(claims.proved_inequality(real**2 + 1, 1, [real**2]))
    check(claims.proved_inequality(x**2 + 1, 1, [x**2], strict=False))


def test_agrees_accepts_the_formula_and_rejects_a_small_factor():
    record, measured = check(agrees(closed_form, tolerance=1e-13))
    assert record.evidence[0].summary == (
        "the formula, with 50 digits, and `qcore.deferral.single_server.blocking_probability` "
        "differ by no more than a part 1e-13, at 264 points"
    )
    assert 0 < float(measured[0]["largest relative difference"]) < 1e-14
    wrong = agrees(
        lambda *point: closed_form(*point, factor=1 + mpmath.mpf(10) ** -12), tolerance=1e-13
    )
    with pytest.raises(ClaimFailed, match=r"claim a-claim \(agrees\): .* differs"):
        check(wrong)


def test_agrees_rejects_nan():
    evidence = claims.agrees(
        closed_form,
        lambda *point: float("nan"),
        LENGTHS,
        tolerance=1e-3,
        name="qcore.deferral.single_server.blocking_probability",
    )
    with pytest.raises(ClaimFailed, match="differs"):
        check(evidence)


def test_agrees_notices_a_precision_that_does_not_suffice():
    def cancelling(arrival_rate, service_rate, spacing):
        value = closed_form(arrival_rate, service_rate, spacing)
        return (value + mpmath.mpf(10) ** 40) - mpmath.mpf(10) ** 40

    with pytest.raises(ClaimFailed, match="50 digits are not enough"):
        check(agrees(cancelling, tolerance=1e-8))


def test_agrees_wants_points_and_a_function_of_qcore():
    with pytest.raises(ValueError, match="at least 200"):
        agrees(closed_form, tolerance=1e-13, points=199)
    with pytest.raises(ValueError, match="at least 200 are needed"):
        agrees(closed_form, tolerance=1e-13, where=lambda *point: point[0] > 50)
    with pytest.raises(ValueError, match="something in qcore"):
        claims.agrees(closed_form, blocking_probability, LENGTHS, tolerance=1e-13)
    with pytest.raises(ValueError, match="something in qcore"):
        claims.agrees(closed_form, abs, LENGTHS, 1e-13, name="qcore.deferral.single_server.nothing")


def test_compared_wants_every_value_above_its_partner():
    record, measured = check(claims.compared([2.0, 4.0], [1.0, 3.0], "twos and fours", margin=0.2))
    assert record.kinds == ("agrees",)
    assert "each of 2 values exceeds" in record.evidence[0].summary
    assert measured == [{"least relative excess": "0.25"}]
    for larger, smaller, margin in [
        ([2.0, 3.0], [1.0, 3.0], 0.0),
        ([2.0, 4.0], [1.0, 3.0], 0.25),
        ([2.0, float("nan")], [1.0, 3.0], 0.0),
    ]:
        with pytest.raises(ClaimFailed, match="does not exceed"):
            check(claims.compared(larger, smaller, "pairs", margin=margin))
    with pytest.raises(ValueError, match="nothing to compare"):
        claims.compared([], [], "pairs")
    with pytest.raises(ValueError, match="shorter"):
        claims.compared([1.0], [], "pairs")


def test_points_are_the_same_every_time_and_hold_the_corners():
    domain = {"a": claims.integers(1, 3), "b": claims.uniform(0, 1), "c": claims.logarithmic(1, 8)}
    points = claims.sample(domain, 300)
    assert points == claims.sample(domain, 300)
    assert {(1, 0.0, 1.0), (3, 1.0, 8.0), (1, 1.0, 8.0)} <= set(points)
    assert {a for a, _, _ in points} == {1, 2, 3}
    counts = [sum(a == value for a, _, _ in points) for value in (1, 2, 3)]
    assert max(counts) - min(counts) < 10
    assert all(isinstance(a, int) and 0 <= b <= 1 <= c <= 8 for a, b, c in points)


def estimate(value, standard_error):
    return SimpleNamespace(value=value, standard_error=standard_error)


def test_simulated_wants_agreement_and_a_long_enough_run():
    check(claims.simulated(1.0, estimate(1.001, 0.001)))
    check(claims.simulated([1.0, 2.0], [estimate(1.001, 0.001), estimate(2.0, 0.003)]))
    with pytest.raises(ClaimFailed, match=r"5\.0 standard errors apart"):
        check(claims.simulated(1.0, estimate(1.005, 0.001)))
    with pytest.raises(ClaimFailed, match="simulate longer"):
        check(claims.simulated(1.0, estimate(1.0, 0.003)))
    with pytest.raises(ClaimFailed, match="simulate longer"):
        check(claims.simulated(1.0, estimate(1.0, float("nan"))))
    with pytest.raises(ValueError, match=r"at most 0\.01"):
        claims.simulated(1.0, estimate(1.0, 0.001), detects=0.1)
    with pytest.raises(ValueError, match="argument 2"):
        check(claims.simulated([1.0, 2.0], [estimate(1.0, 0.001)]))


def test_slope_accepts_the_power_and_rejects_another():
    sizes = [10**k for k in range(2, 7)]
    check(claims.slope(sizes, [3 * mpmath.mpf(s) ** -1.5 for s in sizes], -1.5))
    with pytest.raises(ClaimFailed, match=r"slope -1\.4000, expected -1\.5"):
        check(claims.slope(sizes, [3 * mpmath.mpf(s) ** -1.4 for s in sizes], -1.5))
    with pytest.raises(ValueError, match="at least three"):
        claims.slope([1, 2], [1, 2], 1)


def test_a_simulated_slope_is_weighted_and_has_an_error():
    sizes = [10, 100, 1000]
    values = [estimate(10.0**-k, 0.002 * 10.0**-k) for k in (1, 2)] + [estimate(2e-3, 1e-3)]
    found, error = claims.fitted_slope(sizes, values)
    # The last value is worthless; the first two alone give -1, and an error of 0.002 √2 / ln 10.
    assert found == pytest.approx(-1, abs=1e-4)
    assert error == pytest.approx(0.002 * 2**0.5 / mpmath.log(10), rel=1e-3)
    record, measured = check(claims.slope(sizes, values, -1))
    assert "a line through 3 simulated sizes" in record.evidence[0].summary
    assert measured == [{"slope": f"{found:.4f} ± {error:.4f}"}]
    with pytest.raises(ClaimFailed, match=r"slope -1\.0000 ± 0\.0012, expected -0\.96"):
        check(claims.slope(sizes, values, -0.96))
    with pytest.raises(ClaimFailed, match=r"at most 0\.00025: simulate longer"):
        check(claims.slope(sizes, values, -1, within=0.001))
    assert claims.fitted_slope(sizes, [1.0, 0.1, 0.01]) == (pytest.approx(-1), 0.0)


def test_the_error_of_a_simulated_slope_is_its_spread():
    generator = np.random.default_rng(3)
    sizes, noise = np.array([10, 40, 90, 400]), np.array([0.01, 0.02, 0.01, 0.05])
    fits = [
        claims.fitted_slope(
            sizes,
            [estimate(e * f, e * n) for e, f, n in zip(5 / sizes, factors, noise, strict=True)],
        )
        for factors in np.exp(noise * generator.standard_normal((4000, 4)))
    ]
    slopes, errors = np.array(fits).T
    assert slopes.mean() == pytest.approx(-1, abs=1e-3)
    assert slopes.std() == pytest.approx(errors.mean(), rel=0.05)


def test_simulated_order_wants_differences_beyond_noise():
    record, measured = check(
        claims.simulated_order([estimate(2, 0.1), 3], [1, estimate(1, 0.3)], "pairs")
    )
    assert record.kinds == ("simulated",)
    assert "pairs: 2 values, each more than 4 standard errors above" in record.evidence[0].summary
    assert measured == [{"least excess in standard errors": "6.7", "beyond doubt": "2 of 2"}]
    for larger, smaller in [
        ([estimate(2, 0.26)], [1]),
        ([estimate(2, 0.2)], [estimate(1, 0.2)]),
        ([estimate(1, 0.1)], [2]),
        ([estimate(float("nan"), 0.1)], [1]),
    ]:
        with pytest.raises(ClaimFailed, match=r"pairs: .* standard errors; at least 4 are"):
            check(claims.simulated_order(larger, smaller, "pairs"))
    with pytest.raises(ClaimFailed, match="nothing here was simulated"):
        check(claims.simulated_order([2], [1], "pairs"))
    with pytest.raises(ValueError, match="nothing to compare"):
        claims.simulated_order([], [], "pairs")
    with pytest.raises(ValueError, match="longer"):
        claims.simulated_order([2], [1, 1], "pairs")


def test_simulated_order_without_strictness_notices_small_violations():
    ordered = claims.simulated_order
    record, measured = check(
        ordered([estimate(0.997, 0.001), estimate(2, 0.001)], [1, 1], "a bound", detects=0.01)
    )
    assert "a violation of 1 % would have been noticed" in record.evidence[0].summary
    assert measured == [{"least excess in standard errors": "-3", "beyond doubt": "1 of 2"}]
    with pytest.raises(ClaimFailed, match=r"by -4\.5 standard errors; at least -4 are"):
        check(ordered([estimate(0.9955, 0.001)], [1], "a bound", detects=0.01))
    with pytest.raises(ClaimFailed, match=r"notices a violation of 0\.012 only"):
        check(ordered([estimate(1.5, 0.003)], [1], "a bound", detects=0.01))
    with pytest.raises(ValueError, match=r"at most 0\.01"):
        ordered([estimate(1, 0.001)], [1], "a bound", detects=0.1)


def test_extrapolation_accepts_the_constant_and_rejects_another():
    sizes = [10, 100, 1000, 10_000]
    values = [2 + 5 / s**0.5 - 1 / s for s in sizes]
    check(claims.extrapolated(sizes, values, [-0.5, -1], 2, within=1e-9))
    with pytest.raises(ClaimFailed, match="extrapolated to 2"):
        check(claims.extrapolated(sizes, values, [-0.5, -1], 2.001, within=1e-4))
    with pytest.raises(ValueError, match="2 exponents need 3"):
        claims.extrapolated([1, 2], [1, 2], [-1, -2], 2, within=0.1)


def test_extrapolation_of_several_series_rejects_one_that_is_wrong():
    sizes = [100, 400, 1600]
    series = [[c + 2 / s for s in sizes] for c in (3, -0.5)]
    record, measured = check(claims.extrapolated(sizes, series, [-1, -2], [3, -0.5], 1e-9))
    assert "the constants are 3, -0.5 to within" in record.evidence[0].summary
    assert measured == [{"constants": ["3", "-0.5"]}]
    with pytest.raises(ClaimFailed, match=r"extrapolated to -0\.5, expected -0\.501"):
        check(claims.extrapolated(sizes, series, [-1, -2], [3, -0.501], 1e-4))
    with pytest.raises(ValueError, match="2 series for 1 constants"):
        claims.extrapolated(sizes, series, [-1, -2], [3], 1e-9)


def test_formal_needs_a_rate():
    rate = claims.slope([1, 10, 100], [1, 0.1, 0.01], -1)
    record, _ = check(claims.formal("an expansion"), rate)
    assert record.kinds == ("formal", "rate")
    with pytest.raises(RecordError, match="needs a measured rate"):
        check(claims.formal("an expansion"))


def test_a_claim_needs_evidence_a_name_a_sentence_and_labels():
    argued = claims.argued("above")
    check(argued)
    with pytest.raises(RecordError, match="no evidence"):
        check()
    with pytest.raises(RecordError, match="lower-case-with-hyphens"):
        check(argued, identifier="A claim")
    with pytest.raises(RecordError, match="full stop"):
        check(argued, sentence="It holds")
    with pytest.raises(RecordError, match="not a source label"):
        check(argued, sources=["A"])


RATE = claims.slope([1, 10, 100], [1, 0.1, 0.01], -1)
PROOF = claims.proved((x + y) ** 2, x**2 + 2 * x * y + y**2)


@pytest.mark.parametrize(
    ("status", "evidence"),
    [
        ("theorem", [PROOF]),
        ("theorem", [claims.argued("above"), RATE]),
        ("formal", [claims.formal("an expansion"), RATE]),
        ("measured", [RATE]),
        ("conjecture", [RATE]),
    ],
)
def test_a_status_as_wide_as_the_evidence(status, evidence):
    assert check(*evidence, status=status)[0].shown_status == status


@pytest.mark.parametrize(
    ("status", "evidence"),
    [
        ("theorem", [RATE]),
        ("theorem", [PROOF, claims.formal("an expansion"), RATE]),
        ("formal", [PROOF, RATE]),
        ("measured", [PROOF]),
    ],
)
def test_a_status_wider_than_the_evidence_is_refused(status, evidence):
    with pytest.raises(RecordError, match="says more than its evidence"):
        check(*evidence, status=status)


def test_the_status_that_is_not_stated_is_the_narrowest():
    assert check(PROOF)[0].shown_status == "theorem"
    assert check(PROOF, RATE)[0].shown_status == "measured"
    assert check(PROOF, claims.formal("an expansion"), RATE)[0].shown_status == "formal"
    with pytest.raises(RecordError, match="must be one of theorem, formal"):
        check(PROOF, status="certain")


def test_a_sentence_wider_than_its_proof_is_refused():
    check(PROOF, domain={x: claims.uniform(0, oo)}, status="theorem")
    d = {"d": claims.integers(1, oo)}
    with pytest.raises(RecordError, match=r"speaks of \$d = 1, 2, .* carries a theorem"):
        check(PROOF, domain=d, status="theorem")
    first = claims.proved(x * (x + 1), x**2 + x, domain={"d": 1})
    with pytest.raises(RecordError, match="speaks of"):
        check(first, domain=d, status="theorem")
    check(first, claims.argued("by induction on d"), domain=d, status="theorem")
    with pytest.raises(RecordError, match="speaks of"):
        check(first, claims.argued("likewise", domain={"d": [2]}), domain=d, status="theorem")
    check(first, domain=d, status="conjecture")


def test_a_sentence_wider_than_its_measurement_is_refused():
    loads = {"rho": claims.logarithmic(1, 100)}
    narrow = claims.compared([2.0], [1.0], "twos", domain={"rho": claims.logarithmic(1, 10)})
    with pytest.raises(RecordError, match="no evidence that carries"):
        check(narrow, domain=loads)
    record, _ = check(narrow, domain=loads, checked_only={"rho": claims.logarithmic(2, 10)})
    assert "confined" not in record.line()
    with pytest.raises(RecordError, match="speaks of"):
        check(narrow, domain=loads, checked_only={"rho": claims.logarithmic(2, 11)})
    with pytest.raises(RecordError, match=r"says more than its evidence \(argued, confined\)"):
        check(claims.argued("above"), status="theorem", domain=loads, checked_only={"rho": [2]})


def test_a_claim_that_does_not_apply_is_skipped_with_a_sentence():
    def evidence():
        raise ZeroDivisionError

    record, measured = check(evidence, applies=(False, "needs γ > 0"))
    assert record.line() == "claim a-claim does not apply here: it needs γ > 0"
    assert measured == []
    assert record.as_dict()["skipped"] is True
    held, _ = check(lambda: [PROOF, RATE], applies=(True, "needs γ > 0"))
    assert held.kinds == ("proved", "rate")
    assert "skipped" not in held.as_dict()
    assert held != record


def test_what_is_stated_survives_storage():
    record, _ = check(
        agrees(closed_form, tolerance=1e-13),
        PROOF,
        name="A name",
        status="theorem",
        hypotheses=["Arrivals are Poisson."],
        needs=["another"],
        domain={x: claims.uniform(0, oo)},
        applies=(True, "needs x > 0"),
    )
    assert record.evidence[0].points == 264
    assert record.evidence[0].tolerance == "relative 1e-13"
    assert type(record).from_dict(record.as_dict()) == record
    assert record.missing == []
    assert check(PROOF)[0].missing == ["name", "status", "hypotheses", "needs", "domain"]
    assert check(RATE)[0].missing[-1] == "domain of the evidence"


def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw, metadata: shown.append((data, metadata))
    )
    return shown


def test_a_quoted_number_is_stored_as_text_for_glue(monkeypatch):
    shown = displayed(monkeypatch)
    claims.quoted("saving", 12.6999, "{:.2f}")
    ((data, metadata),) = shown
    assert data == {"application/papermill.record/text/plain": "'12.70'"}
    assert metadata["scrapbook"]["name"] == "saving"
    with pytest.raises(ValueError, match="letters, digits"):
        claims.quoted("a:b", 1)


def test_an_attempt_says_what_to_change_and_to_expect(monkeypatch):
    shown = displayed(monkeypatch)
    claims.try_this("Go below.", {"gamma": -0.5}, not_applying=["a-claim"])
    claims.try_this("Go too far.", {"order": 99}, refused="at most 9")
    claims.try_this("Go on.", {"name": exp(-(x**2))})
    texts = [data["text/plain"] for data, _ in shown]
    assert texts == [
        "- Go below. Set `gamma = -0.5`. *These claims do not apply: a-claim. All others hold.*",
        "- Go too far. Set `order = 99`. *It is refused: “at most 9”.*",
        "- Go on. Set `name = exp(-x**2)`. *All claims hold.*",
    ]


WITHOUT_NUMBERS = """
import sys
for name in ("numpy", "scipy", "numba", "matplotlib", "qcore", "IPython"):
    sys.modules[name] = None
import sympy
import derivations.claims as claims

x = sympy.Symbol("x", positive=True)
agrees = claims.agrees(x, None, {x: claims.uniform(1, 2)}, 1e-9, name="qcore.erlang.erlang_b")
proof = claims.proved((x + 1) ** 2, x**2 + 2 * x + 1)
record, measured = claims.check("a-claim", "It holds.", ["A.1"], proof, agrees)
assert measured[0] == {}, measured
assert "make lab" in measured[1]["status"], measured
try:
    claims.check("a-claim", "It holds.", [], claims.proved((x + 1) ** 2, x**2 + 1))
except claims.ClaimFailed as failure:
    assert "2*x" in str(failure)
else:
    raise AssertionError("a wrong proof passed")
"""


def test_proofs_are_checked_without_numpy_numba_and_qcore():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBERS], check=True)


def test_a_claim_shows_one_line_and_a_record_and_keeps_measurements_apart(monkeypatch):
    shown = displayed(monkeypatch)
    claims.claim("a-claim", "It holds.", ["A.6"], agrees(closed_form, tolerance=1e-13))
    ((data, metadata),) = shown
    assert data["text/plain"] == "claim a-claim: agrees"
    record = data["application/vnd.qcore.claim+json"]
    assert record["sources"] == ["A.6"]
    assert "largest" not in str(record)
    assert "largest relative difference" in str(metadata)
