// The page itself: renders a document, takes updates, and reacts to the reader. `Page.render(document)` draws everything,
// `Page.update(partial)` takes what changed and keeps zoom, slider, unit and hidden curves.
"use strict";

const Page = (() => {
  const { at, el, fill } = Dom;
  const STEPS = 1000; // of the slider, evenly spaced in log compute
  let pending = 0;
  let lastEnd = 0, lastTook = 0;

  // The words at once; the charts as soon as plotly is there.
  async function render(whole) {
    Model.take(whole);
    draw();
    if (!Load.isReady()) {
      await Load.painted();
      await Load.plotly();
      redraw();
    }
    document.body.dataset.ready = "true";
    performance.mark("scalerl-drawn");
  }

  function replace(whole) {
    Model.take(whole);
    soon();
  }

  function update(partial) {
    Model.merge(partial);
    soon();
  }

  // Many messages are one drawing, and drawing takes at most a third of the time, so that the page stays responsive.
  function soon() {
    if (pending) return;
    const wait = Math.max(0, lastEnd + 2 * lastTook - performance.now());
    pending = setTimeout(() => requestAnimationFrame(() => {
      pending = 0;
      const begin = performance.now();
      draw();
      lastEnd = performance.now();
      lastTook = lastEnd - begin;
    }), wait);
  }

  function draw() {
    Sections.head();
    controls();
    Sections.answer();
    Sections.comparison();
    Details.pick(chooseRun);
    drawUnit();
    Details.origin();
  }

  // Everything that depends on the unit, the hidden curves, or the budget.
  function drawUnit() {
    slider();
    Sections.budget();
    Sections.runs(toggle);
    Chart.draw();
    key();
    drawRun();
    MoreCharts.straight();
    MoreCharts.panels();
  }

  function drawRun() {
    Details.draw();
    Details.origin();
    MoreCharts.history();
  }

  function controls() {
    const units = Model.units();
    at("units").hidden = units.length < 2;
    choice("units", "unit", units.map((unit) => [unit.key, unit.name]), Model.choices.unit, (key) => {
      Model.choices.unit = key;
      Sections.answer();
      Sections.comparison();
      drawUnit();
    });
    choice("axis", "axis", [["log", "log"], ["linear", "linear"]], Model.choices.axis, (axis) => {
      Model.choices.axis = axis;
      Chart.draw();
      key();
    });
  }

  // Radio buttons, so that arrow keys and screen readers know what they are.
  function choice(id, name, options, chosen, onChoose) {
    const present = [...at(id).querySelectorAll("input")].map((input) => input.value);
    if (present.join("\n") === options.map(([value]) => value).join("\n")) {
      for (const input of at(id).querySelectorAll("input")) input.checked = input.value === chosen;
      return;
    }
    const legend = at(id).querySelector("legend");
    const labels = options.map(([value, words]) => {
      const input = el("input", { type: "radio", name, value });
      input.checked = value === chosen;
      input.addEventListener("change", () => onChoose(value));
      return el("label", {}, input, el("span", {}, words));
    });
    fill(id, legend, ...labels);
  }

  function slider() {
    const range = Model.range();
    if (!range) return;
    const share = Math.log(range.budget / range.low) / Math.log(range.high / range.low);
    at("budget").value = String(Math.round(STEPS * share));
  }

  function moved() {
    const { low, high, first } = Model.range();
    const share = Number(at("budget").value) / STEPS;
    const home = Math.round(STEPS * Math.log(first / low) / Math.log(high / low));
    const exact = Number(at("budget").value) === home; // back where it began, to the last digit
    Model.choices.budgets[Model.choices.unit] = exact ? first : low * (high / low) ** share;
    Sections.budget();
    Sections.runs(toggle);
    Chart.moveBudget();
  }

  function toggle(id) {
    const { hidden } = Model.choices;
    if (!hidden.delete(id)) hidden.add(id);
    drawUnit();
  }

  function chooseRun(id) {
    Model.choices.run = id;
    drawRun();
  }

  // What the marks in the chart mean; colours are the runs', named in the table.
  function key() {
    const { svg } = Dom;
    const box = (...inside) => svg("svg", { width: 26, height: 14, "aria-hidden": "true", stroke: "currentColor", fill: "none", "stroke-width": 2 }, ...inside);
    const roles = new Set(Model.views().flatMap((view) => view.unit?.points.role ?? []));
    const items = [["used in the fit", svg("circle", { cx: 13, cy: 7, r: 4, fill: "currentColor", stroke: "none" })]];
    if (roles.has("held out")) items.push(["held out", svg("path", { d: "M13 2 18 7 13 12 8 7Z", "stroke-width": 1.5 })]);
    if (roles.has("before")) items.push(["before the window", svg("circle", { cx: 13, cy: 7, r: 4, fill: "currentColor", stroke: "none", opacity: 0.35 })]);
    const runs = Model.fitted().filter((view) => view.on);
    items.push(["fitted law", svg("path", { d: "M2 7H24" })], ["forecast", svg("path", { d: "M2 7H24", "stroke-dasharray": "5 3" })]);
    if (runs.length <= Chart.MOST_BANDS) items.push([`${Numbers.percent(Model.document().level)} interval`, svg("rect", { x: 2, y: 2, width: 22, height: 10, fill: "currentColor", opacity: 0.2, stroke: "none" })]);
    if (runs.length <= Chart.MOST_CEILINGS && runs.some((view) => view.fit.identified)) items.push(["ceiling", svg("path", { d: "M2 7H24", "stroke-dasharray": "2 3" })]);
    if (Model.choices.axis === "linear" && runs.some((view) => view.unit.start)) items.push(["before training", svg("path", { d: "M13 1.5l1.6 3.6 3.9.4-2.9 2.6.8 3.9-3.4-2-3.4 2 .8-3.9-2.9-2.6 3.9-.4Z", fill: "currentColor", stroke: "none" })]);
    fill("key", ...items.map(([words, mark]) => el("span", {}, box(mark), words)));
  }

  function setTheme(theme, { remember = false } = {}) {
    document.documentElement.dataset.theme = theme;
    at("theme").setAttribute("aria-pressed", String(theme === "dark"));
    at("theme").textContent = theme === "dark" ? "Light" : "Dark";
    if (remember) store(theme);
  }

  // A page opened from a file may be forbidden to remember anything; then it does not.
  function store(theme) {
    try {
      localStorage.setItem("scalerl-theme", theme);
    } catch {
      /* not remembered */
    }
  }

  function firstTheme() {
    try {
      const stored = localStorage.getItem("scalerl-theme");
      if (stored) return stored;
    } catch {
      /* nothing remembered */
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function redraw() {
    if (Model.document()) drawUnit();
  }

  async function copy() {
    const words = Model.document().command;
    try {
      await navigator.clipboard.writeText(words);
      at("copied").textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(at("command"));
      at("copied").textContent = "Selected: press Ctrl+C to copy it.";
    }
  }

  // On paper: light, everything drawn, as wide as a sheet.
  function printing() {
    let before = null;
    window.addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      setTheme("light");
      redraw();
      MoreCharts.drawAll();
      for (const chart of document.querySelectorAll(".chart")) if (chart.data) Plotly.relayout(chart, { width: chart.closest(".panel") ? 310 : 660 });
    });
    window.addEventListener("afterprint", () => {
      for (const chart of document.querySelectorAll(".chart")) if (chart.data) Plotly.relayout(chart, { width: null, autosize: true });
      setTheme(before ?? "light");
      redraw();
    });
  }

  function start() {
    setTheme(firstTheme());
    at("theme").addEventListener("click", () => {
      setTheme(Style.isDark() ? "light" : "dark", { remember: true });
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      setTheme(firstTheme());
      redraw();
    });
    at("budget").addEventListener("input", moved);
    at("copy").addEventListener("click", copy);
    printing();
    const inside = at("document").textContent.trim();
    if (inside !== "null") render(JSON.parse(inside));
    if (document.body.dataset.live) Live.start();
  }

  return { render, replace, update, start, document: () => Model.document(), choices: Model.choices };
})();
