// The words and tables around the charts, from the model. Every text that comes from a file goes through Dom.
"use strict";

const Sections = (() => {
  const { el, fill, say, renew, at, table, action } = Dom;
  const strong = (...children) => el("strong", {}, ...children);
  const inline = (found, options) => {
    const [center, interval] = Numbers.ranged(found.value, found.low, found.high, options);
    return [strong(center), interval === Numbers.UNKNOWN ? "" : el("span", { class: "interval" }, ` ${interval}`)];
  };

  function head() {
    const whole = Model.document();
    const when = (whole.created || "").replace("T", " ").replace(/([+]00:00|Z)$/, " UTC"); // a plot has no date
    say("title", whole.title);
    document.title = whole.title;
    say("version", whole.version);
    const count = whole.runs.length === 1 ? whole.runs[0].source : `${whole.runs.length} runs`;
    say("subtitle", [count, `${Numbers.percent(whole.level)} intervals`, when].filter(Boolean).join(" · "));
  }

  // The top of the page: what to do, or who is ahead.
  function answer() {
    const ready = Model.fitted();
    const view = ready[0];
    const parts = Model.alone() ? (view ? oneAnswer(view) : waiting(Model.views()[0])) : manyAnswer(ready);
    renew("answer", [...parts, ...warnings(), ...alarms()]);
  }

  // Runs that cannot be read at the moment: what is shown of them is what was read before.
  function warnings() {
    return Model.views().filter((view) => view.run.warning).map((view) =>
      el("p", { class: "why" }, `${Model.alone() ? "" : `${view.name}: `}${view.run.warning}.`));
  }

  // The last early sign of trouble of each run; the rest is listed with the run.
  function alarms() {
    return Model.views().map((view) => [view, Model.alarm(view.run)]).filter(([, found]) => found).map(([view, found]) =>
      el("p", { class: "alarm" }, `${Model.alone() ? "" : `${view.name}: `}${found.message}.`));
  }

  function waiting(view) {
    if (!view) return [el("p", { class: "sentence" }, "Nothing to show yet.")];
    return [el("p", { class: "sentence" }, "No forecast yet."), el("p", { class: "why" }, view.run.problem ?? "")];
  }

  function oneAnswer(view) {
    const { first } = Model.range();
    const found = Model.forecastAt(view, first);
    const factor = Numbers.times(first / view.fit.window.last);
    const expect = found.passed
      ? ["the curve has passed this budget already"]
      : [`at ${factor} the compute, ${Numbers.amount(first)} ${view.unit.name}, expect `, ...inline(found)];
    const sentence = [action(view.fit.decision.action), " ", ...expect, "; ", ...ceilingWords(view.fit), "."];
    return [el("p", { class: "sentence" }, sentence), el("p", { class: "why" }, why(view.fit.decision, view.unit.name))];
  }

  function ceilingWords(fit) {
    if (!fit.ceiling) return ["this law has no ceiling"];
    return fit.identified ? ["ceiling ", ...inline(fit.ceiling)] : ["the ceiling is not identified yet"];
  }

  function why(made, unit) {
    const reason = made.reason.charAt(0).toUpperCase() + made.reason.slice(1);
    const chance = made.probability === null ? "" : ` (probability ${Numbers.probability(made.probability)})`;
    const more = made.action === "NEED MORE DATA" && made.extra_compute !== null
      ? ` About ${Numbers.amount(made.extra_compute, 2)} ${unit} more should settle it.` : "";
    return `${reason}${chance}. The curve now stands at ${Numbers.number(made.now)}.${more}`;
  }

  function manyAnswer(ready) {
    const comparison = Model.comparison();
    if (!Model.views().length) return [el("p", { class: "sentence" }, "Waiting for the first run.")];
    if (!comparison) {
      const words = `${ready.length} of ${Model.views().length} runs have a forecast; there is nothing to compare yet.`;
      return [el("p", { class: "sentence" }, words)];
    }
    const compared = Model.ranked().filter((view) => comparison.ranking.includes(view.run.name));
    return [el("p", { class: "sentence" }, rankingWords(compared)), el("p", { class: "why" }, verdictWords(comparison))];
  }

  // Only ceilings that are identified can be ranked.
  function rankingWords(compared) {
    const known = compared.filter((view) => view.fit?.identified);
    const rest = compared.length - known.length;
    if (!rest) return [strong(known[0].name), ` ranks first of ${known.length}: ceiling `, ...inline(known[0].fit.ceiling), "."];
    const left = ` The ceiling${rest === 1 ? " of one run is" : `s of ${rest} runs are`} not identified yet: there is no ranking by ceiling.`;
    const { first } = Model.range();
    const ahead = compared.filter((view) => view.fit).map((view) => [view, Model.forecastAt(view, first)])
      .filter(([, found]) => !found.passed && found.value !== null).sort(([, a], [, b]) => b.value - a.value)[0];
    if (!ahead) return [left.trim()];
    const [view, found] = ahead;
    return [strong(view.name), ` is expected to be ahead at ${Numbers.amount(first)} ${view.unit.name}: `, ...inline(found), `.${left}`];
  }

  function verdictWords(comparison) {
    const names = new Map(Model.views().map((view) => [view.run.name, view.name]));
    const reference = names.get(comparison.reference) ?? comparison.reference;
    if (comparison.pairs.length === 1) {
      const [{ challenger, verdict, winner }] = comparison.pairs;
      const whom = winner ? `, in favour of ${names.get(winner) ?? winner}` : "";
      return `${names.get(challenger) ?? challenger} against ${reference}: ${verdict}${whom}.`;
    }
    const counts = new Map();
    for (const pair of comparison.pairs) counts.set(pair.verdict, (counts.get(pair.verdict) ?? 0) + 1);
    const parts = [...counts].map(([verdict, count]) => `${count} ${verb(verdict, count)}`);
    return `Against ${reference}: ${parts.join(", ")}. Ceilings within ${Numbers.short(comparison.margin)} count as equal.`;
  }

  function verb(verdict, count) {
    if (verdict === "no difference shown") return count === 1 ? "shows no difference" : "show no difference";
    return count === 1 ? verdict : verdict.replace("moves", "move");
  }

  // Number, interval and decision at the slider; for many runs the table below says it for each.
  function budget() {
    const range = Model.range();
    Dom.hide("budget-box", !range);
    if (!range) return;
    const unit = Model.unitName();
    const amount = `${Numbers.amount(range.budget)} ${unit}`;
    say("budget-amount", amount);
    if (at("budget").getAttribute("aria-valuetext") !== amount) at("budget").setAttribute("aria-valuetext", amount);
    const ready = Model.fitted();
    const words = Model.alone() ? forecastWords(ready[0], range.budget) : manyForecast(ready.filter((view) => view.on), range.budget);
    renew("forecast", ...words); // what stays the same is not read out again
  }

  function forecastWords(view, amount) {
    const found = Model.forecastAt(view, amount);
    const factor = Numbers.times(amount / view.fit.window.last);
    if (found.passed) return ["The curve has passed this compute already."];
    const { delta } = view.fit.decision;
    const chance = found.probability === null ? "" : ` P(gain of ${Numbers.short(delta)} or more) = ${Numbers.probability(found.probability)}`;
    return [...inline(found), ` at ${factor} the compute  `, action(found.action), el("span", { class: "muted" }, chance)];
  }

  function manyForecast(ready, amount) {
    const found = ready.map((view) => [view, Model.forecastAt(view, amount)]).filter(([, one]) => !one.passed && one.value !== null);
    if (!found.length) return ["No run that is switched on has a forecast here."];
    const [view, top] = found.reduce((a, b) => (b[1].value > a[1].value ? b : a));
    return ["Highest: ", ...inline(top), " ", Style.swatch(view.index), ` ${view.name}`];
  }

  function comparison() {
    const found = Model.comparison();
    Dom.hide("comparison-section", !found);
    const views = Model.views();
    if (!found || !Changed.since("comparison", found, Style.isDark(), views.map((view) => view.name).join("\n"))) return;
    const names = new Map(views.map((view) => [view.run.name, view]));
    const label = (name) => names.get(name)?.name ?? name;
    const rows = found.pairs.map((pair, i) => pairRow(pair, found.words[i], names.get(pair.challenger), label));
    const head = ["Run", "Verdict", "Ceiling difference", "P(higher · equal · lower)", "Midpoint ratio", "To know"];
    const words = `Each run against ${label(found.reference)}: difference of the ceilings, and the chances that it is higher, equal (within ${Numbers.short(found.margin)}) or lower. Every interval is that of the difference.`;
    fill("comparison", el("p", { class: "muted" }, words), table(head, rows, { tall: rows.length > 12, label: "Comparison" }));
  }

  function pairRow(pair, lines, view, label) {
    const factor = (end) => (end === null ? null : Math.exp(end));
    const { value, low, high } = pair.log_midpoint;
    const chances = [pair.probability_ceiling_higher, pair.probability_ceiling_equal, pair.probability_ceiling_lower];
    const winner = pair.winner ? el("span", { class: "interval" }, `in favour of ${label(pair.winner)}`) : null;
    return [
      el("span", { class: "toggle" }, view ? Style.swatch(view.index) : null, label(pair.challenger)),
      el("span", {}, pair.verdict, winner),
      { figure: Numbers.ranged(pair.ceiling.value, pair.ceiling.low, pair.ceiling.high, { signed: true }) },
      { figure: [chances.map(Numbers.probability).join(" · "), null] },
      { figure: Numbers.ranged(factor(value), factor(low), factor(high)) },
      { words: lines.slice(2).map((line) => el("div", {}, line)) },
    ];
  }

  return { head, answer, budget, comparison };
})();
