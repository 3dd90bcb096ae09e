// The page itself: renders a document, takes updates, and reacts to the reader. `Page.render(document)` draws everything,
// `Page.update(partial)` takes what changed and keeps zoom, slider, unit and hidden curves.
"use strict";

const Page = (() => {
  const { at, el, fill, renew } = Dom;
  const STEPS = 1000; // of the slider, evenly spaced in log compute
  const roleSets = new WeakMap();

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
    Frames.soon(PARTS);
  }

  function update(partial) {
    Model.merge(partial);
    Frames.soon(PARTS);
  }

  // The parts of the page, in the order in which they are drawn. Each looks itself whether anything in it has changed.
  const PARTS = [words, chart, drawRun, MoreCharts.straight, MoreCharts.panels, Sections.comparison];

  function draw() {
    for (const part of PARTS) part();
  }

  function words() {
    Sections.head();
    controls();
    Details.pick(chooseRun);
    Sections.answer();
    slider();
    Sections.budget();
    RunTable.draw(toggle);
  }

  function chart() {
    Chart.draw();
    key();
  }

  function drawRun() {
    Details.draw();
    Details.origin();
    MoreCharts.history();
    Sets.draw();
  }

  function controls() {
    const units = Model.units();
    Dom.hide("units", units.length < 2);
    choice("units", "unit", units.map((unit) => [unit.key, unit.name]), Model.choices.unit, (key) => {
      Model.choices.unit = key;
      draw();
    });
    choice("axis", "axis", [["log", "log"], ["linear", "linear"]], Model.choices.axis, (axis) => {
      Model.choices.axis = axis;
      chart();
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

  // Browsers send one move a frame.
  function moved() {
    const { low, high, first } = Model.range();
    const share = Number(at("budget").value) / STEPS;
    const home = Math.round(STEPS * Math.log(first / low) / Math.log(high / low));
    const exact = Number(at("budget").value) === home; // back where it began, to the last digit
    Model.choices.budgets[Model.choices.unit] = exact ? first : low * (high / low) ** share;
    Sections.budget();
    Chart.moveBudget();
    RunTable.draw(toggle);
  }

  function toggle(id) {
    const { hidden } = Model.choices;
    if (!hidden.delete(id)) hidden.add(id);
    draw();
  }

  function chooseRun(id) {
    Model.choices.run = id;
    drawRun();
  }

  // What the marks in the chart mean; colours are the runs', named in the table.
  function key() {
    const { svg } = Dom;
    const box = (...inside) => svg("svg", { width: 26, height: 14, "aria-hidden": "true", stroke: "currentColor", fill: "none", "stroke-width": 2 }, ...inside);
    const roles = new Set(Model.views().flatMap((view) => rolesOf(view.unit?.points.role ?? [])));
    const items = [["used in the fit", svg("circle", { cx: 13, cy: 7, r: 4, fill: "currentColor", stroke: "none" })]];
    if (roles.has("held out")) items.push(["held out", svg("path", { d: "M13 2 18 7 13 12 8 7Z", "stroke-width": 1.5 })]);
    if (roles.has("before")) items.push(["before the window", svg("circle", { cx: 13, cy: 7, r: 4, fill: "currentColor", stroke: "none", opacity: 0.35 })]);
    const runs = Model.fitted().filter((view) => view.on);
    items.push(["fitted law", svg("path", { d: "M2 7H24" })], ["forecast", svg("path", { d: "M2 7H24", "stroke-dasharray": "5 3" })]);
    if (runs.length <= Chart.MOST_BANDS) items.push([`${Numbers.percent(Model.document().level)} interval`, svg("rect", { x: 2, y: 2, width: 22, height: 10, fill: "currentColor", opacity: 0.2, stroke: "none" })]);
    if (runs.length <= Chart.MOST_CEILINGS && runs.some((view) => view.fit.identified)) items.push(["ceiling", svg("path", { d: "M2 7H24", "stroke-dasharray": "2 3" })]);
    if (Model.choices.axis === "linear" && runs.some((view) => view.unit.start)) items.push(["before training", svg("path", { d: "M13 1.5l1.6 3.6 3.9.4-2.9 2.6.8 3.9-3.4-2-3.4 2 .8-3.9-2.9-2.6 3.9-.4Z", fill: "currentColor", stroke: "none" })]);
    renew("key", ...items.map(([words, mark]) => el("span", {}, box(mark), words)));
  }

  // Of a long list, asked for at every drawing.
  function rolesOf(list) {
    if (!roleSets.has(list)) roleSets.set(list, [...new Set(list)]);
    return roleSets.get(list);
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
    if (Model.document()) draw();
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
