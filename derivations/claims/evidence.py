"""Making and checking claims.

A claim is a sentence with evidence. `claim` checks every piece of it and raises `ClaimFailed`,
naming the claim, if one does not hold; if all do, it shows one line of text and a record::

    claim(
        "blocking-closed-form",
        "The blocking probability of one server with one deferral is (6).",
        ["A.6"],
        proved(derived, target, says="the derived probability is (6)"),
        agrees(derived, single_server.blocking_probability, {lam: logarithmic(1e-3, 1e3), ...}),
        name="What one deferral saves",
        status="theorem",
        hypotheses=["Arrivals are Poisson, services exponential."],
        needs=["single-server-fractions"],
        domain={lam: uniform(0, oo), ...},
    )

Evidence is made here by `proved`, `proved_inequality`, `formal` and `argued`, and in `numbers` by
`agrees`, `compared`, `simulated`, `simulated_order`, `slope` and `extrapolated`. Making it computes
nothing; checking it does. Proofs need SymPy alone.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from derivations.claims import absent
from derivations.claims.domains import Argument, Every, domain_of
from derivations.claims.records import (
    MEASUREMENTS,
    MIME_TYPE,
    TRY_MIME_TYPE,
    Attempt,
    ClaimRecord,
    Evidence,
)

GLUE_PREFIX = "application/papermill.record/"
NOT_HERE = "not checked here: needs the full installation (`make lab`)"


class ClaimFailed(AssertionError):
    """A piece of evidence does not hold."""


@dataclass(frozen=True)
class Check:
    """A piece of evidence that is yet to be checked.

    ``run`` returns the measured quantities as a dictionary of text, rounded, which every
    writer of notebooks stores alike, or raises `ClaimFailed`.
    """

    evidence: Evidence
    run: Callable[[], dict[str, Any]]


def check(
    identifier,
    sentence,
    sources,
    *checks,
    name=None,
    status=None,
    hypotheses=None,
    needs=None,
    domain=None,
    checked_only=None,
    applies=(True, None),
):
    """Check a claim without showing it.

    Parameters
    ----------
    identifier : str
        Unique in the book, lower-case-with-hyphens.
    sentence : str
        What is claimed, in Markdown.
    sources : sequence of str
        The labels of ``book/sources.yml`` that it covers.
    *checks : Check or callable
        The evidence; a function without arguments that returns a `Check`, or a list of them, is
        called only if the claim applies.
    name : str, optional
        A short title.
    status : {"theorem", "formal", "measured", "conjecture"}, optional
        A theorem needs a proof, by SymPy or in prose, a formal result an expansion with a measured
        rate, a measured one numbers; a status that says more than the evidence is refused.
    hypotheses : sequence of str, optional
        A sentence each.
    needs : sequence of str, optional
        The identifiers of the claims that this one rests on.
    domain : mapping, optional
        What the sentence speaks of: names or symbols to ranges, lists of values, or a class in
        words. Each must be reached by a piece of evidence that carries the status.
    checked_only : mapping, optional
        The part of the domain to which the evidence is confined, where the sentence says so.
    applies : (bool, str), optional
        Whether the claim applies with the parameters at hand, and what it needs for that, such as
        ``(gamma > 0, "needs γ > 0")``. A claim that does not apply is skipped, and says so.

    Returns
    -------
    record : ClaimRecord
        What the notebook stores.
    measured : list of dict
        For each piece of evidence, what was measured; it may differ between machines.
    """
    condition, needed = applies
    made = _made(checks) if condition else []
    record = ClaimRecord(
        identifier,
        sentence,
        tuple(sources),
        tuple(item.evidence for item in made),
        name=name,
        status=status,
        hypotheses=None if hypotheses is None else tuple(hypotheses),
        needs=None if needs is None else tuple(needs),
        domain=None if domain is None else domain_of(domain),
        checked_only=None if checked_only is None else domain_of(checked_only),
        applies=needed,
        skipped=not condition,
    )
    measured = []
    for item in made:
        if item.evidence.kind in MEASUREMENTS and not can_measure():
            measured.append({"status": NOT_HERE})
            continue
        try:
            measured.append(item.run())
        except ClaimFailed as failure:
            raise ClaimFailed(
                f"claim {identifier} ({item.evidence.kind}): {failure}"
            ) from None
    return record, measured


def _made(checks):
    made = []
    for item in checks:
        result = item() if callable(item) else item
        made += result if isinstance(result, list | tuple) else [result]
    return made


def can_measure():
    """Whether numbers can be computed here, which a browser cannot."""
    found = importlib.util.find_spec("numpy")
    return found is not None and found.origin != absent.ORIGIN


def claim(identifier, sentence, sources, *checks, **stated):
    """Check a claim and show it; `check` says what the arguments are."""
    record, measured = check(identifier, sentence, sources, *checks, **stated)
    _show(
        {"text/plain": record.line(), MIME_TYPE: record.as_dict()},
        {MIME_TYPE: {"measured": measured}},
    )


def quoted(name, value, form="{}"):
    """Store a number, formatted, for a sentence that quotes it with ``{glue:text}`name` ``.

    Parameters
    ----------
    name : str
        Unique in the notebook.
    value : number or str
        What was computed.
    form : str
        How it is written, such as ``"{:.1f} %"``.
    """
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"name = {name!r}: must be letters, digits and hyphens")
    _show(
        {f"{GLUE_PREFIX}text/plain": repr(form.format(value))},
        {"scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX}},
    )


def try_this(words, changes, not_applying=(), failing=(), refused=None):
    """Invite the reader to change parameters, and say what to expect; a test does it.

    Parameters
    ----------
    words : str
        What to try and what to watch, in Markdown.
    changes : mapping
        Parameters of the cell tagged ``parameters`` to their new values.
    not_applying, failing : sequences of str
        The claims that are then skipped, and those that fail; all others hold.
    refused : str, optional
        Part of the message with which the run stops.
    """
    attempt = Attempt(
        words,
        {name: repr(value) for name, value in changes.items()},
        tuple(not_applying),
        tuple(failing),
        refused,
    )
    _show({"text/plain": attempt.markdown(), TRY_MIME_TYPE: attempt.as_dict()}, {})


def _show(data, metadata):
    from IPython.display import display

    display(data, raw=True, metadata=metadata)


# Proofs ------------------------------------------------------------------------------------------


def proved(left, right, reduce=None, says=None, domain=None):
    """Evidence that two expressions (or matrices, or lists of them) are equal.

    The difference must reduce to zero by SymPy, after ``doit`` on both sides, through
    ``expand``, ``cancel`` or ``simplify``, or through the function ``reduce`` if one is given.
    Two sides that are written alike prove nothing and are refused. ``says`` is what the equality
    says, in words. The proof reaches as far as the assumptions on its symbols; ``domain`` adds what
    holds for the other letters of the sentence, such as ``{"d": [1]}``.
    """
    pairs = _pairs(left, right)
    one = "the difference of the two sides"
    reduced = one if len(pairs) == 1 else f"each of {len(pairs)} differences"
    summary = f"SymPy reduces {reduced} to zero"

    def run():
        if all(one == other for one, other in pairs):
            raise ClaimFailed(f"the two sides are written alike: {left}")
        for one, other in pairs:
            _require_zero(one, other, reduce)
        return {}

    reach = _reach([side for pair in pairs for side in pair], domain)
    return Check(Evidence("proved", _said(says, summary), reach), run)


def proved_inequality(
    larger, smaller, certificate, reduce=None, strict=True, says=None, domain=None
):
    """Evidence that ``larger`` exceeds ``smaller``, by a certificate.

    The certificate is a list of terms that add up to the difference. SymPy must find each of them
    non-negative from the assumptions on its symbols, and one of them positive if ``strict``.
    ``says`` and ``domain`` are as in `proved`.
    """
    terms = [sympy.sympify(term) for term in certificate]

    def run():
        for term in terms:
            if not term.is_nonnegative:
                raise ClaimFailed(
                    f"the term {term} of the certificate is not visibly >= 0"
                )
        if strict and not any(term.is_positive for term in terms):
            raise ClaimFailed("no term of the certificate is visibly > 0")
        _require_zero(sympy.sympify(larger) - smaller, sympy.Add(*terms), reduce)
        return {}

    sign = "positive" if strict else "non-negative"
    summary = (
        f"the difference of the two sides is a term that is visibly {sign}"
        if len(terms) == 1
        else f"the difference of the two sides is a sum of {len(terms)} terms, none of them "
        f"negative{' and one positive' if strict else ''}"
    )
    reach = _reach([sympy.sympify(larger), sympy.sympify(smaller)], domain)
    return Check(Evidence("proved", _said(says, summary), reach), run)


def _said(says, summary):
    return summary if says is None else f"{says}: {summary}"


def _reach(sides, domain):
    """Return what a proof ranges over: its symbols by their assumptions, and what is stated."""
    stated = () if domain is None else domain_of(domain)
    names = {argument.name for argument in stated}
    symbols = set().union(*(side.free_symbols for side in sides))
    every = [
        Argument(str(symbol), _assumed(symbol))
        for symbol in sorted(symbols, key=str)
        if isinstance(symbol, sympy.Symbol) and str(symbol) not in names
    ]
    return (*stated, *every)


def _assumed(symbol):
    low = 0.0 if symbol.is_nonnegative else float("-inf")
    high = 0.0 if symbol.is_nonpositive else float("inf")
    return Every(low, high, bool(symbol.is_integer))


def _pairs(left, right):
    if isinstance(left, sympy.MatrixBase):
        if left.shape != right.shape:
            raise ValueError(f"the shapes {left.shape} and {right.shape} differ")
        return list(zip(left, right, strict=True))
    if isinstance(left, list | tuple):
        return [
            pair
            for one, other in zip(left, right, strict=True)
            for pair in _pairs(one, other)
        ]
    return [(sympy.sympify(left), sympy.sympify(right))]


def _require_zero(left, right, reduce):
    difference = left.doit() - right.doit()
    reductions = (
        (reduce,)
        if reduce is not None
        else (
            lambda e: e,
            sympy.expand,
            lambda e: sympy.cancel(sympy.together(e)),
            sympy.simplify,
        )
    )
    for reduction in reductions:
        residual = reduction(difference)
        if residual == 0:
            return
    raise ClaimFailed(f"the difference reduces to {residual}, not to 0")


# Prose -------------------------------------------------------------------------------------------


def formal(how, domain=None):
    """Evidence by an unrigorous expansion; a claim that has it must also have a rate."""
    return Check(
        Evidence("formal", how, None if domain is None else domain_of(domain)), dict
    )


def argued(where, domain=None):
    """Evidence by a proof in prose, which no machine has checked.

    It reaches as far as the sentence does, unless ``domain`` says otherwise.
    """
    return Check(
        Evidence("argued", where, None if domain is None else domain_of(domain)), dict
    )
