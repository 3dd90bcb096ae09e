// Downstream sets and parts of the chosen run: a table, each set against the held-out value, and each curve with its law.
"use strict";

const Sets = (() => {
  const { el, fill, table } = Dom;

  function draw() {
    const view = Model.views().find((one) => one.run.id === Model.choices.run);
    const sets = view?.run.sets ?? [];
    Dom.hide("sets-section", !sets.length);
    if (!sets.length) return;
    if (Changed.since("sets", view.run.id, sets)) {
      Dom.say("sets-words", words(sets));
      fill("sets-table", table(["Problems", "First", "Last", "pass@k", "Own ceiling", "Rank correlation"], sets.map(row), { label: "Downstream sets and parts" }));
      fill("sets-notes", ...sets.flatMap((one) => one.missing.map((line) => el("li", {}, `${one.name}: ${line}`))));
      Dom.at("sets-panels").replaceChildren(...panels(sets).map(({ title }) => box(title)));
    }
    panels(sets).forEach((panel, i) => {
      const place = Dom.at("sets-panels").children[i].lastChild;
      MoreCharts.whenSeen(place, [view.run.id, sets, Style.isDark(), Style.narrow()], () => panel.draw(place, view));
    });
  }

  function words(sets) {
    const kinds = new Set(sets.map((one) => one.kind));
    const said = [];
    if (kinds.has("part")) said.push("Parts are those of the mixture that is trained on, each on its own held-out problems.");
    if (kinds.has("downstream")) said.push("Downstream sets come from elsewhere and are never trained on. Spearman's rank correlation is over the evaluations of this run, which follow one another: its interval takes them for independent, and is too narrow.");
    return said.join(" ");
  }

  function row(one) {
    const score = (found) => (found ? { figure: [Numbers.number(found.value), found.error === null ? null : `± ${Numbers.number(found.error, 2)}`] } : Numbers.UNKNOWN);
    const { law, correlation } = one;
    const ceiling = law?.ceiling && law.identified ? { figure: Numbers.ranged(law.ceiling.value, law.ceiling.low, law.ceiling.high) } : "not identified";
    const name = el("span", {}, one.kind === "part" ? `part ${one.name}` : one.name, one.k === null ? null : [el("br"), el("span", { class: "interval" }, `mean@${one.k}`)]);
    return [name, score(one.first), score(one.last), score(one.pass_at_k), law ? ceiling : "no law", rank(one, correlation)];
  }

  function rank(one, found) {
    if (!found) return one.kind === "part" ? "" : Numbers.UNKNOWN;
    const [value, interval] = Numbers.ranged(found.value, found.low, found.high);
    const count = `${one.evaluations} evaluations`;
    return { figure: [value, interval === Numbers.UNKNOWN ? count : `${interval}, ${count}`] };
  }

  function panels(sets) {
    const against = sets.filter((one) => one.kind === "downstream").map((one) => ({ title: `${one.name} against held-out`, draw: (place, view) => drawAgainst(place, view, one) }));
    const curves = sets.filter((one) => one.curve).map((one) => ({ title: `${one.name} against compute`, draw: (place, view) => drawCurve(place, view, one) }));
    return [...against, ...curves];
  }

  function box(title) {
    const chart = el("div", { class: "chart", role: "img", "aria-label": title });
    return el("figure", { class: "panel" }, el("h3", {}, title), chart);
  }

  // The policy versions in their order; pale at the beginning of the run.
  function drawAgainst(place, view, one) {
    const { step, value, error, held_out: heldOut, held_out_error: heldOutError } = one.against;
    const { colour } = Style.of(view.index);
    const bars = (found) => ({ type: "data", array: found.map((bar) => bar ?? 0), color: Style.faint(colour, 0.35), thickness: 1, width: 0 });
    const shade = step.map((_, i) => Style.faint(colour, 0.25 + (0.75 * (i + 1)) / step.length));
    const trace = {
      type: "scatter", mode: "lines+markers", x: heldOut, y: value, error_x: bars(heldOutError), error_y: bars(error),
      line: { color: Style.faint(colour, 0.25), width: 1 }, marker: { color: shade, size: 7 },
      text: step.map((at) => `step ${at.toLocaleString("en")}`),
      hovertemplate: "%{text}<br>held-out %{x:.3f}<br>" + Style.escape(one.name) + " %{y:.3f}<extra></extra>",
    };
    const layout = Style.layout({ x: { title: "held-out pass rate", nticks: 5 }, y: { title: one.name, nticks: 5 }, keep: one.metric, small: true });
    return Plotly.react(place, [trace], layout, MoreCharts.quiet());
  }

  function drawCurve(place, view, one) {
    const { unit, compute, value, law_compute: lawCompute, law } = one.curve;
    const { colour } = Style.of(view.index);
    const points = { type: "scatter", mode: "markers", x: compute, y: value, marker: { color: colour, size: 5, opacity: 0.8 }, hovertemplate: "%{y:.3f}<extra></extra>" };
    const line = { type: "scatter", mode: "lines", x: lawCompute, y: law, line: { color: colour, width: 1.5 }, hoverinfo: "skip" };
    const frame = { left: lawCompute[0], right: lawCompute.at(-1) };
    const layout = Style.layout({ x: { type: "log", title: unit, ...Style.ticks("log", frame) }, y: { title: one.name, nticks: 5 }, keep: one.metric, small: true });
    return Plotly.react(place, [points, line], layout, MoreCharts.quiet());
  }

  return { draw };
})();
