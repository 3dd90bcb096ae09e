// Everything about one run: its parameters, forecasts, what to know before trusting them, and where it comes from.
"use strict";

const Details = (() => {
  const { el, fill, at, table } = Dom;

  function pick(onPick) {
    const views = Model.views();
    Dom.hide("run-pick", views.length < 2);
    const select = at("run");
    const present = [...select.options].map((option) => `${option.value} ${option.text}`).join("\n");
    if (present !== views.map((view) => `${view.run.id} ${view.name}`).join("\n")) { // an open list stays open
      select.replaceChildren(...views.map((view) => el("option", { value: view.run.id }, view.name)));
    }
    select.value = Model.choices.run ?? "";
    select.onchange = () => onPick(select.value);
  }

  // A run that has not changed stays as it is, with what the reader has selected or scrolled to.
  function draw() {
    const view = Model.views().find((one) => one.run.id === Model.choices.run);
    if (!view) return fill("run-detail");
    const { fit } = view;
    if (!Changed.since("run-detail", view.run.id, fit, view.unit?.name, view.run.problem, view.run.events)) return null;
    if (!fit) return fill("run-detail", el("p", {}, view.run.problem ?? "This run is not measured in this unit of compute."), events(view.run));
    const left = el("div", {}, parameters(view), forecasts(view));
    const right = el("div", {}, diagnostics(fit), windows(view), events(view.run));
    return fill("run-detail", el("p", { class: "muted" }, about(view)), el("div", { class: "columns" }, left, right));
  }

  function about(view) {
    const { fit } = view;
    const held = fit.held_out.length;
    const inside = fit.held_out.filter((point) => point.inside).length;
    const known = fit.held_out.some((point) => point.inside !== null);
    const words = [
      `${fit.law} law on ${fit.points.toLocaleString("en")} points${fit.seeds > 1 ? ` of ${fit.seeds} seeds` : ""}`,
      `${Numbers.amount(fit.window.first)} to ${Numbers.amount(fit.window.last)} ${view.unit.name}`,
    ];
    if (fit.r_squared !== null) words.push(`R² ${fit.r_squared.toFixed(3)}`);
    if (fit.method === "paper") words.push("the paper's procedure");
    if (held) words.push(`${held} points held out${known ? `, ${inside} of them inside the ${Numbers.percent(fit.level)} interval` : ""}`);
    return `${words.join(", ")}.`;
  }

  function parameters({ fit, unit }) {
    const meaning = (name) => (Style.meanings[name] ?? "").replaceAll("{value}", fit.y).replaceAll("{compute}", unit.name);
    const rows = Object.entries(fit.parameters).map(([name, found]) => {
      const quoted = name !== "ceiling" || fit.identified;
      const figure = Numbers.ranged(found.value, found.low, found.high, { compute: name === "midpoint" || name === "scale" });
      return [name, { figure }, quoted ? meaning(name) : "not identified yet: do not quote it"];
    });
    return table(["Parameter", "Value", "Meaning"], rows, { caption: "Parameters" });
  }

  function forecasts({ fit, unit }) {
    const sorted = [...fit.forecast].sort((a, b) => a.compute - b.compute);
    const rows = sorted.map((one) => [
      `${Numbers.amount(one.compute)} ${unit.name}`, Numbers.times(one.compute / fit.window.last),
      { figure: Numbers.ranged(one.value, one.low, one.high) },
    ]);
    const targets = fit.targets.map((target) => el("p", {}, target.message));
    return el("div", {}, table(["Compute", "Times the last", fit.y], rows, { caption: "Forecasts" }), targets);
  }

  function diagnostics(fit) {
    const found = fit.diagnostics.map((one) => el("li", {}, one.message.charAt(0).toUpperCase() + one.message.slice(1)));
    const good = el("li", {}, "Nothing speaks against this fit.");
    return el("div", {}, el("h3", {}, "Before trusting it"), el("ul", { class: found.length ? "plain" : "plain good" }, found.length ? found : good));
  }

  function windows({ fit, unit }) {
    if (!fit.windows.length) return null;
    const rows = fit.windows.map((one) => [
      `${Numbers.amount(one.from)} to ${Numbers.amount(one.until)}`, String(one.points), Numbers.number(one.ceiling),
      Numbers.number(one.exponent), Numbers.amount(one.midpoint),
    ]);
    return table([unit.name, "Points", "Ceiling", "Exponent", "Midpoint"], rows, { caption: "The same law on other windows" });
  }

  function events(run) {
    if (!run.events.length) return null;
    const rows = [...run.events].reverse().map((one) => el("li", {}, `${one.message} (${one.time})`));
    return el("div", {}, el("h3", {}, "What happened"), el("ul", { class: "plain notes" }, rows));
  }

  function origin() {
    const view = Model.views().find((one) => one.run.id === Model.choices.run);
    const citation = view?.run.units[0]?.fit?.citation;
    if (!Changed.since("origin", view?.run.id, view?.run.name, view?.run.notes, view?.run.provenance, citation)) return;
    const parts = [];
    if (view) {
      const facts = { run: view.run.name, source: view.run.source, ...(citation ? { citation } : {}), ...(view.run.provenance ?? {}) };
      parts.push(el("dl", {}, Object.entries(facts).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
      if (view.run.notes.length) parts.push(el("ul", { class: "plain notes" }, view.run.notes.map((note) => el("li", {}, note))));
    }
    fill("origin", ...parts);
    Dom.say("command", Model.document().command);
    Dom.hide("command-box", !Model.document().command);
  }

  return { pick, draw, origin };
})();
