// Numbers and names as text: the same rules as scalerl/numbers.py, so that page, terminal and picture agree to the
// last digit (tests/browser compares the two). Rounding follows the error; what is not known is the word "unknown".
"use strict";

const Numbers = (() => {
  const UNKNOWN = "unknown";
  const WIDE = 3; // an interval of compute wider than this factor is read on a log scale

  const known = (value) => typeof value === "number" && !Number.isNaN(value);
  const isPlain = (value) => value === 0 || (Math.abs(value) >= 1e-4 && Math.abs(value) < 1e5);

  function magnitude(value) {
    return value && Number.isFinite(value) ? Number(Math.abs(value).toExponential().split("e")[1]) : 0;
  }

  function fixed(value, decimals, signed = false) {
    const step = 10 ** -decimals;
    const rounded = (decimals < 0 ? Math.round(value / step) * step : value) + 0;
    const text = rounded.toFixed(Math.max(0, Math.min(decimals, 12)));
    const shown = Number(text) === 0 ? text.replace("-", "") : text;
    return signed && Number(shown) >= 0 ? `+${shown}` : shown;
  }

  function unitOf(value) {
    const size = Math.abs(value);
    if (size >= 1e-3 && size < 1e3) return [1, ""];
    if (size >= 1e3 && size < 1e6) return [1e3, "k"];
    if (size >= 1e6 && size < 1e9) return [1e6, "M"];
    const power = magnitude(value);
    return [10 ** power, `e${power}`];
  }

  function number(value, digits = 3, signed = false) {
    if (!known(value)) return UNKNOWN;
    if (isPlain(value)) return fixed(value, digits - 1 - magnitude(value), signed);
    if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    return `${signed && value > 0 ? "+" : ""}${mantissa}e${Number(power)}`;
  }

  // Compute in any unit: 850, 12.7k, 3.2M, 1.2e21.
  function amount(value, digits = 3) {
    if (!known(value)) return UNKNOWN;
    if (value === 0 || !Number.isFinite(value)) return value === 0 ? "0" : "inf";
    const rounded = Number(value.toExponential(digits - 1));
    const [divisor, suffix] = unitOf(rounded);
    const text = fixed(rounded / divisor, digits - 1 - magnitude(rounded / divisor));
    return (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text) + suffix;
  }

  // [value, interval] as two texts.
  function ranged(value, low, high, { compute = false, signed = false } = {}) {
    const ends = [low, high].filter(known);
    const show = compute ? (v, digits) => amount(v, digits) : (v, digits) => number(v, digits, signed);
    if (!ends.length) return [show(value, 3), UNKNOWN];
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    if (ends.length < 2 || (compute && least > 0 && most > WIDE * least)) {
      return [show(value, 2), `[${show(low, 2)}, ${show(high, 2)}]`];
    }
    return shared(value, low, high, compute, signed);
  }

  // All three in the unit of the value, to two significant digits of the width.
  function shared(value, low, high, compute, signed) {
    const width = high - low;
    const show = compute ? amount : number;
    if (width <= 0 || !Number.isFinite(width)) return [show(value), `[${show(low)}, ${show(high)}]`];
    const largest = Math.max(Math.abs(value), Math.abs(low), Math.abs(high));
    const scaled = compute || !isPlain(largest);
    const [divisor, suffix] = scaled ? unitOf(magnitude(value) < -3 ? largest : value) : [1, ""];
    const decimals = 1 - magnitude(width / divisor);
    const [center, left, right] = [value, low, high].map((v) => fixed(v / divisor, decimals, signed) + suffix);
    return [center, `[${left}, ${right}]`];
  }

  function estimate(found, options) {
    if (!found) return UNKNOWN;
    const [center, interval] = ranged(found.value, found.low, found.high, options);
    return interval === UNKNOWN ? center : `${center} ${interval}`;
  }

  function probability(value) {
    if (!known(value)) return UNKNOWN;
    if (value < 0.005) return "<0.01";
    return value > 0.995 ? ">0.99" : value.toFixed(2);
  }

  const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;
  const short = (value) => String(Number(value.toPrecision(3))); // a number that somebody chose: 0.03, not 0.030
  const times = (factor) => `${factor >= 9.95 ? factor.toFixed(0) : Number(factor.toFixed(1))}×`;

  return { UNKNOWN, number, amount, ranged, estimate, probability, percent, short, times };
})();
