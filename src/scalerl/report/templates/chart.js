// The large chart: points, law, forecast with its band, ceiling, budget. Traces for plotly, from the model.
// Lines are traces too, not shapes: a trace stays in place when the axis changes from log to linear.
"use strict";

const Chart = (() => {
  const MOST_BANDS = 8; // beyond that, bands over bands show nothing
  const MOST_CEILINGS = 4;
  const MOST_MARKERS = 1500; // in the whole chart; what is left out is still in the document
  const CONFIG = {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: { format: "svg" },
  };
  const KINDS = { fitted: "used in the fit", before: "before the window, not used", "held out": "held out" };
  const MANY = 12; // beyond that, runs of one colour share their traces: plotly's time goes by traces

  function draw() {
    if (!Load.isReady()) return;
    const views = Model.views().filter((view) => view.on && view.unit);
    const ready = views.filter((view) => view.fit);
    const frame = frameOf(views, ready);
    const most = Math.max(30, Math.floor(MOST_MARKERS / Math.max(views.length, 1)));
    const curves = views.flatMap((view) => curve(view, ready.length, most));
    const traces = views.length > MANY ? merged(curves) : curves;
    if (ready.length <= MOST_CEILINGS) traces.push(...ready.flatMap((view) => ceiling(view, frame, ready.length === 1)));
    traces.push(...targets(ready, frame));
    Plotly.react(Dom.at("chart"), traces, layout(frame), CONFIG);
    Marker.follow(Dom.at("chart"));
  }

  // Only the marker moves, so that dragging the slider stays smooth with many runs.
  function moveBudget() {
    if (!Load.isReady()) return;
    const right = Model.choices.axis === "linear" ? Dom.at("chart").layout.xaxis.range[1] : Infinity;
    const budget = Model.range()?.budget ?? 0;
    if (budget > right) Plotly.relayout(Dom.at("chart"), { "xaxis.range[1]": 1.1 * budget });
    Marker.draw(Dom.at("chart"));
  }

  // Traces of the same kind and colour as one, with gaps between the runs.
  function merged(traces) {
    const groups = new Map();
    for (const trace of traces) {
      const key = JSON.stringify([trace.mode, trace.line, trace.marker?.color, trace.marker?.size, trace.marker?.opacity]);
      if (!groups.has(key)) groups.set(key, { ...trace, x: [], y: [], text: [], marker: { ...trace.marker, symbol: [] }, hovertemplate: "%{text}<extra></extra>" });
      const group = groups.get(key);
      group.x.push(...trace.x, null);
      group.y.push(...trace.y, null);
      group.text.push(...(trace.customdata ?? trace.x.map(() => trace.text ?? "")), "");
      group.marker.symbol.push(...trace.x.map(() => trace.marker?.symbol ?? "circle"), "circle");
      delete group.customdata;
    }
    return [...groups.values()];
  }

  function curve(view, together, most) {
    const style = Style.of(view.index);
    const past = pick(view, (compute) => view.fit && compute <= view.fit.window.last * (1 + 1e-6));
    const future = pick(view, (compute) => view.fit && compute >= view.fit.window.last * (1 - 1e-6));
    const law = line(past.compute, past.law, { color: style.colour, width: 2.2 }, view, "fitted law");
    const median = line(future.compute, future.median, { color: style.colour, width: 2.2, dash: "dash" }, view, null);
    median.customdata = future.compute.map((compute, i) => forecastWords(view, compute, future, i));
    median.hovertemplate = "%{customdata}<extra></extra>";
    const band = view.fit && together <= MOST_BANDS ? [area(future, style.colour)] : [];
    return [...band, ...points(view, style, most), ...(view.fit ? [law, median] : [])];
  }

  function pick(view, wanted) {
    const { curve: all } = view.unit;
    if (!all) return { compute: [], law: [], median: [], low: [], high: [] };
    const every = Model.views().length > MANY ? 3 : 1;
    const inside = all.compute.flatMap((compute, i) => (wanted(compute) ? [i] : []));
    const keep = inside.filter((_, i) => i % every === 0 || i === inside.length - 1);
    const take = (values) => keep.map((i) => values[i]);
    return { compute: take(all.compute), law: take(all.law), median: take(all.median), low: take(all.low), high: take(all.high) };
  }

  function points(view, style, most) {
    const { compute, value, n, role } = view.unit.points;
    const step = Math.max(1, compute.length / most);
    const kept = Array.from({ length: Math.ceil(compute.length / step) }, (_, i) => Math.floor(i * step));
    const kinds = Object.keys(KINDS).map((kind) => [kind, kept.filter((i) => role[i] === kind)]);
    const traces = kinds.filter(([, indices]) => indices.length).map(([kind, indices]) => ({
      type: "scatter", mode: "markers", showlegend: false,
      x: indices.map((i) => compute[i]), y: indices.map((i) => value[i]), marker: marker(kind, style),
      customdata: indices.map((i) => pointWords(view, compute[i], value[i], n?.[i], KINDS[kind])),
      hovertemplate: "%{customdata}<extra></extra>",
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
      type: "scatter", mode: "markers", showlegend: false, x: [0], y: [start.value],
      marker: { symbol: "star", size: 9, color: style.colour },
      customdata: [pointWords(view, 0, start.value, start.n, "before training")],
      hovertemplate: "%{customdata}<extra></extra>",
    };
  }

  function pointWords(view, compute, value, n, kind) {
    const lines = [
      `<b>${Style.escape(view.name)}</b>`, `${Style.escape(Model.valueName())} ${Numbers.number(value, 4)}`,
      `${Numbers.amount(compute, 4)} ${Style.escape(view.unit.name)}`, kind,
    ];
    if (n) lines.push(`${Numbers.amount(n)} answers`);
    return lines.join("<br>");
  }

  function forecastWords(view, compute, future, i) {
    const [center, interval] = Numbers.ranged(future.median[i], future.low[i], future.high[i]);
    const level = Numbers.percent(view.fit.level);
    const ends = interval === Numbers.UNKNOWN ? "" : `<br>${level} interval ${interval}`;
    return `<b>${Style.escape(view.name)}</b><br>forecast ${center}${ends}<br>at ${Numbers.amount(compute)} ${Style.escape(view.unit.name)}`;
  }

  function area(future, colour) {
    const keep = future.compute.flatMap((_, i) => (future.low[i] === null || future.high[i] === null ? [] : [i]));
    const there = keep.map((i) => future.compute[i]);
    return {
      type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip", fill: "toself", line: { width: 0 },
      fillcolor: Style.faint(colour, 0.17), x: [...there, ...there.slice().reverse()],
      y: [...keep.map((i) => future.low[i]), ...keep.reverse().map((i) => future.high[i])],
    };
  }

  function line(x, y, style, view, words) {
    const text = words ? `<b>${Style.escape(view.name)}</b><br>${words}` : "";
    const hover = words ? { text, hovertemplate: "%{text}<br>%{y:.4~g}<extra></extra>" } : { hoverinfo: "skip" };
    return { type: "scatter", mode: "lines", showlegend: false, x, y, line: style, ...hover };
  }

  function ceiling(view, frame, alone) {
    const { ceiling: found, identified } = view.fit;
    if (!found || !identified) return [];
    const style = { color: alone ? Style.ceiling() : Style.of(view.index).colour, width: 1.4, dash: "dot" };
    const ends = [frame.left, frame.right];
    const traces = [line(ends, [found.value, found.value], style, view, "ceiling")];
    if (!alone || found.low === null || found.high === null) return traces;
    const band = { compute: ends, low: [found.low, found.low], high: [found.high, found.high] };
    return [{ ...area(band, Style.ceiling()), fillcolor: Style.faint(Style.ceiling(), 0.1) }, ...traces];
  }

  function targets(ready, frame) {
    const wanted = [...new Set(ready.flatMap((view) => view.fit.targets.map((target) => target.target)))];
    const style = { color: Style.css("--muted"), width: 1.2, dash: "longdash" };
    return wanted.map((value) => line([frame.left, frame.right], [value, value], style, { name: "target" }, ""));
  }

  // The part of the plane that holds everything worth seeing.
  function frameOf(views, ready) {
    const computes = views.flatMap((view) => [view.unit.points.compute[0], view.unit.points.compute.at(-1)]).filter((c) => c > 0);
    const ends = ready.map((view) => view.unit.curve.compute.at(-1));
    const values = views.flatMap((view) => view.unit.points.value);
    for (const view of ready) {
      values.push(...view.unit.curve.median.filter((v) => v !== null));
      if (ready.length <= MOST_BANDS) values.push(...[...view.unit.curve.low, ...view.unit.curve.high].filter((v) => v !== null));
      if (view.fit.identified && ready.length === 1) values.push(view.fit.ceiling.low ?? view.fit.ceiling.value, view.fit.ceiling.high ?? view.fit.ceiling.value);
      values.push(...view.fit.targets.map((target) => target.target));
      if (view.unit.start && Model.choices.axis === "linear") values.push(view.unit.start.value);
    }
    const [bottom, top] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
    const margin = 0.06 * (top - bottom) || 0.05;
    const left = Math.min(...computes), right = Math.max(...computes, ...ends);
    const stretch = (right / left) ** 0.02;
    return values.length
      ? { left: left / stretch, right: right * stretch, bottom: bottom - margin, top: top + margin, last: Math.max(...computes) }
      : { left: 1, right: 10, bottom: 0, top: 1, last: 10 };
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

  return { draw, moveBudget, CONFIG, MOST_BANDS, MOST_CEILINGS };
})();
