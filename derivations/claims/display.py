"""How the book shows a claim: a box with number, name, status, domain, evidence, what it rests on.

`claim_box` makes the box's nodes while a notebook is read; ``book/_ext/claim_boxes.py`` numbers and
writes them. Words for status and evidence stand here, so that the boxes, the ledger and the map of
results say the same. Nothing here imports SymPy.
"""

import json

from docutils import nodes

STATUS_WORDS = {
    "theorem": "Theorem",
    "formal": "Formal expansion",
    "measured": "Measured",
    "conjecture": "Conjecture",
}
STATUS_MEANING = {
    "theorem": "proved from the hypotheses that it lists",
    "formal": "an expansion without error bound, compared with numbers",
    "measured": "read off numbers, not proved",
    "conjecture": "believed on numerical evidence, open",
}
EVIDENCE_WORDS = {
    "proved": "Proved",
    "agrees": "Agrees with",
    "simulated": "Simulated",
    "rate": "Measured rate",
    "formal": "Formal",
    "argued": "Argued in prose",
}


class claim_node(nodes.General, nodes.Element):
    """A claim's box; its attributes are those of the record."""


class claim_title(nodes.Part, nodes.TextElement):
    """The title of a box: number, name, status, permalink."""


def status(record):
    """Return the status of a claim: its own, or the one that its evidence allows."""
    return record.shown_status


def name(record):
    """Return the claim's name, or its identifier in words if it has none."""
    return record.name or record.identifier.replace("-", " ").capitalize()


def needs(record):
    """Return the identifiers of the claims on which this one rests."""
    return record.needs or ()


def evidence_sentences(record, measured=()):
    """Return the evidence as sentences of Markdown, each with what was measured.

    Pieces that read alike are shown once and counted.
    """
    groups = {}
    for piece, found in zip(
        record.evidence, _padded(measured, record.evidence), strict=True
    ):
        domain = domain_words(piece.domain or ())
        groups.setdefault((piece.kind, piece.summary, domain), []).append(found)
    return [
        f"**{EVIDENCE_WORDS[kind]}**: {_counted(summary, len(found))}"
        f"{f', for {domain}' if domain else ''}{_measured(found)}."
        for (kind, summary, domain), found in groups.items()
    ]


def claim_box(renderer, record, measured=()):
    """Return the nodes of a claim's box.

    Parameters
    ----------
    renderer : myst_nb.core.render.NbElementRenderer
        What turns Markdown into nodes.
    record : ClaimRecord
    measured : sequence of mapping
        For each piece of evidence what was measured, as the notebook stores it.
    """
    from myst_nb.core.render import MimeData

    def markdown(text):
        return renderer.render_markdown(MimeData("text/markdown", text))

    box = claim_node(
        identifier=record.identifier,
        status=status(record),
        title=name(record),
        needs=needs(record),
        classes=["claim", f"status-{status(record)}"],
    )
    box["names"].append(record.anchor)
    renderer.renderer.document.note_explicit_target(box, box)
    title = claim_title(classes=["admonition-title"])
    for node in markdown(name(record)):
        title += node.children
    box += title
    box += nodes.container("", *markdown(record.sentence), classes=["claim-sentence"])
    facts = nodes.definition_list(classes=["claim-facts"])
    for term, text in _facts(record):
        facts += _fact(term, markdown(text))
    if needs(record):
        facts += _fact(
            "Rests on",
            markdown("; ".join(f"{{ref}}`claim-{n}`" for n in needs(record))),
        )
    if record.sources:
        links = ", ".join(
            f"{{ref}}`{label} <{source_anchor(label)}>`" for label in record.sources
        )
        facts += _fact("Source", markdown(links))
    sentences = evidence_sentences(record, measured)
    facts += _fact(
        "Evidence", markdown("\n".join(f"- {sentence}" for sentence in sentences))
    )
    box += facts
    return [_index_entry(name(record), record.anchor), box]


def _index_entry(words, anchor):
    """Return what lets the general index lead to ``anchor``."""
    from sphinx import addnodes

    term = " ".join(words.replace("$", "").replace("\\", "").split())
    return addnodes.index(
        entries=[("single", term.replace(";", ","), anchor, "", None)]
    )


def attempt(renderer, tried):
    """Return the nodes of something to try."""
    from myst_nb.core.render import MimeData

    return renderer.render_markdown(MimeData("text/markdown", tried.markdown()))


def sliders(data):
    """Return the nodes of a figure with sliders, which a script of the page fills."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    html = f'<div class="sliders" hidden><script type="application/json">{text}</script></div>'
    return [nodes.raw("", html, format="html")]


def source_anchor(label):
    """Return the anchor of a label of the sources."""
    return f"source-{label.lower().replace('.', '-')}"


def _facts(record):
    if record.hypotheses:
        yield "Holds if", "; ".join(item.rstrip(".") for item in record.hypotheses)
    for term, domain in (
        ("Domain", record.domain),
        ("Checked only for", record.checked_only),
    ):
        if domain:
            yield term, domain_words(domain)


def domain_words(domain):
    """Return a domain, a sequence of arguments with their ranges, as Markdown."""
    return "; ".join(argument.text() for argument in domain)


def _fact(term, body):
    return nodes.definition_list_item(
        "", nodes.term("", term), nodes.definition("", *body)
    )


def _padded(measured, evidence):
    return [*measured, *({} for _ in evidence)][: len(evidence)]


def _counted(summary, count):
    summary = summary.rstrip(".")
    return summary if count == 1 else f"{summary} (so for each of {count} pairs)"


def _measured(found):
    """Return what was measured, in brackets, or nothing."""
    items = []
    for results in found:
        for key, value in results.items():
            text = (
                ", ".join(map(str, value))
                if isinstance(value, list | tuple)
                else str(value)
            )
            items.append(f"{key} {text}")
    return f" (measured: {'; '.join(items)})" if items else ""
