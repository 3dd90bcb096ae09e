// The smaller charts: log F against log C, how the forecast has moved, and the panels of our own runs.
"use strict";

const MoreCharts = (() => {
  const MOST_RUNS = 10; // lines of more runs than that in one small panel cannot be told apart
  const DASHES = ["solid", "dot", "dash"];
  const SYMBOLS = { SCALE: "triangle-up", STOP: "square", "NEED MORE DATA": "circle-open", UNSTABLE: "x" };
  let watcher = null;
  let made = null;

  const quiet = () => (made ??= { ...Chart.config(), displayModeBar: false });

  function straight() {
    const views = Model.fitted().filter((view) => view.on && view.unit.log_f);
    Dom.hide("straight-section", !views.length);
    if (!views.length) return;
    const partsOf = (view) => [view.run.id, view.unit.log_f, view.fit, view.name, Style.isDark()];
    const groups = views.map((view) => ({ id: view.run.id, parts: partsOf(view), traces: () => straightTraces(view) }));
    whenSeen(Dom.at("straight"), [Model.unitName(), Style.narrow(), ...groups.flatMap((group) => group.parts)], (place) => drawStraight(place, views, groups));
  }

  // Drawn as the large chart is: few runs by plotly, many by hand over its axes.
  function drawStraight(place, views, groups) {
    const isMany = views.length > Chart.MANY;
    const [left, right] = Chart.extremes(views.flatMap((view) => Chart.extremes(view.unit.log_f.compute)));
    const [bottom, top] = Chart.extremes(views.flatMap((view) => Chart.extremes(view.unit.log_f.f)));
    const frame = isMany ? { ...Chart.rounded({ left: left / 1.1, right: 1.1 * right, bottom: 0, top: 1, last: right }), bottom: Math.floor(Math.log10(bottom)), top: Math.ceil(Math.log10(top)) } : { left, right };
    const range = isMany ? [{ range: [Math.log10(frame.left), Math.log10(frame.right)] }, { range: [frame.bottom, frame.top] }] : [{}, {}];
    const x = { type: "log", ...range[0], ...Style.ticks("log", frame), title: Model.unitName() };
    const y = { type: "log", ...range[1], title: "F", exponentformat: "power", dtick: 1 };
    const traces = isMany ? [Chart.NOTHING] : groups.flatMap((group) => group.traces()).map(Chart.forPlotly);
    if (Changed.since("straight axes", isMany ? JSON.stringify(frame) : groups, x.title, Style.isDark(), Style.narrow())) {
      Plotly.react(place, traces, Style.layout({ x, y, keep: Model.choices.unit }), Chart.config());
    }
    if (isMany) Layer.draw(place, groups);
    else Layer.clear(place);
  }

  function straightTraces(view) {
    const style = Style.of(view.index);
    const { compute, f } = view.unit.log_f;
    const ends = Chart.extremes(compute);
    const exponent = view.fit.exponent.value;
    const words = () => [view.name, `exponent ${Numbers.estimate(view.fit.exponent)}`];
    return [
      { mode: "markers", x: compute, y: f, marker: { symbol: style.symbol, size: 5.5, color: style.colour, opacity: 0.8 }, words },
      { mode: "lines", x: ends, y: ends.map((c) => c ** exponent), line: { color: style.colour, width: 1.6, dash: style.dash }, words },
    ];
  }

  // Of the chosen run, in the chosen unit, or in the first unit that has one.
  function history() {
    const view = Model.views().find((one) => one.run.id === Model.choices.run);
    const chosen = view?.unit?.history?.length ? view.unit : view?.run.units.find((unit) => unit.history?.length);
    Dom.hide("history-section", !chosen);
    if (!chosen) return;
    const moments = chosen.history;
    const whose = Model.alone() ? "" : ` of ${view.name}`;
    Dom.say("history-words", `The forecast${whose} for ${Numbers.amount(moments.at(-1).budget)} ${chosen.name}, as it stood when the curve was known up to each compute.${whatCame(moments, chosen).length ? " The dashed line is what came." : ""} ${signs(moments)}`);
    const y = { title: Model.valueName() };
    const frame = { left: moments[0].compute, right: moments.at(-1).compute };
    const parts = [moments, chosen.points, chosen.name, view.run.id, view.name, Model.valueName(), Style.isDark(), Style.narrow()];
    whenSeen(Dom.at("history"), parts, (place) => Plotly.react(place, [historyTrace(moments, view, chosen), ...whatCame(moments, chosen)], Style.layout({
      x: { title: `${chosen.name} known`, ...Style.ticks("linear", frame) }, y, keep: `${chosen.key} ${view.run.id}`,
    }), quiet()));
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
    Dom.hide("panels-section", !views.length);
    const shown = views.slice(0, MOST_RUNS);
    const left = views.length - shown.length;
    Dom.say("panels-words", left ? `Of the first ${MOST_RUNS} runs switched on; ${left} more are left out.` : "");
    const titles = [...new Set(shown.flatMap((view) => view.run.panels.map((panel) => panel.title)))];
    const box = Dom.at("panels");
    const present = [...box.children].map((child) => child.dataset.title);
    if (present.join("\n") !== titles.join("\n")) box.replaceChildren(...titles.map(panelBox));
    const parts = [...shown.flatMap((view) => [view.run.id, view.name, view.run.panels]), Style.isDark(), Style.narrow()];
    titles.forEach((title, i) => whenSeen(box.children[i].lastChild, parts, (place) => drawPanel(place, title, shown)));
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
    return Plotly.react(place, traces, Style.layout({ x: { title: x, nticks: 6 }, y: { title: y, nticks: 5, rangemode: "tozero" }, keep: title, small: true }), quiet());
  }

  function panelLine(view, line, i) {
    const words = `${Style.escape(view.name)}: ${Style.escape(line.name)}`;
    return {
      type: "scatter", mode: "lines", showlegend: false, x: line.x, y: line.y,
      line: { color: Style.of(view.index).colour, width: 1.5, dash: DASHES[i % DASHES.length] },
      text: words, hovertemplate: "%{text}<br>step %{x:.0f}: %{y:.4~g}<extra></extra>",
    };
  }

  // A chart is drawn when something in it has changed and the reader is near it; else it waits until the reader comes.
  function whenSeen(place, parts, draw) {
    if (!Load.isReady() || !Changed.since(place, ...parts)) return;
    place.redraw = draw;
    place.isStale = true;
    if (place.isNear) renew(place);
    else seen().observe(place);
  }

  function renew(place) {
    place.isStale = false;
    place.redraw(place);
  }

  function seen() {
    watcher ??= new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        target.isNear = isIntersecting;
        if (isIntersecting && target.isStale) renew(target);
      }
    }, { rootMargin: "300px" });
    return watcher;
  }

  // For the printer everything is drawn, also what nobody has scrolled to.
  function drawAll() {
    for (const place of document.querySelectorAll(".chart")) if (place.redraw) renew(place);
  }

  return { straight, history, panels, drawAll, whenSeen, quiet };
})();
