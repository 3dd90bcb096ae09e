// Elements from text: everything that a file or a log says goes through textContent, never through HTML.
"use strict";

const Dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const at = (id) => document.getElementById(id);

  // el("p", {class: "muted"}, "text", child, ...); null children are left out.
  function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  }

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function fill(id, ...children) {
    at(id).replaceChildren(...children.flat().filter((child) => child !== null));
  }

  // A text, unless it stands there already.
  function say(id, words) {
    if (at(id).textContent !== words) at(id).textContent = words;
  }

  function hide(id, isHidden) {
    if (at(id).hidden !== isHidden) at(id).hidden = isHidden;
  }

  // Elements, unless they would read the same: what the reader has selected, or a voice is reading out, stays.
  function renew(id, ...children) {
    const made = el("div", {}, ...children);
    if (made.textContent !== at(id).textContent) at(id).replaceChildren(...made.childNodes);
  }

  // rows of cells; a cell is a text, an element, {figure: [value, interval]} or {words, span}
  function table(head, rows, { caption = null, tall = false, label = null } = {}) {
    const header = el("thead", {}, el("tr", {}, head.map((words) => el("th", { scope: "col" }, words))));
    const body = el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map(cell))));
    const inner = el("table", {}, caption ? el("caption", {}, caption) : null, header, body);
    const name = label ?? caption ?? "table";
    const box = { class: tall ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": name };
    return el("div", box, inner);
  }

  function cell(content, index) {
    if (content?.figure) {
      const [value, interval] = content.figure;
      return el("td", { class: "figure" }, value, rangeText(interval));
    }
    if (index === 0) return el("th", { scope: "row" }, content);
    if (content?.words) return el("td", { class: "words", colspan: content.span ?? null }, content.words);
    return el("td", {}, content);
  }

  const rangeText = (interval) =>
    interval && interval !== Numbers.UNKNOWN ? el("span", { class: "interval" }, interval) : null;

  const action = (name) => (name ? el("span", { class: "action", "data-action": name }, name) : null);

  return { at, el, svg, fill, say, hide, renew, table, cell, action, rangeText };
})();
