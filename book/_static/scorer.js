/* What is named as one searches comes first: a word of the query in a page's own title or address counts
   more than many in its text. Of two alike a chapter comes before the pages about the package.
   A variable and no constant, since the search script declares it again. */
var Scorer = {
  score: ([docname, title, anchor, description, score]) => {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    const words = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 1);
    const named = `${title} ${docname.replace(/.*\//, "")}`.toLowerCase().split(/[^\p{L}\p{N}]+|_/u);
    const found = words.filter((word) => named.includes(word)).length;
    const whole = anchor || description ? 0 : 10;
    const chapter = docname.startsWith("derivations/") ? 6 : 0;
    return score + whole + chapter + (words.length && !description ? (20 * found) / words.length : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
