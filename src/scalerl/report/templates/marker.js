// The budget in the large chart: an upright line and every run's forecast there, drawn over the chart by hand. The slider
// moves it many times a second, which would be too often for plotly to draw everything again; so its marks stay and move.
"use strict";

const Marker = (() => {
  const MOST_BARS = 8;
  const marks = new Map(); // name -> element
  let followed = null;

  // Draw again whenever plotly has drawn: zoom, other size, other theme.
  function follow(chart) {
    if (followed !== chart) chart.on("plotly_afterplot", () => draw(chart));
    followed = chart;
    draw(chart);
  }

  function draw(chart) {
    const range = Model.range();
    const { xaxis: x, yaxis: y } = chart._fullLayout ?? {};
    const left = range && x?.d2p ? x._offset + x.d2p(range.budget) : null;
    const inside = left !== null && left >= x._offset - 1 && left <= x._offset + x._length + 1;
    const wanted = inside ? everything(left, y, range.budget) : [];
    const names = new Set(wanted.map(([name]) => name));
    for (const [name, mark] of marks) if (!names.has(name) && marks.delete(name)) mark.remove();
    for (const [name, tag, attributes] of wanted) place(name, tag, attributes);
  }

  // [name, tag, attributes] of every mark, the line first, so that the dots lie over it.
  function everything(left, y, budget) {
    const ready = Model.fitted().filter((view) => view.on);
    const found = ready.map((view) => [view, Model.forecastAt(view, budget)]).filter(([, one]) => !one.passed && one.value !== null);
    const upright = { x1: left, x2: left, y1: y._offset, y2: y._offset + y._length, class: "budget-line", stroke: Style.css("--ink"), "stroke-dasharray": "7 3 1.5 3" };
    return [["line", "line", upright], ...found.flatMap(([view, one]) => mark(left, y, view, one, found.length <= MOST_BARS))];
  }

  function mark(left, y, view, { value, low, high }, withBar) {
    const at = (one) => y._offset + Math.min(Math.max(y.d2p(one), 0), y._length);
    const dot = [`dot ${view.run.id}`, "circle", {
      cx: left, cy: at(value), r: withBar ? 6 : 4, fill: Style.of(view.index).colour, stroke: Style.css("--paper"), "stroke-width": withBar ? 2 : 1,
      class: "budget-dot", "data-value": value,
    }];
    if (!withBar || low === null || high === null) return [dot];
    const ink = { fill: "none", stroke: Style.css("--ink"), "stroke-width": 1.3, class: "budget-bar" };
    return [[`bar ${view.run.id}`, "path", { d: `M${left} ${at(low)}V${at(high)}M${left - 5} ${at(low)}h10M${left - 5} ${at(high)}h10`, ...ink }], dot];
  }

  function place(name, tag, attributes) {
    const known = marks.get(name);
    if (known) {
      for (const [key, value] of Object.entries(attributes)) if (known.getAttribute(key) !== String(value)) known.setAttribute(key, value);
    } else {
      marks.set(name, Dom.svg(tag, attributes));
      Dom.at("marker").append(marks.get(name));
    }
  }

  return { follow, draw };
})();
