/* What is cut off: formulas, tables, figures and code that are wider than their place, without a cue.
   On paper nothing scrolls, so anything wider is cut. Returns the offenders and, for the screen, the
   formulas that fit only by scrolling. */
(onPaper) => {
  const article = document.querySelector("article.bd-article, article");
  if (!article) return { cut: [], scrolling: [] };
  const limit = article.getBoundingClientRect().right + 1;
  const what = "mjx-container[display], table, svg.drawing, svg.map, img, pre";
  const cut = [], scrolling = [];
  for (const element of article.querySelectorAll(what)) {
    if (element.closest("details:not([open])") || !element.getClientRects().length) continue;
    const box = element.getBoundingClientRect();
    const inner = element.querySelector(":scope > mjx-math");
    const right = Math.max(box.right, inner ? inner.getBoundingClientRect().right : 0);
    const words = () => `${element.tagName.toLowerCase()} ${Math.round(right - limit)} px too wide: ` +
      (element.closest(".math")?.textContent || element.textContent).trim().slice(0, 50);
    const place = element.closest(".scrolls");
    if (!onPaper && place) {
      if (element.tagName === "MJX-CONTAINER") scrolling.push(words());
      continue;
    }
    const frame = element.parentElement.getBoundingClientRect().right + 1;
    const hidden = ["auto", "scroll", "hidden"].includes(
      getComputedStyle(element.parentElement).overflowX);
    if (right > limit || (hidden && right > frame)) cut.push(words());
  }
  return { cut, scrolling };
}
