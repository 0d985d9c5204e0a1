/* The switch for code, focus for what scrolls, and the ledger's filters. Without it all is shown. */
(() => {
  const root = document.documentElement;

  function codeSwitch() {
    const bar = document.querySelector(".article-header-buttons");
    if (!bar || !document.querySelector(".cell_input")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "code-switch";
    const show = () => {
      const hidden = root.dataset.code === "hidden";
      button.textContent = hidden ? "Mathematics only" : "With code";
      button.setAttribute("aria-pressed", String(hidden));
      button.title = hidden ? "Code is hidden: click to show it" : "Code is shown: click to hide it";
    };
    button.addEventListener("click", () => {
      root.dataset.code = root.dataset.code === "hidden" ? "shown" : "hidden";
      localStorage.setItem("code", root.dataset.code);
      show();
    });
    show();
    bar.prepend(button);
  }

  const fits = (place) => place.clientWidth / place.scrollWidth;

  /* Statements that stand in one line, far apart, get lines of their own where the line is too narrow. */
  function breakFormulas() {
    const apart = /\\qquad(?![a-zA-Z])/;
    const typeset = window.MathJax?.startup?.document;
    if (!typeset) return;
    // All are measured before one is changed, here and below: each change lets the page be laid out anew.
    const tooWide = [...typeset.math].filter((formula) => {
      const parts = formula.math.split(apart);
      return formula.display && parts.length > 1 && formula.typesetRoot?.getClientRects().length &&
        !parts.some((part) => /\\begin|\\end|\\left|\\right|\\\\/.test(unpaired(part))) &&
        fits(formula.typesetRoot) < 0.9;
    });
    for (const formula of tooWide) {
      formula.math = `\\begin{gathered}${formula.math.split(apart).join("\\\\")}\\end{gathered}`;
      formula.rerender(typeset, 20);
    }
  }

  /* A part of a formula without what is begun and ended, opened and closed within it. */
  function unpaired(part) {
    const pairs = /\\begin\{(\w+)\}(?:(?!\\begin).)*?\\end\{\1\}|\\left(?![a-z])(?:(?!\\left(?![a-z])).)*?\\right(?![a-z])/gs;
    for (let shorter = part.replace(pairs, ""); ; shorter = part.replace(pairs, "")) {
      if (shorter === part) return part;
      part = shorter;
    }
  }

  /* A formula a little too wide is set a little smaller; on paper, any formula is made to fit. */
  function fitFormulas(smallest) {
    let places = [...document.querySelectorAll("mjx-container[display]")];
    for (const place of places) {
      place.dataset.size ??= place.style.fontSize;
      place.style.fontSize = place.dataset.size;
    }
    places = places.filter((place) => fits(place) >= smallest);
    // A formula's number and margins do not shrink alike, so a step may not be enough.
    for (let step = 0; step < 4; step += 1) {
      const sizes = places.map((place) =>
        fits(place) < 0.999 ? 0.98 * fits(place) * parseFloat(getComputedStyle(place).fontSize) : 0);
      places = places.filter((place, at) => sizes[at]);
      sizes.filter(Boolean).forEach((size, at) => {
        places[at].style.fontSize = `${Math.floor(10 * size) / 10}px`;
      });
    }
  }

  /* What is wider than its place gets a shade at its edges and can be scrolled by keyboard. */
  function markScrolling() {
    const places = ".wide-table, .cell_output > .output, div.math, .figure-scroll, .result-map, .take-home pre, " +
      ".pst-scrollable-table-container, div.highlight pre, .output.text_plain pre, mjx-container[display]";
    breakFormulas();
    fitFormulas(matchMedia("print").matches ? 0 : 0.8);
    const measured = [...document.querySelectorAll(places)].map((place) => [place,
      place.scrollWidth > place.clientWidth + 1 && getComputedStyle(place).overflowX !== "visible"]);
    for (const [place, wide] of measured) {
      place.classList.toggle("scrolls", wide);
      if (wide) {
        place.tabIndex = 0;
        if (!place.hasAttribute("role")) {
          place.setAttribute("role", "group");
          place.setAttribute("aria-label", "Scrolls sideways");
        }
      }
    }
  }

  function ledger() {
    const table = document.querySelector("table.ledger.filtered");
    if (!table) return;
    const rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    const text = (row, column) => row.cells[column].textContent.trim();
    const controls = document.createElement("div");
    controls.className = "ledger-controls";
    controls.setAttribute("role", "search");
    controls.setAttribute("aria-label", "Filter the ledger");
    const filters = [];
    const apply = () => {
      let shown = 0;
      for (const row of rows) {
        row.hidden = !filters.every((passes) => passes(row));
        shown += !row.hidden;
      }
      count.textContent = `${shown} of ${rows.length} claims`;
    };
    const labelled = (name, control) => {
      const label = document.createElement("label");
      label.append(name, control);
      controls.append(label);
    };
    heads.forEach((head, column) => {
      const name = head.textContent.trim();
      if (column < 2) return;
      const values = new Map();
      for (const row of rows)
        for (const value of text(row, column).split(/,\s*/))
          values.set(value, (values.get(value) || 0) + 1);
      const select = document.createElement("select");
      select.append(new Option("all", ""));
      const order = [...values.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      for (const value of column === 2 ? values.keys() : order)
        select.append(new Option(`${value} (${values.get(value)})`, value));
      select.addEventListener("change", apply);
      filters.push((row) => !select.value || text(row, column).split(/,\s*/).includes(select.value));
      labelled(name, select);
    });
    const words = document.createElement("input");
    words.type = "search";
    words.addEventListener("input", apply);
    filters.push((row) => row.textContent.toLowerCase().includes(words.value.toLowerCase()));
    labelled("Words", words);
    const count = document.createElement("output");
    controls.append(count);
    table.closest(".wide-table").before(controls);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent.trim();
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        rows.sort((a, b) =>
          sign * text(a, column).localeCompare(text(b, column), "en", { numeric: true }));
        table.tBodies[0].append(...rows);
      });
    });
    apply();
  }

  /* Results of a search show words: no TeX of formulas, no code, no buttons of the page. */
  function tidySearch() {
    if (typeof Search === "undefined" || !Search.htmlToText) return;
    const toText = Search.htmlToText;
    Search.htmlToText = (html, ...rest) => {
      const page = new DOMParser().parseFromString(html, "text/html");
      for (const formula of page.querySelectorAll(".math")) formula.replaceWith(" … ");
      for (const other of page.querySelectorAll(".bd-header-article, #jb-print-docs-body, .cell_input")) other.remove();
      return toText(page.documentElement.outerHTML, ...rest);
    };
  }

  document.addEventListener("DOMContentLoaded", () => {
    codeSwitch();
    ledger();
    const ready = window.MathJax?.startup?.promise ?? Promise.resolve();
    ready.then(markScrolling);
    addEventListener("resize", markScrolling);
    addEventListener("beforeprint", () => fitFormulas(0));
    addEventListener("afterprint", markScrolling);
    tidySearch();
    document.addEventListener("toggle", markScrolling, true);
  });
})();
