// Colours, shapes and axes of every chart, in the light or dark theme of the moment. Knows no data.
"use strict";

const Style = (() => {
  const settings = JSON.parse(document.getElementById("palette").textContent);
  const known = new Map(); // asking the browser for a colour makes it compute the styles of the whole page
  const isDark = () => document.documentElement.dataset.theme === "dark";
  const css = (name) => remembered(`${isDark()} ${name}`, () => getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  const font = () => remembered("font", () => getComputedStyle(document.body).fontFamily);
  const narrow = () => window.innerWidth < 640;

  function remembered(key, ask) {
    if (!known.has(key)) known.set(key, ask());
    return known.get(key);
  }

  function of(index) {
    const colours = isDark() ? settings.dark : settings.light;
    const round = Math.floor(index / colours.length);
    return {
      colour: colours[index % colours.length], symbol: settings.symbols[index % settings.symbols.length],
      dash: ["solid", "dash", "dot", "dashdot"][round % 4],
    };
  }

  function faint(hex, alpha) {
    const [red, green, blue] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${red},${green},${blue},${alpha})`;
  }

  // plotly reads a little HTML in every label
  const escape = (text, limit = 60) => {
    const cut = text.length > limit ? `${text.slice(0, limit / 2)}...${text.slice(-limit / 2 + 3)}` : text;
    return cut.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  };

  // Ticks in our own words (12k, 1e13), at 1, 2 and 5 where there is room.
  function ticks(axis, frame) {
    if (axis !== "log") return linearTicks(frame.right);
    const decades = Math.log10(frame.right / frame.left);
    const steps = decades <= (narrow() ? 1.6 : 3) ? [1, 2, 5] : [1];
    const [first, last] = [Math.floor(Math.log10(frame.left)) - 3, Math.ceil(Math.log10(frame.right)) + 3];
    const values = [];
    for (let power = first; power <= last; power += 1) values.push(...steps.map((step) => step * 10 ** power));
    return { tickmode: "array", tickvals: values, ticktext: values.map((value) => Numbers.amount(value)) };
  }

  // Evenly spaced from zero to well beyond the right end, so that there are some wherever the reader zooms out to.
  function linearTicks(right) {
    const raw = right / (narrow() ? 4 : 8);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((size) => size * power >= raw);
    const values = Array.from({ length: 80 }, (_, i) => i * step);
    return { tickmode: "array", tickvals: values, ticktext: values.map((value) => Numbers.amount(value, 4)) };
  }

  function layout({ x, y, keep, small = false }) {
    const base = {
      gridcolor: css("--grid"), zeroline: false, linecolor: css("--line"), showline: true, ticks: "",
      tickfont: { color: css("--muted"), size: small ? 11 : 12 }, automargin: true,
    };
    const title = (text) => ({ text: escape(text ?? ""), font: { color: css("--muted"), size: small ? 11 : 13 }, standoff: 8 });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", showlegend: false,
      uirevision: keep, dragmode: narrow() ? false : "zoom",
      margin: small ? { l: 8, r: 8, t: 6, b: 8 } : { l: 10, r: 12, t: 28, b: 10 },
      font: { family: font(), color: css("--ink"), size: 13 },
      hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink"), size: 13 }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--ink") },
      xaxis: { ...base, ...x, title: title(x.title) }, yaxis: { ...base, ...y, title: title(y.title) },
    };
  }

  const ceiling = () => (isDark() ? settings.dark : settings.light)[2];

  // The sign of a run beside its name: its colour and its shape, so that neither alone must tell runs apart.
  function swatch(index) {
    const { colour, symbol } = of(index);
    const shapes = {
      circle: ["circle", { cx: 7, cy: 7, r: 5 }], square: ["rect", { x: 2, y: 2, width: 10, height: 10 }],
      "triangle-up": ["path", { d: "M7 2 12 12H2Z" }], "triangle-down": ["path", { d: "M7 12 12 2H2Z" }],
      cross: ["path", { d: "M5 2h4v3h3v4H9v3H5V9H2V5h3Z" }], x: ["path", { d: "M3 1 7 5l4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4-4-4Z" }],
    };
    const [tag, attributes] = shapes[symbol] ?? shapes.circle;
    return Dom.svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, Dom.svg(tag, { ...attributes, fill: colour }));
  }

  return { of, css, faint, escape, ticks, layout, ceiling, swatch, narrow, isDark, meanings: settings.meanings };
})();
