// Curves of many runs, drawn by hand over plotly's axes: some paths for each run instead of an element for each point.
// A run that has not changed is not touched. Takes traces as plotly does (markers and lines, with `words(i)` to show at
// a point), leaves out the points that no pixel could show, and tells what is under the pointer.
"use strict";

const Layer = (() => {
  const cellOf = (runs) => Math.max(5, 2 * Math.sqrt(runs)); // px: of a run's points in one square of this size, the last is drawn
  const REACH_PX = 14; // from the pointer to what it points at
  const SHAPES = {
    circle: (r) => `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
    square: (r) => `m${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    diamond: (r) => `m0 ${-1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
    "triangle-up": (r) => `m0 ${-1.15 * r}l${1.15 * r} ${2 * r}h${-2.3 * r}z`,
    "triangle-down": (r) => `m0 ${1.15 * r}l${1.15 * r} ${-2 * r}h${-2.3 * r}z`,
    cross: (r) => `m${-0.4 * r} ${-r}h${0.8 * r}v${0.6 * r}h${0.6 * r}v${0.8 * r}h${-0.6 * r}v${0.6 * r}h${-0.8 * r}v${-0.6 * r}h${-0.6 * r}v${-0.8 * r}h${0.6 * r}z`,
    x: (r) => `m${-r} ${-0.5 * r}l${0.5 * r} ${-0.5 * r}l${0.5 * r} ${0.5 * r}l${0.5 * r} ${-0.5 * r}l${0.5 * r} ${0.5 * r}l${-0.5 * r} ${0.5 * r}l${0.5 * r} ${0.5 * r}l${-0.5 * r} ${0.5 * r}l${-0.5 * r} ${-0.5 * r}l${-0.5 * r} ${0.5 * r}l${-0.5 * r} ${-0.5 * r}l${0.5 * r} ${-0.5 * r}z`,
    star: (r) => `m0 ${-1.4 * r}l${0.4 * r} ${r}h${r}l${-0.8 * r} ${0.7 * r}l${0.3 * r} ${r}l${-0.9 * r} ${-0.6 * r}l${-0.9 * r} ${0.6 * r}l${0.3 * r} ${-r}l${-0.8 * r} ${-0.7 * r}h${r}z`,
  };
  const DASHES = { dash: "9 6", dot: "2 4", dashdot: "9 4 2 4", longdash: "14 6" };
  const layers = new WeakMap(); // chart -> what lies over it

  // `groups`: {id, parts, traces()} for each run, the uppermost last. Traces are asked for when some part has changed.
  function draw(chart, groups) {
    const layer = layers.get(chart) ?? begin(chart);
    const wanted = new Set(groups.map((group) => group.id));
    for (const [id, known] of layer.known) if (!wanted.has(id)) known.node.remove();
    layer.known = new Map(groups.map((group, i) => [group.id, renewed(layer, group, i)]));
    paint(layer);
  }

  const clear = (chart) => { if (layers.has(chart)) draw(chart, []); };

  // What is drawn at the moment, for a picture of it.
  const traces = (chart) => [...(layers.get(chart)?.known.values() ?? [])].flatMap((known) => known.drawn ?? []);

  function begin(chart) {
    const inner = Dom.svg("svg", {});
    const label = Dom.el("div", { class: "hover", hidden: "" });
    const svg = Dom.svg("svg", { class: "layer", "aria-hidden": "true" }, inner);
    const layer = { chart, inner, label, known: new Map(), axes: "", pointer: null };
    chart.after(svg, label);
    chart.on("plotly_afterplot", () => paint(layer)); // zoom, other size
    chart.addEventListener("pointermove", (event) => point(layer, event));
    chart.addEventListener("pointerleave", () => { layer.pointer = null; label.hidden = true; });
    layers.set(chart, layer);
    return layer;
  }

  function renewed(layer, { id, parts, traces: make }, at) {
    const known = layer.known.get(id) ?? { node: Dom.svg("g", { "data-run": id }), parts: [] };
    if (layer.inner.children[at] !== known.node) layer.inner.insertBefore(known.node, layer.inner.children[at] ?? null);
    const same = known.parts.length === parts.length && parts.every((part, i) => part === known.parts[i]);
    return same ? known : { node: known.node, parts, traces: make(), stale: true };
  }

  // What is stale, or everything when the axes have moved.
  function paint(layer) {
    const { xaxis: x, yaxis: y } = layer.chart._fullLayout ?? {};
    if (!x?.d2p) return;
    const cell = cellOf(layer.known.size);
    const axes = JSON.stringify([cell, ...[x, y].map((axis) => [axis.type, axis.range, axis._offset, axis._length])]);
    if (axes !== layer.axes) {
      for (const [name, value] of Object.entries({ x: x._offset, y: y._offset, width: x._length, height: y._length })) layer.inner.setAttribute(name, value);
    }
    for (const known of layer.known.values()) if (known.stale || axes !== layer.axes) trace(known, x, y, cell);
    layer.axes = axes;
  }

  function trace(known, x, y, cell) {
    known.hits = [];
    known.drawn = [];
    known.stale = false;
    known.node.replaceChildren(...known.traces.map((one) => path(one, known, x, y, cell)));
  }

  function path(one, known, x, y, cell) {
    const places = one.x.map((value, i) => [x.d2p(value), y.d2p(one.y[i]), i]).filter(([left, top]) => Number.isFinite(left) && Number.isFinite(top));
    const shown = one.mode === "markers" ? thinned(places, x._length, y._length, cell) : places;
    known.drawn.push({ ...one, words: null, x: shown.map(([, , i]) => one.x[i]), y: shown.map(([, , i]) => one.y[i]) });
    if (one.words) for (const [left, top, i] of shown) known.hits.push([left, top, one, i]);
    return one.mode === "markers" ? marks(one.marker, shown) : line(one.line, shown);
  }

  // Points outside cannot be seen; of several in one place, only the last can.
  function thinned(places, width, height, cell) {
    const cells = new Map();
    for (const place of places) {
      const [left, top] = place;
      if (left < -9 || top < -9 || left > width + 9 || top > height + 9) continue;
      cells.set(Math.floor(left / cell) * 10000 + Math.floor(top / cell), place);
    }
    return [...cells.values()];
  }

  const short = (value) => Math.round(10 * value) / 10;

  function marks(marker, places) {
    const isOpen = marker.symbol.endsWith("-open");
    const shape = (SHAPES[marker.symbol.replace("-open", "")] ?? SHAPES.circle)(marker.size / 2);
    const ink = isOpen ? { fill: "none", stroke: marker.color, "stroke-width": marker.line?.width ?? 1 } : { fill: marker.color };
    return Dom.svg("path", { ...ink, opacity: marker.opacity ?? 1, d: places.map(([left, top]) => `M${short(left)} ${short(top)}${shape}`).join("") });
  }

  function line({ color, width, dash }, places) {
    const d = places.map(([left, top], i) => `${i ? "L" : "M"}${short(left)} ${short(top)}`).join("");
    return Dom.svg("path", { d, fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": DASHES[dash] ?? "none" });
  }

  // Once a frame at most.
  function point(layer, event) {
    const waiting = layer.pointer !== null;
    layer.pointer = event;
    if (!waiting) requestAnimationFrame(() => { if (layer.pointer) show(layer, layer.pointer); layer.pointer = null; });
  }

  function show({ chart, known, label }, event) {
    const { xaxis: x, yaxis: y } = chart._fullLayout;
    const box = chart.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left - x._offset, event.clientY - box.top - y._offset];
    let best = null, least = REACH_PX ** 2;
    for (const { hits } of known.values()) {
      for (const hit of hits ?? []) {
        const far = (hit[0] - left) ** 2 + (hit[1] - top) ** 2;
        if (far < least) [best, least] = [hit, far];
      }
    }
    label.hidden = !best;
    if (best) say(label, best, x, y);
  }

  function say(label, [left, top, one, i], x, y) {
    const [name, ...rest] = one.words(i);
    label.replaceChildren(Dom.el("strong", {}, name), ...rest.map((words) => Dom.el("div", {}, words)));
    const right = left > 0.6 * x._length;
    label.style.left = `${x._offset + left + (right ? -12 : 12)}px`;
    label.style.top = `${y._offset + top}px`;
    label.style.transform = `translate(${right ? "-100%" : "0"}, -50%)`;
  }

  return { draw, clear, traces };
})();
