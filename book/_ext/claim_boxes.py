"""Claim boxes: numbered within their chapter, with status and permalink, and their code folded."""

import re
from html import escape

from docutils import nodes
from sphinx.transforms import SphinxTransform

from derivations.claims.display import STATUS_MEANING, STATUS_WORDS, claim_node, claim_title


class FoldClaimCode(SphinxTransform):
    """Fold the code of a cell that makes a claim: the box says the same in words."""

    default_priority = 500

    def apply(self):
        """Treat the cell as if it had the tag ``hide-input``."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code" or cell.get("hide_mode"):
                continue
            if next(cell.findall(claim_node), None) is not None:
                cell["hide_mode"] = "input"
                cell["prompt_show"] = "Show the code that checks this claim"
                cell["prompt_hide"] = "Hide the code that checks this claim"


def visit_claim(self, node):
    """Open the box."""
    self.body.append(self.starttag(node, "div", CLASS="admonition"))


def depart_claim(self, node):
    """Close the box."""
    self.body.append("</div>\n")


def visit_title(self, node):
    """Open the title with the claim's number."""
    self.body.append(self.starttag(node, "p", ""))
    self.add_fignumber(node.parent)
    self.body.append('<span class="claim-name">')


def depart_title(self, node):
    """Close the title with the status in words and a permanent link."""
    status, anchor = node.parent["status"], node.parent["ids"][0]
    self.body.append(
        f'</span> <span class="claim-status" title="{escape(STATUS_MEANING[status])}">'
        f"{STATUS_WORDS[status]}</span>"
        f'<a class="headerlink" href="#{anchor}" title="Link to this claim" '
        f'aria-label="Link to this claim">#</a></p>\n'
    )


def title_of(node):
    """Return the name under which other pages refer to the claim, which they show as plain text."""
    return re.sub(r"[$\\{}]", "", node["title"])


def setup(app):
    """Register the nodes."""
    app.add_enumerable_node(claim_node, "claim", title_of, html=(visit_claim, depart_claim))
    app.add_node(claim_title, html=(visit_title, depart_title))
    app.add_transform(FoldClaimCode)
    app.connect("config-inited", _number_format, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _number_format(app, config):
    config.numfig_format = {"claim": "Claim %s", **config.numfig_format}
