/* Runs the cells of a chapter in the page: Run buttons, a state, and the results.

   Nothing is loaded before the first click. Python runs in a Worker, which is ended and started anew
   to interrupt it. */
(() => {
  const script = document.currentScript;
  const chapter = new URL(script.dataset.chapter, script.src);
  const whole = Number(script.dataset.bytes);
  const NEEDS = "Needs the full installation: make lab";
  const CLAIM = "application/vnd.qcore.claim+json";
  const KINDS = { proved: "Proved", agrees: "Agrees with", simulated: "Simulated",
    rate: "Measured rate", formal: "Formal", argued: "Argued in prose" };
  const cells = new Map();
  const troubled = new Set();
  let worker = null, waiting = null, verdicts = new Map(), chapterCells = null, bar = null;

  const make = (tag, words = "", properties = {}) =>
    Object.assign(document.createElement(tag), { textContent: words }, properties);
  const button = (words, action) => {
    const made = make("button", words, { type: "button" });
    made.addEventListener("click", action);
    return made;
  };

  /* The cells ------------------------------------------------------------------------------------- */

  function prepare(place) {
    const code = place.querySelector(".cell_input pre");
    if (!code) return;
    const id = place.id.slice("cell-".length);
    const row = make("div", "", { className: "live-row" });
    // Beneath the code, also where that is folded.
    (code.closest("details.hide") ?? code.closest(".cell_input")).after(row);
    if (place.classList.contains("live-full")) {
      row.append(make("span", NEEDS, { className: "live-note" }));
      return;
    }
    const cell = { id, place, code, row, written: code.innerHTML, source: code.textContent };
    cell.note = make("span", "", { className: "live-note" });
    cell.button = button("Run", () => run([id]));
    cell.button.title = "Run this cell and those before it that it needs (Shift-Enter)";
    row.append(cell.button, cell.note);
    code.contentEditable = "plaintext-only";
    if (code.contentEditable !== "plaintext-only") code.contentEditable = "true";
    code.spellcheck = false;
    code.setAttribute("role", "textbox");
    code.setAttribute("aria-multiline", "true");
    code.setAttribute("aria-label", "Code of this cell");
    code.tabIndex = 0;
    code.addEventListener("input", () => {
      note(cell, edited(cell) ? "edited" : "");
    });
    code.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.shiftKey) return;
      event.preventDefault();
      run([id]);
    });
    cells.set(id, cell);
  }

  const edited = (cell) => text(cell).trimEnd() !== cell.source.trimEnd();

  /* The code as it stands; browsers break a line that is typed by elements of their own. */
  function text(cell) {
    const copy = cell.code.cloneNode(true);
    for (const broken of copy.querySelectorAll("br")) broken.replaceWith("\n");
    for (const block of copy.querySelectorAll("div")) block.prepend("\n");
    return copy.textContent;
  }

  function note(cell, words) {
    cell.note.textContent = words;
    cell.place.classList.toggle("live-edited", edited(cell));
  }

  /* Results --------------------------------------------------------------------------------------- */

  function results(cell) {
    let out = cell.place.querySelector(":scope > .live-output");
    if (!out) {
      out = make("div", "", { className: "live-output", role: "region" });
      out.setAttribute("aria-label", "Result");
      cell.place.append(out);
    }
    out.replaceChildren();
    return out;
  }

  function show(outcome) {
    const cell = cells.get(outcome.cell);
    if (outcome.error && !outcome.claim) troubled.add(outcome.cell);
    else troubled.delete(outcome.cell);
    if (outcome.claim) verdicts.set(outcome.claim, outcome.cell);
    for (const output of outcome.outputs)
      if (output[CLAIM] && !output[CLAIM].skipped) verdicts.set(output[CLAIM].identifier, null);
    if (!cell) return;
    const out = results(cell);
    const kept = cell.place.querySelector(":scope > .cell_output");
    const isClaim = Boolean(outcome.claim) || outcome.outputs.some((output) => output[CLAIM]);
    const replaces = outcome.error || outcome.outputs.length > 0;
    // A claim's box stands; the verdict is written beneath it.
    kept?.classList.toggle("live-replaced", Boolean(replaces) && !isClaim);
    for (const output of outcome.outputs) out.append(...shown(output));
    if (outcome.claim)
      out.append(make("div", outcome.error.replace(/^line \d+: ClaimFailed: /, ""),
        { className: "live-verdict live-fails" }));
    else if (outcome.error) out.append(make("pre", outcome.error, { className: "live-error" }));
    if (outcome.needs) out.append(make("p", part(outcome), { className: "live-note" }));
    note(cell, outcome.error ? "" : edited(cell) ? "edited, has run" : "has run");
    if (window.MathJax?.typesetPromise) MathJax.typesetPromise([out]);
  }

  const part = (outcome) => outcome.outputs.length ? `In part: ${NEEDS.toLowerCase()}` : NEEDS;

  function* shown(output) {
    if (output[CLAIM]) yield verdict(output[CLAIM], output.metadata?.[CLAIM]?.measured ?? []);
    else if (output["text/markdown"]?.startsWith("|")) yield table(output["text/markdown"]);
    else if (output["text/latex"])
      yield make("div", `\\[${output["text/latex"].replace(/^\$+|\$+$/g, "")}\\]`,
        { className: "math tex2jax_process" });
    else if (output["text/plain"] && !Object.keys(output).some((kind) => kind.startsWith("application/")))
      yield make("pre", output["text/plain"]);
  }

  function verdict(record, measured) {
    const holds = make("div", "", { className: "live-verdict live-holds" });
    holds.dataset.claim = record.identifier;
    if (record.skipped) {
      holds.className = "live-verdict";
      holds.append(`${record.identifier} does not apply here: it ${record.applies}`);
      return holds;
    }
    const here = new Map(), away = new Set();
    record.evidence.forEach((piece, place) => {
      if (measured[place]?.status) away.add(KINDS[piece.kind]);
      else here.set(KINDS[piece.kind], (here.get(KINDS[piece.kind]) ?? 0) + 1);
    });
    const proofs = here.get(KINDS.proved) ?? 0;
    if (!proofs) holds.className = "live-verdict";
    holds.append(make("strong", record.identifier));
    const words = [];
    if (proofs) words.push(`proved here, anew (${proofs} ${proofs === 1 ? "proof" : "proofs"})`);
    for (const kind of here.keys())
      if (kind !== KINDS.proved) words.push(`${kind.toLowerCase()}: as written`);
    if (away.size)
      words.push(`${[...away].join(", ").toLowerCase()}: not checked here, needs the full ` +
        "installation (make lab)");
    holds.append(` ${words.join("; ")}.`);
    return holds;
  }

  function table(markdown) {
    const [head, , ...rows] = markdown.trim().split("\n").map((line) =>
      line.replace(/^\||\|$/g, "").split("|").map((text) =>
        text.trim().replace(/\$([^$]*)\$/g, "\\($1\\)")));
    const made = make("table", "", { className: "table tex2jax_process" });
    const body = (part, tag, lines) => {
      const place = made.appendChild(make(part));
      for (const line of lines) {
        const row = place.appendChild(make("tr"));
        for (const text of line) row.append(make(tag, text));
      }
    };
    body("thead", "th", [head]);
    body("tbody", "td", rows);
    return made;
  }

  /* Python ---------------------------------------------------------------------------------------- */

  function say(state, words) {
    bar.dataset.state = state;
    bar.querySelector("output").textContent = words;
    bar.querySelector(".live-stop").disabled = !["loading", "running"].includes(state);
  }

  function showBar() {
    if (bar) return;
    bar = make("div", "", { className: "live-bar", role: "region" });
    bar.setAttribute("aria-label", "Python in this page");
    const stop = button("Interrupt", interrupt);
    stop.className = "live-stop";
    bar.append(document.createElement("output"), button("Run all", runAll), stop,
      button("Reset", reset));
    document.body.append(bar);
  }

  async function start() {
    say("loading", "loading 0 %");
    try {
      chapterCells ??= await (await fetch(chapter)).json();
      worker = new Worker(new URL("worker.js", script.src), { type: "module" });
    } catch (error) {
      worker = null;
      say("broken", location.protocol === "file:"
        ? "A browser runs no Python from a file. In the book's folder start: python3 -m http.server"
        : `Python cannot start: ${error.message}`);
      return;
    }
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = (event) => hear({ broken: event.message ?? "the worker does not load" });
    worker.postMessage({ start: { cells: chapterCells, whole } });
  }

  function hear(told) {
    if ("loaded" in told) say("loading", `loading ${Math.round(100 * told.loaded)} %`);
    else if (told.starting) say("loading", "starting SymPy");
    else if (told.ready) proceed();
    else if (told.running) {
      say("running", `running cell ${1 + chapterCells.findIndex(([id]) => id === told.running)} ` +
        `of ${chapterCells.length}`);
      const cell = cells.get(told.running);
      if (cell) note(cell, "running");
    } else if (told.outcome) show(told.outcome);
    else if (told.stopped) {
      const cell = cells.get(told.stopped);
      if (cell) {
        const out = results(cell);
        const link = make("a", "an earlier cell that this one needs", { href: `#cell-${told.by}` });
        out.append(make("p", "Not run, since an error stopped ", { className: "live-error" }));
        out.lastChild.append(link, ".");
        note(cell, "");
      }
    } else if (told.done) finish();
    else if (told.broken) {
      say("broken", told.broken);
      worker?.terminate();
      worker = null;
    }
  }

  function finish() {
    waiting = null;
    const failing = [...verdicts].filter(([, cell]) => cell);
    const words = ["ready"];
    if (failing.length)
      words.push(`of ${verdicts.size} claims ${failing.length === 1 ? "one fails" : `${failing.length} fail`}: ` +
        failing.map(([name]) => name).join(", "));
    else if (verdicts.size) words.push(`${verdicts.size} claims looked at, none fails`);
    if (troubled.size) words.push(`errors in cells: ${troubled.size}`);
    say("ready", words.join("; "));
  }

  function proceed() {
    if (!waiting) return say("ready", "ready");
    const sources = Object.fromEntries([...cells.values()].map((cell) =>
      [cell.id, edited(cell) ? text(cell) : original(cell.id)]));
    worker.postMessage({ run: { targets: waiting, sources } });
  }

  const original = (id) => chapterCells.find(([name]) => name === id)[1];

  function run(targets) {
    showBar();
    if (bar.dataset.state === "running") return;
    const idle = worker && !waiting;
    waiting = targets;
    if (idle) proceed();
    else if (!worker) start();
  }

  const runAll = () => run([...cells.keys()]);

  function interrupt() {
    worker?.terminate();
    worker = waiting = null;
    for (const cell of cells.values()) if (cell.note.textContent === "running") note(cell, "");
    say("stopped", "interrupted; the next run starts Python anew");
  }

  function reset() {
    interrupt();
    verdicts = new Map();
    troubled.clear();
    for (const cell of cells.values()) {
      cell.code.innerHTML = cell.written;
      cell.place.querySelector(":scope > .live-output")?.remove();
      cell.place.querySelector(":scope > .cell_output")?.classList.remove("live-replaced");
      note(cell, "");
    }
    say("stopped", "as written");
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll(".live-cell, .live-full")) prepare(place);
    document.querySelector(".article-header-buttons")?.prepend(
      Object.assign(button("Run all", runAll), { className: "code-switch live-all" }));
  });
})();
