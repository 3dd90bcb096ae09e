// What the page knows: the document, the reader's choices, and questions that can be asked of them. Draws nothing.
"use strict";

const Model = (() => {
  let whole = null;
  const order = new Map(); // run id -> index of its colour; a run keeps its colour for as long as the page is open
  let kept = {}; // the views of the moment
  const choices = { unit: null, axis: "log", budgets: {}, hidden: new Set(), run: null };

  function take(document) {
    whole = document;
    for (const run of whole.runs) if (!order.has(run.id)) order.set(run.id, order.size);
    const keys = units().map((unit) => unit.key);
    if (!keys.includes(choices.unit)) choices.unit = keys[0] ?? null;
    if (!whole.runs.some((run) => run.id === choices.run)) choices.run = whole.runs[0]?.id ?? null;
  }

  // Takes what changed into the runs that there are, in their place; new ones go to the end. What a message does not
  // name stays the same object, so that whoever draws can tell by identity what is new.
  function merge(partial) {
    const runs = whole.runs.filter((run) => !(partial.removed ?? []).includes(run.id));
    for (const run of partial.runs ?? []) {
      const at = runs.findIndex((old) => old.id === run.id);
      if (at >= 0) runs[at] = joined(runs[at], run);
      else runs.push(run);
    }
    const comparison = "comparison" in partial ? partial.comparison : whole.comparison;
    take({ ...whole, runs, comparison });
  }

  // A message names every unit of a run, of each only what changed.
  function joined(old, fresh) {
    const before = new Map(old.units.map((unit) => [unit.key, unit]));
    const units = fresh.units?.map((unit) => (Object.keys(unit).length > 1 || !before.has(unit.key) ? { ...before.get(unit.key), ...unit } : before.get(unit.key)));
    return { ...old, ...fresh, units: units ?? old.units };
  }

  // Every unit that some run is measured in, the first run's first.
  function units() {
    const found = new Map();
    for (const run of whole.runs) for (const unit of run.units) if (!found.has(unit.key)) found.set(unit.key, unit);
    return [...found.values()];
  }

  // One entry for each run: its colour's index, its part in the chosen unit (null when not measured in it). Asked for
  // many times in one drawing, so the answer is kept.
  function views() {
    const key = [whole, choices.unit, [...choices.hidden].join("\n")];
    if (kept.key?.every((part, i) => part === key[i])) return kept.views;
    const names = shortNames(whole.runs.map((run) => run.name));
    const found = whole.runs.map((run, at) => {
      const unit = run.units.find((one) => one.key === choices.unit) ?? null;
      const fit = run.problem ? null : (unit?.fit ?? null);
      return { run, unit, fit, name: names[at], index: order.get(run.id), on: !choices.hidden.has(run.id) };
    });
    kept = { key, views: found, fitted: found.filter((view) => view.fit) };
    return found;
  }

  // Folders that all names share, in front or behind, are left out.
  function shortNames(names) {
    const parts = names.map((name) => name.split("/"));
    if (parts.length < 2) return names;
    const shortest = Math.min(...parts.map((part) => part.length)) - 1;
    const differ = (pick) => new Set(parts.map(pick)).size > 1;
    let front = 0;
    while (front < shortest && !differ((part) => part[front])) front += 1;
    let back = 0;
    while (back < shortest - front && !differ((part) => part[part.length - 1 - back])) back += 1;
    return parts.map((part) => part.slice(front, part.length - back).join("/"));
  }

  // The last early sign of trouble, if there was one.
  const alarm = (run) => run.events?.findLast((one) => ["alarm", "skipped_step", "unjudged"].includes(one.name)) ?? null;
  const fitted = () => (views(), kept.fitted);
  const unitName = () => units().find((unit) => unit.key === choices.unit)?.name ?? "compute";
  const valueName = () => fitted()[0]?.fit.y ?? "value";
  const alone = () => whole.runs.length === 1;

  // Where the slider may go, and where it stands.
  function range() {
    const ready = fitted();
    if (!ready.length) return null;
    const low = Math.min(...ready.map((view) => view.fit.window.last));
    const high = Math.max(...ready.map((view) => view.unit.curve.compute.at(-1)));
    const first = Math.max(...ready.map((view) => view.unit.budget ?? 0));
    const budget = choices.budgets[choices.unit] ?? first;
    return { low, high, first, budget: Math.min(Math.max(budget, low), high) };
  }

  // The forecast of one run at a budget; before its last fitted point there is only the law.
  function forecastAt(view, budget) {
    const { curve } = view.unit;
    const exact = view.fit.forecast.find((one) => one.compute === budget);
    const spot = place(curve.compute, budget);
    const read = (name) => between(curve[name], spot);
    if (budget < view.fit.window.last) return { value: read("law"), low: null, high: null, passed: true };
    const chance = read("probability");
    const decided = exact && view.fit.decision.budget === budget;
    return {
      value: exact ? exact.value : read("median"),
      low: exact ? exact.low : read("low"),
      high: exact ? exact.high : read("high"),
      probability: decided ? view.fit.decision.probability : chance,
      action: decided ? view.fit.decision.action : curve.action[spot.share < 0.5 ? spot.left : spot.right],
      passed: false,
    };
  }

  function place(computes, budget) {
    const right = computes.findIndex((compute) => compute >= budget);
    if (right <= 0) return right === 0 ? { left: 0, right: 0, share: 0 } : last(computes);
    const [a, b] = [computes[right - 1], computes[right]];
    return { left: right - 1, right, share: Math.log(budget / a) / Math.log(b / a) };
  }

  const last = (values) => ({ left: values.length - 1, right: values.length - 1, share: 0 });

  function between(values, { left, right, share }) {
    const [a, b] = [values[left] ?? values[right], values[right]];
    return a === null || b === null || a === undefined || b === undefined ? null : a + (b - a) * share;
  }

  // The runs, best first where they could be compared; those whose ceiling is not identified come after the others.
  function ranked() {
    const ranking = whole.comparison?.[choices.unit]?.ranking ?? [];
    const rank = (view) => ranking.indexOf(view.run.name) + 1 || Infinity;
    return [...views()].sort((a, b) => (rank(a) === rank(b) ? a.index - b.index : rank(a) - rank(b)));
  }

  return {
    take, merge, units, views, fitted, ranked, unitName, valueName, alone, range, forecastAt, alarm, choices,
    comparison: () => whole.comparison?.[choices.unit] ?? null,
    document: () => whole,
  };
})();
