"""The index of proofs by name: chapter by chapter, each statement with its number and title."""

import re

from sphinx_proof.domain import ProofDomain, ProofIndex


class TitledProofIndex(ProofIndex):
    """Statements in the order of the contents, instead of labels in that of the alphabet."""

    def generate(self, docnames=None):
        """Return the entries of each chapter."""
        env = self.domain.env
        content = {}
        for label, proof in getattr(env, "proof_list", {}).items():
            content.setdefault(proof["docname"], []).append(entry(env, label, proof))
        pages = [page for page in env.config.external_site_map if page in content]
        return [(heading(env.titles[page].astext()), content[page]) for page in pages], False


def heading(title):
    """Return a title that serves as an anchor too: the page's script takes no question mark."""
    return re.sub(r"[^\w\s,-]", "", title)


def entry(env, label, proof):
    """Return what the index shows of one statement."""
    page, kind = proof["docname"], proof["realtype"].capitalize()
    numbers = env.toc_fignumbers.get(page, {}).get(proof["countertype"], {}).get(label, ())
    title = re.sub(r"[$\\{}]", "", proof.get("title", ""))
    name = f"{kind} {'.'.join(map(str, numbers))} {title}"
    return " ".join(name.split()), 0, page, label, "", "", ""


def keep_titles(app, doctree):
    """Keep the titles of a page's statements beside what the domain knows of them."""
    for node in doctree.findall(lambda node: hasattr(node, "get") and node.get("realtype")):
        known = getattr(app.env, "proof_list", {}).get(node["label"])
        if known is not None:
            known["title"] = node.get("title", "").strip().removeprefix("(").removesuffix(")")


def setup(app):
    """Let the domain of proofs use this index."""
    TitledProofIndex.localname = "Index of proofs"
    ProofDomain.indices = {TitledProofIndex}
    app.connect("doctree-read", keep_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
