"""Claim records: their schema, how notebooks are read for them, and how the book shows them.

A record holds what must not change from one machine to the next (the sentence, its sources, the
kinds of evidence and their tolerances). Measured errors travel beside it in the output's metadata.
Nothing here imports SymPy: the book is built from stored records alone.
"""

import graphlib
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from derivations.claims.domains import Argument

MIME_TYPE = "application/vnd.qcore.claim+json"
TRY_MIME_TYPE = "application/vnd.qcore.try+json"
# What a figure shows, stored beside its image: compared, not displayed.
PLOT_MIME_TYPE = "application/vnd.qcore.plot+json"
# A figure with sliders: curves for each choice of them.
SLIDERS_MIME_TYPE = "application/vnd.qcore.sliders+json"
KINDS = ("proved", "agrees", "simulated", "rate", "formal", "argued")
PROOFS = frozenset({"proved", "argued"})
MEASUREMENTS = frozenset({"agrees", "simulated", "rate"})
STATUSES = ("theorem", "formal", "measured", "conjecture")
IDENTIFIER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SOURCE_LABEL = re.compile(r"[ABC]\.[1-9][0-9]*")


class RecordError(ValueError):
    """A claim record that does not follow the schema, or clashes with another."""


@dataclass(frozen=True)
class Evidence:
    """One reason to believe a claim: its kind and a summary that is the same on every machine.

    ``domain`` is what it was checked for (None: not stated), ``points`` at how many points,
    ``tolerance`` how large a deviation would have been allowed, in words.
    """

    kind: str
    summary: str
    domain: tuple[Argument, ...] | None = None
    points: int | None = None
    tolerance: str | None = None

    def covers(self, argument):
        """Whether the evidence reaches as far as the sentence does in one argument.

        An argument in prose and a formal expansion hold for all that the sentence speaks of,
        unless they state a domain of their own.
        """
        for own in self.domain or ():
            if own.name == argument.name:
                return own.values.covers(argument.values)
        return self.kind in ("argued", "formal")

    def as_dict(self):
        """Return what a notebook stores; what is not stated is left out."""
        stored = {"kind": self.kind, "summary": self.summary}
        if self.domain is not None:
            stored["domain"] = [argument.stored() for argument in self.domain]
        for key in ("points", "tolerance"):
            if getattr(self, key) is not None:
                stored[key] = getattr(self, key)
        return stored

    @classmethod
    def from_dict(cls, stored):
        """Return the evidence that a notebook has stored."""
        return cls(**(stored | {"domain": _arguments(stored.get("domain"))}))


@dataclass(frozen=True)
class ClaimRecord:
    """What a claim says, what it rests on, and how it was checked.

    ``None`` means that something is not stated: ``status``, ``hypotheses``, ``needs`` (the
    identifiers of the claims that it rests on), ``domain`` (what its sentence speaks of).
    ``checked_only`` names the part of the domain to which the evidence is confined.
    ``applies`` says in words when the claim can be checked at all; ``skipped`` that it could not,
    with the parameters at hand.
    """

    identifier: str
    sentence: str
    sources: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    name: str | None = None
    status: str | None = None
    hypotheses: tuple[str, ...] | None = None
    needs: tuple[str, ...] | None = None
    domain: tuple[Argument, ...] | None = None
    checked_only: tuple[Argument, ...] | None = None
    applies: str | None = None
    skipped: bool = False

    def __post_init__(self):
        if not IDENTIFIER.fullmatch(self.identifier):
            raise RecordError(
                f"identifier = {self.identifier!r}: must be lower-case-with-hyphens"
            )
        if not self.sentence.strip().endswith("."):
            self._refuse("the sentence must end with a full stop")
        for label in self.sources:
            if not SOURCE_LABEL.fullmatch(label):
                self._refuse(f"{label!r} is not a source label")
        for needed in self.needs or ():
            if not IDENTIFIER.fullmatch(needed) or needed == self.identifier:
                self._refuse(f"it cannot need {needed!r}")
        if not self.skipped:
            self._check_evidence()

    def _check_evidence(self):
        if not self.evidence:
            self._refuse("no evidence")
        kinds = set(self.kinds)
        if not kinds <= set(KINDS):
            self._refuse(f"unknown evidence {kinds - set(KINDS)}")
        if "formal" in kinds and "rate" not in kinds:
            self._refuse("a formal expansion needs a measured rate")
        self._check_status(kinds)
        # A conjecture says more than its evidence: that is what the word means.
        spoken_of = () if self.shown_status == "conjecture" else self.domain or ()
        for argument in self.checked_only or spoken_of:
            if not any(item.covers(argument) for item in self._decisive()):
                self._refuse(
                    f"its sentence speaks of {argument.text()}, and no evidence that carries "
                    f"a {self.shown_status} reaches that far: state the domain of the evidence, "
                    "or with checked_only what it is confined to"
                )

    def _check_status(self, kinds):
        if self.status is not None and self.status not in STATUSES:
            self._refuse(
                f"status = {self.status!r}: must be one of {', '.join(STATUSES)}"
            )
        wanting = {
            "theorem": not kinds & PROOFS or "formal" in kinds or self.checked_only,
            "formal": "formal" not in kinds,
            "measured": not kinds & MEASUREMENTS,
        }
        if wanting.get(self.status):
            self._refuse(
                f"status = {self.status!r} says more than its evidence "
                f"({', '.join(self.kinds)}{', confined' if self.checked_only else ''})"
            )

    def _refuse(self, why):
        raise RecordError(f"claim {self.identifier}: {why}")

    def _decisive(self):
        """Return the evidence that must reach as far as the sentence, by status."""
        if self.shown_status == "theorem":
            return [item for item in self.evidence if item.kind in PROOFS]
        return self.evidence

    @property
    def anchor(self):
        """The HTML anchor and Sphinx label of the claim."""
        return f"claim-{self.identifier}"

    @property
    def kinds(self):
        """The kinds of evidence, each once, in the order in which they were given."""
        return tuple(dict.fromkeys(evidence.kind for evidence in self.evidence))

    @property
    def shown_status(self):
        """The status, or the narrowest that the evidence allows where none is stated."""
        if self.status is not None:
            return self.status
        kinds = set(self.kinds)
        if "formal" in kinds:
            return "formal"
        return "measured" if kinds & MEASUREMENTS else "theorem"

    @property
    def missing(self):
        """The names of what the claim does not state yet."""
        wanted = ("name", "status", "hypotheses", "needs", "domain")
        missing = [field for field in wanted if getattr(self, field) is None]
        if any(
            item.domain is None for item in self.evidence if item.kind in MEASUREMENTS
        ):
            missing.append("domain of the evidence")
        return missing

    def summaries(self):
        """Return the evidence as lines of Markdown; identities without a name are counted."""
        counts = Counter((item.kind, item.summary) for item in self.evidence)
        return [
            f"*{kind}*: {_counted(summary, count)}"
            for (kind, summary), count in counts.items()
        ]

    def line(self):
        """Return the claim on one line of plain text."""
        if self.skipped:
            return f"claim {self.identifier} does not apply here: it {self.applies}"
        return f"claim {self.identifier}: {', '.join(self.kinds)}"

    def as_dict(self):
        """Return the record as the JSON object that a notebook stores."""
        stored = {
            "identifier": self.identifier,
            "sentence": self.sentence,
            "sources": list(self.sources),
            "evidence": [item.as_dict() for item in self.evidence],
        }
        for key in ("name", "status", "applies"):
            if getattr(self, key) is not None:
                stored[key] = getattr(self, key)
        for key in ("hypotheses", "needs"):
            if getattr(self, key) is not None:
                stored[key] = list(getattr(self, key))
        for key in ("domain", "checked_only"):
            if getattr(self, key) is not None:
                stored[key] = [argument.stored() for argument in getattr(self, key)]
        return stored | ({"skipped": True} if self.skipped else {})

    @classmethod
    def from_dict(cls, stored):
        """Return the record that a notebook has stored."""
        try:
            read = {
                "evidence": tuple(
                    Evidence.from_dict(item) for item in stored["evidence"]
                ),
                "sources": tuple(stored["sources"]),
            }
            for key in ("hypotheses", "needs"):
                if key in stored:
                    read[key] = tuple(stored[key])
            for key in ("domain", "checked_only"):
                read[key] = _arguments(stored.get(key))
            return cls(**(stored | read))
        except (KeyError, TypeError) as error:
            raise RecordError(f"not a claim record: {stored!r}") from error


def _arguments(stored):
    return stored if stored is None else tuple(Argument.read(one) for one in stored)


def _counted(summary, count):
    if count == 1:
        return summary
    return f"{summary} (so for each of {count} pairs)"


@dataclass(frozen=True)
class Attempt:
    """Something to try: new values of parameters, and what is then to be expected.

    ``changes`` maps parameters to source text. Of the claims, those in ``not_applying`` are skipped
    and those in ``failing`` fail; all others hold. With ``refused``, the run stops with an error
    whose message contains that text.
    """

    words: str
    changes: dict[str, str]
    not_applying: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    refused: str | None = None

    def as_dict(self):
        """Return what a notebook stores."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, stored):
        """Return the attempt that a notebook has stored."""
        lists = {key: tuple(stored[key]) for key in ("not_applying", "failing")}
        return cls(**(stored | lists))

    def expectation(self):
        """Return what is to be expected, as a sentence."""
        if self.refused is not None:
            return f"It is refused: “{self.refused}”."
        sentences = []
        for verb, names in (
            ("do not apply", self.not_applying),
            ("fail", self.failing),
        ):
            if names:
                sentences.append(f"These claims {verb}: {', '.join(names)}.")
        return " ".join(
            [*sentences, "All others hold." if sentences else "All claims hold."]
        )

    def markdown(self):
        """Return it as an item of a list."""
        changes = ", ".join(
            f"`{name} = {value}`" for name, value in self.changes.items()
        )
        return f"- {self.words} Set {changes}. *{self.expectation()}*"


def read_notebook(path):
    """Return the claim records stored in the notebook at ``path``, in order."""
    return [ClaimRecord.from_dict(stored) for stored in _outputs(path, MIME_TYPE)]


def read_attempts(path):
    """Return what the notebook at ``path`` invites to try, in order."""
    return [Attempt.from_dict(stored) for stored in _outputs(path, TRY_MIME_TYPE)]


def _outputs(path, mime_type):
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        output["data"][mime_type]
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if mime_type in output.get("data", {})
    ]


def notebooks(folder):
    """Return the paths of the notebooks below ``folder``, hidden folders left out."""
    return sorted(
        path
        for path in Path(folder).rglob("*.ipynb")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def read_all(folder):
    """Return ``{notebook path: records}`` for every notebook below ``folder``.

    Raises `RecordError` if an identifier is used twice.
    """
    records, home = {}, {}
    for path in notebooks(folder):
        records[path] = read_notebook(path)
        for record in records[path]:
            if record.identifier in home:
                raise RecordError(
                    f"claim {record.identifier} stands in {home[record.identifier]} "
                    f"and in {path}"
                )
            home[record.identifier] = path
    return records


def coverage(records, labels):
    """Return ``{label: [records that cover it]}``, in the order of ``labels``.

    Raises `RecordError` if a claim names a label that is not among them.
    """
    covered = {label: [] for label in labels}
    for notebook_records in records.values():
        for record in notebook_records:
            for label in record.sources:
                if label not in covered:
                    raise RecordError(
                        f"claim {record.identifier}: unknown source label {label!r}"
                    )
                covered[label].append(record)
    return covered


def dependencies(records):
    """Return ``{identifier: identifiers of the claims that it needs}``, what is needed first.

    Raises `RecordError` if a claim needs one that does not exist, or itself through others.
    """
    needs = {
        record.identifier: record.needs or ()
        for notebook_records in records.values()
        for record in notebook_records
    }
    for identifier, needed in needs.items():
        for name in needed:
            if name not in needs:
                raise RecordError(
                    f"claim {identifier}: it needs {name!r}, which is no claim"
                )
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        circle = " needs ".join(reversed(error.args[1]))
        raise RecordError(f"claims in a circle: {circle}") from error
    return {identifier: needs[identifier] for identifier in order}


class ClaimRenderer:
    """Shows claims as boxes with an anchor, what to try, and sliders (a plugin of myst_nb)."""

    mime_priority_overrides = tuple(
        ("*", kind, 1) for kind in (MIME_TYPE, TRY_MIME_TYPE, SLIDERS_MIME_TYPE)
    )

    @staticmethod
    def handle_mime(renderer, data, inline):
        """Return the docutils nodes for what is ours, or None for any other output."""
        if data.mime_type == PLOT_MIME_TYPE:
            return []
        if inline or data.mime_type not in (
            MIME_TYPE,
            TRY_MIME_TYPE,
            SLIDERS_MIME_TYPE,
        ):
            return None
        from derivations.claims import display

        if data.mime_type == SLIDERS_MIME_TYPE:
            return display.sliders(data.content)

        if data.mime_type == TRY_MIME_TYPE:
            return display.attempt(renderer, Attempt.from_dict(data.content))
        measured = data.output_metadata.get(MIME_TYPE, {}).get("measured", ())
        return display.claim_box(
            renderer, ClaimRecord.from_dict(data.content), measured
        )
