"""Claim records: their schema, how notebooks are read for them, and how the book shows them.

A record holds what must not change from one machine to the next (the sentence, its sources, the
kinds of evidence and their tolerances). Measured errors travel beside it in the output's metadata.
Nothing here imports SymPy: the book is built from stored records alone.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

MIME_TYPE = "application/vnd.qcore.claim+json"
KINDS = ("proved", "agrees", "simulated", "rate", "formal", "argued")
IDENTIFIER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SOURCE_LABEL = re.compile(r"[ABC]\.[1-9][0-9]*")


class RecordError(ValueError):
    """A claim record that does not follow the schema, or clashes with another."""


@dataclass(frozen=True)
class Evidence:
    """One reason to believe a claim: its kind and a summary that is the same on every machine."""

    kind: str
    summary: str


@dataclass(frozen=True)
class ClaimRecord:
    """What a claim says, which source labels it covers, and how it was checked."""

    identifier: str
    sentence: str
    sources: tuple[str, ...]
    evidence: tuple[Evidence, ...]

    def __post_init__(self):
        if not IDENTIFIER.fullmatch(self.identifier):
            raise RecordError(
                f"identifier = {self.identifier!r}: must be lower-case-with-hyphens"
            )
        if not self.sentence.strip().endswith("."):
            raise RecordError(
                f"claim {self.identifier}: the sentence must end with a full stop"
            )
        for label in self.sources:
            if not SOURCE_LABEL.fullmatch(label):
                raise RecordError(
                    f"claim {self.identifier}: {label!r} is not a source label"
                )
        if not self.evidence:
            raise RecordError(f"claim {self.identifier}: no evidence")
        kinds = {evidence.kind for evidence in self.evidence}
        if not kinds <= set(KINDS):
            raise RecordError(
                f"claim {self.identifier}: unknown evidence {kinds - set(KINDS)}"
            )
        if "formal" in kinds and "rate" not in kinds:
            raise RecordError(
                f"claim {self.identifier}: a formal expansion needs a measured rate"
            )

    @property
    def anchor(self):
        """The HTML anchor and Sphinx label of the claim."""
        return f"claim-{self.identifier}"

    @property
    def kinds(self):
        """The kinds of evidence, each once, in the order in which they were given."""
        return tuple(dict.fromkeys(evidence.kind for evidence in self.evidence))

    def summaries(self):
        """Return the evidence as lines of Markdown; the same summary again is counted."""
        counts = {item: self.evidence.count(item) for item in self.evidence}
        return [
            f"*{item.kind}*: {item.summary}" + (f" (× {count})" if count > 1 else "")
            for item, count in counts.items()
        ]

    def line(self):
        """Return the claim on one line of plain text."""
        return f"claim {self.identifier}: {', '.join(self.kinds)}"

    def as_dict(self):
        """Return the record as the JSON object that a notebook stores."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, stored):
        """Return the record that a notebook has stored."""
        try:
            evidence = tuple(Evidence(**item) for item in stored["evidence"])
            return cls(
                stored["identifier"],
                stored["sentence"],
                tuple(stored["sources"]),
                evidence,
            )
        except (KeyError, TypeError) as error:
            raise RecordError(f"not a claim record: {stored!r}") from error


def read_notebook(path):
    """Return the claim records stored in the notebook at ``path``, in order."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        ClaimRecord.from_dict(output["data"][MIME_TYPE])
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if MIME_TYPE in output.get("data", {})
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


class ClaimRenderer:
    """Shows a claim record as an admonition with an anchor (a plugin of myst_nb)."""

    mime_priority_overrides = (("*", MIME_TYPE, 1),)

    @staticmethod
    def handle_mime(renderer, data, inline):
        """Return the docutils nodes for a claim record, or None for any other output."""
        if inline or data.mime_type != MIME_TYPE:
            return None
        from docutils import nodes
        from myst_nb.core.render import MimeData

        record = ClaimRecord.from_dict(data.content)

        def markdown(text):
            return renderer.render_markdown(MimeData("text/markdown", text))

        box = nodes.admonition(classes=["claim"])
        box["names"].append(record.anchor)
        renderer.renderer.document.note_explicit_target(box, box)
        sources = f" · {', '.join(record.sources)}" if record.sources else ""
        box += nodes.title("", f"Claim{sources}")
        box += markdown(record.sentence)
        box += markdown("\n".join(f"- {summary}" for summary in record.summaries()))
        return [box]
