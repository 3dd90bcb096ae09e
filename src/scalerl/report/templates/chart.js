// The large chart: points, law, forecast with its band, ceiling, budget. Traces from the model: plotly draws those of a
// few runs, `Layer` those of many. Lines are traces too, not shapes: a trace stays in place when the axis changes from
// log to linear.
"use strict";

const Chart = (() => {
  const MOST_BANDS = 8; // beyond that, bands over bands show nothing
  const MOST_CEILINGS = 4;
  const MOST_MARKERS = 1500; // of plotly's, in the whole chart; what is left out is still in the document
  const MANY = 12; // beyond that, plotly would draw too slowly to follow runs
  const KINDS = { fitted: "used in the fit", before: "before the window, not used", "held out": "held out" };
  const NOTHING = { type: "scatter", mode: "markers", x: [null], y: [null], showlegend: false, hoverinfo: "skip" };
  let made = null;

  // The same object every time, or plotly would begin anew. The picture to download has what lies over the chart, too.
  function config() {
    const download = (chart) => {
      const { width, height } = chart._fullLayout;
      const data = [...chart.data, ...Layer.traces(chart).map(forPlotly)];
      return Plotly.downloadImage({ data, layout: chart.layout }, { format: "svg", filename: "scalerl", width, height });
    };
    made ??= {
      responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", doubleClick: "reset",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
      modeBarButtonsToAdd: [{ name: "download", title: "Download as SVG", icon: Plotly.Icons.camera, click: download }],
    };
    return made;
  }

  function draw() {
    if (!Load.isReady()) return;
    const views = Model.views().filter((view) => view.on && view.unit);
    const ready = views.filter((view) => view.fit);
    const place = Dom.at("chart");
    const budget = Model.choices.axis === "linear" ? Model.range()?.budget : null; // the axis reaches to it
    const shown = [Model.unitName(), Model.valueName(), Model.choices.axis, Style.isDark(), Style.narrow()];
    if (views.length > MANY) {
      const frame = rounded(frameOf(views, ready));
      const lines = targets(ready, frame);
      if (Changed.since("chart", JSON.stringify(frame), lines.length, budget, ...shown)) Plotly.react(place, [NOTHING, ...lines.map(forPlotly)], layout(frame), config());
      Layer.draw(place, views.map((view) => ({ id: view.run.id, parts: [...partsOf(view), ...shown], traces: () => curve(view, ready.length, Infinity) })));
    } else if (Changed.since("chart", ...views.flatMap(partsOf), budget, ...shown)) {
      Layer.clear(place);
      Plotly.react(place, few(views, ready).map(forPlotly), layout(frameOf(views, ready)), config());
    }
    Marker.follow(place);
  }

  const partsOf = (view) => [view.run.id, view.unit.points, view.unit.curve, view.unit.start, view.fit, view.name];

  function few(views, ready) {
    const frame = frameOf(views, ready);
    const most = Math.max(30, Math.floor(MOST_MARKERS / Math.max(views.length, 1)));
    const traces = views.flatMap((view) => curve(view, ready.length, most));
    if (ready.length <= MOST_CEILINGS) traces.push(...ready.flatMap((view) => ceiling(view, frame, ready.length === 1)));
    return [...traces, ...targets(ready, frame)];
  }

  // Only the marker moves, so that dragging the slider stays smooth with many runs.
  function moveBudget() {
    if (!Load.isReady()) return;
    const right = Model.choices.axis === "linear" ? Dom.at("chart").layout.xaxis.range[1] : Infinity;
    const budget = Model.range()?.budget ?? 0;
    if (budget > right) Plotly.relayout(Dom.at("chart"), { "xaxis.range[1]": 1.1 * budget });
    Marker.draw(Dom.at("chart"));
  }

  // A trace of ours for plotly, which reads a little HTML and wants all words beforehand.
  function forPlotly({ words, ...trace }) {
    if (!words) return { type: "scatter", showlegend: false, hoverinfo: "skip", ...trace };
    const customdata = trace.x.map((_, i) => words(i)).map(([name, ...rest]) => [`<b>${Style.escape(name)}</b>`, ...rest.map((line) => Style.escape(line, 90))].join("<br>"));
    return { type: "scatter", showlegend: false, ...trace, customdata, hovertemplate: "%{customdata}<extra></extra>" };
  }

  function curve(view, together, most) {
    const style = Style.of(view.index);
    const past = pick(view, (compute) => view.fit && compute <= view.fit.window.last * (1 + 1e-6));
    const future = pick(view, (compute) => view.fit && compute >= view.fit.window.last * (1 - 1e-6));
    const width = together > MANY ? 1.4 : 2.2;
    const law = line(past.compute, past.law, { color: style.colour, width }, (i) => [view.name, "fitted law", Numbers.number(past.law[i], 4)]);
    const median = line(future.compute, future.median, { color: style.colour, width, dash: "dash" }, (i) => forecastWords(view, future, i));
    const band = view.fit && together <= MOST_BANDS ? [area(future, style.colour)] : [];
    return [...band, ...points(view, style, most), ...(view.fit ? [law, median] : [])];
  }

  function pick(view, wanted) {
    const { curve: all } = view.unit;
    if (!all) return { compute: [], law: [], median: [], low: [], high: [] };
    const keep = all.compute.flatMap((compute, i) => (wanted(compute) ? [i] : []));
    const take = (values) => keep.map((i) => values[i]);
    return { compute: take(all.compute), law: take(all.law), median: take(all.median), low: take(all.low), high: take(all.high) };
  }

  function points(view, style, most) {
    const { compute, value, n, role } = view.unit.points;
    const step = Math.max(1, compute.length / most);
    const kept = Array.from({ length: Math.ceil(compute.length / step) }, (_, i) => Math.floor(i * step));
    const kinds = Object.keys(KINDS).map((kind) => [kind, kept.filter((i) => role[i] === kind)]);
    const traces = kinds.filter(([, indices]) => indices.length).map(([kind, indices]) => ({
      mode: "markers", x: indices.map((i) => compute[i]), y: indices.map((i) => value[i]), marker: marker(kind, style),
      words: (at) => pointWords(view, compute[indices[at]], value[indices[at]], n?.[indices[at]], KINDS[kind]),
    }));
    const start = view.unit.start;
    if (start && Model.choices.axis === "linear") traces.push(startPoint(view, style, start));
    return traces;
  }

  function marker(kind, style) {
    if (kind === "held out") return { symbol: "diamond-open", size: 8, color: style.colour, line: { width: 1.6 } };
    return { symbol: style.symbol, size: 6.5, color: style.colour, opacity: kind === "before" ? 0.3 : 0.85 };
  }

  function startPoint(view, style, start) {
    return {
      mode: "markers", x: [0], y: [start.value], marker: { symbol: "star", size: 9, color: style.colour },
      words: () => pointWords(view, 0, start.value, start.n, "before training"),
    };
  }

  // What hovering says, line by line, as text.
  function pointWords(view, compute, value, n, kind) {
    const lines = [view.name, `${Model.valueName()} ${Numbers.number(value, 4)}`, `${Numbers.amount(compute, 4)} ${view.unit.name}`, kind];
    return n ? [...lines, `${Numbers.amount(n)} answers`] : lines;
  }

  function forecastWords(view, future, i) {
    const [center, interval] = Numbers.ranged(future.median[i], future.low[i], future.high[i]);
    const ends = interval === Numbers.UNKNOWN ? [] : [`${Numbers.percent(view.fit.level)} interval ${interval}`];
    return [view.name, `forecast ${center}`, ...ends, `at ${Numbers.amount(future.compute[i])} ${view.unit.name}`];
  }

  function area(future, colour) {
    const keep = future.compute.flatMap((_, i) => (future.low[i] === null || future.high[i] === null ? [] : [i]));
    const there = keep.map((i) => future.compute[i]);
    return {
      mode: "lines", fill: "toself", line: { width: 0 }, fillcolor: Style.faint(colour, 0.17), x: [...there, ...there.slice().reverse()],
      y: [...keep.map((i) => future.low[i]), ...keep.reverse().map((i) => future.high[i])],
    };
  }

  const line = (x, y, style, words = null) => ({ mode: "lines", x, y, line: style, words });

  function ceiling(view, frame, alone) {
    const { ceiling: found, identified } = view.fit;
    if (!found || !identified) return [];
    const style = { color: alone ? Style.ceiling() : Style.of(view.index).colour, width: 1.4, dash: "dot" };
    const ends = [frame.left, frame.right];
    const traces = [line(ends, [found.value, found.value], style, () => [view.name, "ceiling", Numbers.number(found.value, 4)])];
    if (!alone || found.low === null || found.high === null) return traces;
    const band = { compute: ends, low: [found.low, found.low], high: [found.high, found.high] };
    return [{ ...area(band, Style.ceiling()), fillcolor: Style.faint(Style.ceiling(), 0.1) }, ...traces];
  }

  function targets(ready, frame) {
    const wanted = [...new Set(ready.flatMap((view) => view.fit.targets.map((target) => target.target)))];
    const style = { color: Style.css("--muted"), width: 1.2, dash: "longdash" };
    return wanted.map((value) => line([frame.left, frame.right], [value, value], style));
  }

  // The part of the plane that holds everything worth seeing.
  function frameOf(views, ready) {
    const computes = views.flatMap((view) => [view.unit.points.compute[0], view.unit.points.compute.at(-1)]).filter((c) => c > 0);
    const ends = ready.map((view) => view.unit.curve.compute.at(-1));
    const values = views.flatMap((view) => extremes(view.unit.points.value));
    for (const view of ready) {
      const { median, low, high } = view.unit.curve;
      values.push(...extremes(median));
      if (ready.length <= MOST_BANDS) values.push(...extremes(low), ...extremes(high));
      if (view.fit.identified && ready.length === 1) values.push(view.fit.ceiling.low ?? view.fit.ceiling.value, view.fit.ceiling.high ?? view.fit.ceiling.value);
      values.push(...view.fit.targets.map((target) => target.target));
      if (view.unit.start && Model.choices.axis === "linear") values.push(view.unit.start.value);
    }
    if (!values.length) return { left: 1, right: 10, bottom: 0, top: 1, last: 10 };
    const [bottom, top] = extremes(values);
    const margin = 0.06 * (top - bottom) || 0.05;
    const left = Math.min(...computes), right = Math.max(...computes, ...ends);
    const stretch = (right / left) ** 0.02;
    return { left: left / stretch, right: right * stretch, bottom: bottom - margin, top: top + margin, last: Math.max(...computes) };
  }

  const ends = new WeakMap(); // of long lists that were looked through already

  // The least and the largest of the known values; none for none.
  function extremes(values) {
    if (!ends.has(values)) {
      const known = values.filter((value) => value !== null);
      const found = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
      ends.set(values, known.length ? found : []);
    }
    return ends.get(values);
  }

  // Outwards to steps that a new point seldom passes: moving the axes means drawing every run again.
  function rounded({ left, right, bottom, top, last }) {
    const up = (value) => 10 ** (Math.ceil(20 * Math.log10(value)) / 20);
    const step = 10 ** Math.floor(Math.log10(top - bottom)) / 10;
    return { left: 1 / up(1 / left), right: up(right), bottom: step * Math.floor(bottom / step), top: step * Math.ceil(top / step), last: up(last) };
  }

  function layout(frame) {
    const { axis, unit } = Model.choices;
    const logs = [Math.log10(frame.left), Math.log10(frame.right)];
    const budget = Model.range()?.budget ?? frame.last;
    const x = axis === "log" ? { type: "log", range: logs } : { type: "linear", range: [-0.01 * frame.last, 1.1 * Math.max(2 * frame.last, budget)] };
    return Style.layout({
      x: { ...x, ...Style.ticks(axis, axis === "log" ? frame : { right: 2 * frame.last }), title: Model.unitName() }, y: { range: [frame.bottom, frame.top], title: Model.valueName() },
      keep: `${unit} ${axis}`,
    });
  }

  return { draw, moveBudget, config, forPlotly, rounded, extremes, NOTHING, MANY, MOST_BANDS, MOST_CEILINGS };
})();
