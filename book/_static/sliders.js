/* Figures with sliders: curves that were computed when the chapter ran are looked up and drawn. */
(() => {
  const WIDTH = 560, HEIGHT = 330, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 44;
  const COLOURS = ["blue", "vermilion", "green", "purple", "orange", "sky"];
  const DASHES = ["", "7 4", "2 3", "9 3 2 3", "1 5", "12 4"];
  const numbers = (text) => text.split(" ").map(Number);
  const make = (tag, attributes = {}, ...children) => {
    const made = ["svg", "path", "line", "text", "circle", "g"].includes(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  /* Where a value stands on an axis. */
  function scale({ scale: kind }, values, from, to) {
    const log = kind === "log";
    const at = log ? Math.log10 : (value) => value;
    const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0)).map(at);
    let low = Math.min(...finite), high = Math.max(...finite);
    if (high === low) high = low + 1;
    const place = (value) => from + ((at(value) - low) / (high - low)) * (to - from);
    return { place, ticks: log ? decades(low, high) : steps(low, high), log };
  }

  function decades(low, high) {
    const ticks = [], every = Math.max(1, Math.round((high - low) / 5));
    for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += every) ticks.push(10 ** power);
    return ticks.length > 1 ? ticks : [10 ** low, 10 ** ((low + high) / 2), 10 ** high];
  }

  function steps(low, high) {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
    const ticks = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step)
      ticks.push(value);
    return ticks;
  }

  const written = (value) => {
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e5)) return value.toExponential(0).replace("e", " · 10^").replace("+", "");
    return String(Number(value.toPrecision(3)));
  };

  function figure(place, rank) {
    const data = JSON.parse(place.querySelector("script").textContent);
    const places = numbers(data.x.places);
    const chosen = data.sliders.map(([, values]) => Math.floor((values.length - 1) / 2));
    let at = Math.floor(places.length / 2);
    const controls = make("div", { class: "sliders-controls" });
    const drawing = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "drawing", "aria-hidden": "true",
      style: `--drawing-width: ${WIDTH}px` });
    const told = make("output", { class: "sliders-told", "aria-live": "polite" });

    function slider(label, count, start, say, move) {
      const id = `sliders-${rank}-${controls.children.length}`;
      const input = make("input", { type: "range", id, min: 0, max: count - 1, step: 1, value: start });
      const value = make("span");
      const show = () => {
        value.textContent = say(Number(input.value));
        input.setAttribute("aria-valuetext", value.textContent);
      };
      input.addEventListener("input", () => { move(Number(input.value)); show(); draw(); });
      show();
      controls.append(make("div", {}, make("label", { for: id }, label), input, value));
    }

    data.sliders.forEach(([name, values], position) => slider(name, values.length, chosen[position],
      (index) => values[index], (index) => { chosen[position] = index; }));
    slider(data.x.label, places.length, at, (index) => written(places[index]), (index) => { at = index; });

    function found() {
      let index = 0;
      data.sliders.forEach(([, values], position) => { index = index * values.length + chosen[position]; });
      const { curves, marks } = data.found[index];
      return { curves: curves.map(numbers), marks: marks.map(([name, point]) => [name, ...numbers(point)]) };
    }

    function draw() {
      const { curves, marks } = found();
      const x = scale(data.x, places, LEFT, WIDTH - RIGHT);
      const y = scale(data.y, [...curves.flat(), ...marks.map((mark) => mark[2])], HEIGHT - BOTTOM, TOP);
      const parts = [];
      for (const tick of x.ticks) parts.push(
        make("line", { x1: x.place(tick), x2: x.place(tick), y1: TOP, y2: HEIGHT - BOTTOM, class: "grid" }),
        make("text", { x: x.place(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, written(tick)));
      for (const tick of y.ticks) parts.push(
        make("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.place(tick), y2: y.place(tick), class: "grid" }),
        make("text", { x: LEFT - 6, y: y.place(tick) + 4, "text-anchor": "end" }, written(tick)));
      parts.push(make("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, data.x.label));
      curves.forEach((curve, number) => {
        let path = "";
        curve.forEach((value, index) => {
          const height = y.place(value);
          if (Number.isFinite(height))
            path += `${path ? "L" : "M"}${x.place(places[index]).toFixed(1)} ${height.toFixed(1)}`;
        });
        parts.push(make("path", { d: path, fill: "none", "stroke-width": 2,
          stroke: `var(--figure-${COLOURS[number]})`, "stroke-dasharray": DASHES[number] }));
        if (Number.isFinite(y.place(curve[at])))
          parts.push(make("circle", { cx: x.place(places[at]), cy: y.place(curve[at]), r: 4,
            fill: `var(--figure-${COLOURS[number]})` }));
      });
      for (const [, across, up] of marks) parts.push(make("circle", { cx: x.place(across), cy: y.place(up), r: 5,
        fill: "none", stroke: "currentColor", "stroke-width": 2 }));
      drawing.replaceChildren(...parts);
      const words = data.curves.map((name, number) => {
        const swatch = make("span", { class: "sliders-swatch",
          style: `border-top: 3px ${number ? "dashed" : "solid"} var(--figure-${COLOURS[number]})` });
        return make("span", { "data-curve": name }, swatch, ` ${name} ${curves[number][at]}`);
      });
      const best = marks.map(([name, across, up]) =>
        make("span", { "data-mark": name }, `○ ${name} ${across}: ${up}`));
      told.replaceChildren(...[...words, ...best]);
    }

    draw();
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", data.words || data.y.label);
    const up = make("p", { class: "sliders-up" }, data.y.label);
    place.append(make("p", {}, data.words), controls, told, up, drawing);
    place.hidden = false;
  }

  document.addEventListener("DOMContentLoaded", () =>
    document.querySelectorAll(".sliders").forEach(figure));
})();
