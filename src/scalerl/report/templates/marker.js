// The budget in the large chart: an upright line and every run's forecast there, drawn over the chart by hand. The slider
// moves it many times a second, which would be too often for plotly to draw everything again.
"use strict";

const Marker = (() => {
  const MOST_BARS = 8;
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
    if (!range || !x?.d2p) return Dom.at("marker").replaceChildren();
    const left = x._offset + x.d2p(range.budget);
    const inside = left >= x._offset - 1 && left <= x._offset + x._length + 1;
    const ready = Model.fitted().filter((view) => view.on);
    const found = ready.map((view) => [view, Model.forecastAt(view, range.budget)]).filter(([, one]) => !one.passed && one.value !== null);
    const marks = found.flatMap(([view, one]) => mark(left, y, view, one, found.length <= MOST_BARS));
    const upright = { x1: left, x2: left, y1: y._offset, y2: y._offset + y._length, class: "budget-line", stroke: Style.css("--ink"), "stroke-dasharray": "7 3 1.5 3" };
    return Dom.at("marker").replaceChildren(...(inside ? [Dom.svg("line", upright), ...marks] : []));
  }

  function mark(left, y, view, { value, low, high }, withBar) {
    const at = (one) => y._offset + Math.min(Math.max(y.d2p(one), 0), y._length);
    const dot = Dom.svg("circle", {
      cx: left, cy: at(value), r: 6, fill: Style.of(view.index).colour, stroke: Style.css("--paper"), "stroke-width": 2,
      class: "budget-dot", "data-value": value,
    });
    if (!withBar || low === null || high === null) return [dot];
    const ink = { stroke: Style.css("--ink"), "stroke-width": 1.3 };
    const bar = Dom.svg("path", { d: `M${left} ${at(low)}V${at(high)}M${left - 5} ${at(low)}h10M${left - 5} ${at(high)}h10`, fill: "none", ...ink, class: "budget-bar" });
    return [bar, dot];
  }

  return { follow, draw };
})();
