/* A page by its own title comes before sections, and a chapter before the pages about the package. */
const Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    score + (anchor || description ? 0 : 10) + (docname.startsWith("derivations/") ? 6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
