// The runs side by side, best first; the names switch curves on and off. Doubles as the legend of the large chart. Rows stay
// where they are, and only cells that say something else are made again: the slider changes a third of them at every move.
"use strict";

const RunTable = (() => {
  const { at, el, fill, table, cell, action } = Dom;
  const TALL = 12; // rows; beyond that the table scrolls by itself
  const known = new Map(); // run id -> { row, parts, signs }
  let box = null;

  function draw(onToggle) {
    if (Model.alone()) return clear();
    const amount = Model.range()?.budget;
    const views = Model.ranked();
    const focused = document.activeElement?.dataset?.run;
    box ??= begin();
    box.classList.toggle("tall", views.length > TALL);
    const title = box.querySelector("thead tr").children[2];
    const words = amount ? `At ${Numbers.amount(amount)}` : "Forecast";
    if (title.textContent !== words) title.textContent = words;
    for (const view of views) renewRow(view, amount, onToggle);
    arrange(views.map((view) => view.run.id));
    if (focused && document.activeElement?.dataset?.run !== focused) known.get(focused)?.row.querySelector(".toggle").focus();
    return box;
  }

  function begin() {
    const made = table(["Run", "Now", "Forecast", "Ceiling", "Exponent", "Decision"], [], { label: "Runs, best first" });
    fill("runs", made);
    return made;
  }

  function clear() {
    fill("runs");
    known.clear();
    box = null;
  }

  function arrange(ids) {
    const wanted = new Set(ids);
    for (const [id, { row }] of known) if (!wanted.has(id) && known.delete(id)) row.remove();
    const body = box.querySelector("tbody");
    ids.forEach((id, i) => {
      const { row } = known.get(id);
      if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
    });
  }

  function renewRow(view, amount, onToggle) {
    const old = known.get(view.run.id) ?? { row: el("tr"), parts: [], signs: [] };
    const parts = [view.fit, view.unit?.curve, view.name, view.on, view.run.state, Model.alarm(view.run)?.message, view.run.problem, amount, Style.isDark()];
    if (old.parts.length && parts.every((part, i) => part === old.parts[i])) return;
    const contents = [{ sign: parts.slice(2, 6).concat(Style.isDark()), make: () => toggle(view, onToggle) }, ...figures(view, amount)];
    const signs = contents.map((content) => JSON.stringify(content));
    if (signs.length !== old.signs.length) old.row.replaceChildren(...contents.map(made));
    else signs.forEach((sign, i) => { if (sign !== old.signs[i]) old.row.children[i].replaceWith(made(contents[i], i)); });
    old.row.classList.toggle("off", !view.on);
    known.set(view.run.id, { row: old.row, parts, signs });
  }

  const made = (content, i) => cell(content.make ? content.make() : content.action ? action(content.action) : content, i);

  function figures(view, amount) {
    const { fit } = view;
    if (!fit) return [{ words: view.run.problem ?? (view.unit ? "no fit" : "not measured in this unit"), span: 5 }];
    const found = Model.forecastAt(view, amount);
    const ahead = found.passed ? ["passed", null] : Numbers.ranged(found.value, found.low, found.high);
    const ceiling = !fit.ceiling ? ["-", null] : fit.identified ? Numbers.ranged(fit.ceiling.value, fit.ceiling.low, fit.ceiling.high) : ["not identified", null];
    const exponent = fit.exponent ? Numbers.ranged(fit.exponent.value, fit.exponent.low, fit.exponent.high) : ["-", null];
    const now = [Numbers.number(fit.decision.now), null];
    return [{ figure: now }, { figure: ahead }, { figure: ceiling }, { figure: exponent }, found.action ? { action: found.action } : ""];
  }

  function toggle(view, onToggle) {
    const state = ["running", "stopped"].includes(view.run.state) ? el("span", { class: "badge" }, view.run.state) : null;
    const button = el("button", { type: "button", class: "toggle", "aria-pressed": String(view.on), "data-run": view.run.id }, Style.swatch(view.index), el("span", {}, view.name));
    button.addEventListener("click", () => onToggle(view.run.id));
    const alarm = Model.alarm(view.run);
    const sign = alarm ? el("span", { class: "badge alarm", title: alarm.message }, "alarm") : null;
    return state || sign ? el("span", {}, button, " ", state, " ", sign) : button;
  }

  return { draw };
})();
