// The smaller charts: log F against log C, how the forecast has moved, and the panels of our own runs.
"use strict";

const MoreCharts = (() => {
  const MOST_RUNS = 10; // lines of more runs than that in one small panel cannot be told apart
  const DASHES = ["solid", "dot", "dash"];
  const SYMBOLS = { SCALE: "triangle-up", STOP: "square", "NEED MORE DATA": "circle-open", UNSTABLE: "x" };
  const QUIET = { ...Chart.CONFIG, displayModeBar: false };
  let watcher = null;

  function straight() {
    const views = Model.fitted().filter((view) => view.on && view.unit.log_f);
    Dom.at("straight-section").hidden = !views.length;
    if (!views.length) return;
    const computes = views.flatMap((view) => view.unit.log_f.compute);
    const frame = { left: Math.min(...computes), right: Math.max(...computes) };
    const traces = views.flatMap((view) => straightTraces(view));
    const y = { type: "log", title: "F", exponentformat: "power", dtick: 1 };
    whenSeen(Dom.at("straight"), (place) => Plotly.react(place, traces, Style.layout({
      x: { type: "log", ...Style.ticks("log", frame), title: Model.unitName() }, y, keep: Model.choices.unit,
    }), Chart.CONFIG));
  }

  function straightTraces(view) {
    const style = Style.of(view.index);
    const { compute, f } = view.unit.log_f;
    const ends = [Math.min(...compute), Math.max(...compute)];
    const exponent = view.fit.exponent.value;
    const words = `<b>${Style.escape(view.name)}</b><br>exponent ${Numbers.estimate(view.fit.exponent)}`;
    const shared = { type: "scatter", showlegend: false, text: words, hovertemplate: "%{text}<extra></extra>" };
    return [
      { ...shared, mode: "markers", x: compute, y: f, marker: { symbol: style.symbol, size: 5.5, color: style.colour, opacity: 0.8 } },
      { ...shared, mode: "lines", x: ends, y: ends.map((c) => c ** exponent), line: { color: style.colour, width: 1.6, dash: style.dash } },
    ];
  }

  // Of the chosen run, in the chosen unit, or in the first unit that has one.
  function history() {
    const view = Model.views().find((one) => one.run.id === Model.choices.run);
    const chosen = view?.unit?.history?.length ? view.unit : view?.run.units.find((unit) => unit.history?.length);
    Dom.at("history-section").hidden = !chosen;
    if (!chosen) return;
    const moments = chosen.history;
    const whose = Model.alone() ? "" : ` of ${view.name}`;
    Dom.at("history-words").textContent =
      `The forecast${whose} for ${Numbers.amount(moments.at(-1).budget)} ${chosen.name}, as it stood when the curve was known up to each compute.${whatCame(moments, chosen).length ? " The dashed line is what came." : ""} ${signs(moments)}`;
    const y = { title: Model.valueName() };
    const frame = { left: moments[0].compute, right: moments.at(-1).compute };
    whenSeen(Dom.at("history"), (place) => Plotly.react(place, [historyTrace(moments, view, chosen), ...whatCame(moments, chosen)], Style.layout({
      x: { title: `${chosen.name} known`, ...Style.ticks("linear", frame) }, y, keep: `${chosen.key} ${view.run.id}`,
    }), QUIET));
  }

  // What the marks mean, of those that occur.
  function signs(moments) {
    const marks = { SCALE: "▲", STOP: "■", "NEED MORE DATA": "○", UNSTABLE: "×" };
    const present = Object.entries(marks).filter(([action]) => moments.some((one) => one.action === action));
    return present.map(([action, mark]) => `${mark} ${action}`).join(", ") + ".";
  }

  // Where the budget has been measured since, a line at what was found there.
  function whatCame(moments, unit) {
    const { budget } = moments.at(-1);
    const { compute, value, role } = unit.points;
    const near = compute.findIndex((one, i) => role[i] === "held out" && Math.abs(one / budget - 1) < 0.02);
    if (near < 0) return [];
    const words = `what came: ${Numbers.number(value[near])}`;
    return [{
      type: "scatter", mode: "lines", x: [moments[0].compute, moments.at(-1).compute], y: [value[near], value[near]],
      line: { color: Style.css("--ink"), width: 1.2, dash: "dash" }, text: words, hovertemplate: "%{text}<extra></extra>",
    }];
  }

  function historyTrace(moments, view, unit) {
    const bar = (end) => moments.map((one) => (one[end] === null ? 0 : Math.abs(one[end] - one.value)));
    const { colour } = Style.of(view.index);
    return {
      type: "scatter", mode: "lines+markers", x: moments.map((one) => one.compute), y: moments.map((one) => one.value),
      line: { color: Style.faint(colour, 0.5), width: 1.5 },
      marker: { color: colour, size: 9, symbol: moments.map((one) => SYMBOLS[one.action] ?? "circle") },
      error_y: { type: "data", array: bar("high"), arrayminus: bar("low"), color: colour, thickness: 1.2, width: 4 },
      customdata: moments.map((one) => `<b>${one.action}</b><br>known up to ${Numbers.amount(one.compute)} ${Style.escape(unit.name)}<br>forecast ${Numbers.ranged(one.value, one.low, one.high).join(" ")}`),
      hovertemplate: "%{customdata}<extra></extra>",
    };
  }

  function panels() {
    const views = Model.views().filter((view) => view.on && view.run.panels.length);
    Dom.at("panels-section").hidden = !views.length;
    const shown = views.slice(0, MOST_RUNS);
    const left = views.length - shown.length;
    Dom.at("panels-words").textContent = left ? `Of the first ${MOST_RUNS} runs switched on; ${left} more are left out.` : "";
    const titles = [...new Set(shown.flatMap((view) => view.run.panels.map((panel) => panel.title)))];
    const box = Dom.at("panels");
    const present = [...box.children].map((child) => child.dataset.title);
    if (present.join("\n") !== titles.join("\n")) box.replaceChildren(...titles.map(panelBox));
    titles.forEach((title, i) => whenSeen(box.children[i].lastChild, (place) => drawPanel(place, title, shown)));
  }

  function panelBox(title) {
    const chart = Dom.el("div", { class: "chart", role: "img", "aria-label": `${title} against the step` });
    const legend = Dom.el("p", { class: "muted key" });
    return Dom.el("figure", { class: "panel", "data-title": title }, Dom.el("h3", {}, title), legend, chart);
  }

  function drawPanel(place, title, views) {
    const found = views.flatMap((view) => view.run.panels.filter((panel) => panel.title === title).map((panel) => ({ view, panel })));
    const traces = found.flatMap(({ view, panel }) => panel.lines.map((line, i) => panelLine(view, line, i)));
    const { x_name: x, y_name: y, lines } = found[0].panel;
    place.previousSibling.textContent = lines.length > 1 ? lines.map((line, i) => `${["—", "···", "- -"][i % 3]} ${line.name}`).join("   ") : "";
    return Plotly.react(place, traces, Style.layout({ x: { title: x, nticks: 6 }, y: { title: y, nticks: 5, rangemode: "tozero" }, keep: title, small: true }), QUIET);
  }

  function panelLine(view, line, i) {
    const words = `${Style.escape(view.name)}: ${Style.escape(line.name)}`;
    return {
      type: "scatter", mode: "lines", showlegend: false, x: line.x, y: line.y,
      line: { color: Style.of(view.index).colour, width: 1.5, dash: DASHES[i % DASHES.length] },
      text: words, hovertemplate: "%{text}<br>step %{x:.0f}: %{y:.4~g}<extra></extra>",
    };
  }

  // A chart below the fold is drawn when the reader comes near it; one that is drawn already is drawn again at once.
  function whenSeen(place, draw) {
    place.redraw = draw;
    if (!Load.isReady()) return;
    if (place.data) draw(place);
    else seen().observe(place);
  }

  function seen() {
    watcher ??= new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries.filter((entry) => entry.isIntersecting)) {
        watcher.unobserve(target);
        if (isIntersecting && !target.data) target.redraw(target);
      }
    }, { rootMargin: "300px" });
    return watcher;
  }

  // For the printer everything is drawn, also what nobody has scrolled to.
  function drawAll() {
    for (const place of document.querySelectorAll(".chart")) if (place.redraw) place.redraw(place);
  }

  return { straight, history, panels, drawAll };
})();
