// When to draw: many messages are one drawing, and a long drawing is split over frames, so that the page answers to its
// reader in between. Knows no part of the page; `Page` hands in what is to be drawn, in order.
"use strict";

const Frames = (() => {
  const SLICE_MS = 12; // of a frame; what is left waits for the next one
  let left = [];
  let asked = new Set(); // parts asked for while others are still being drawn
  let lastEnd = 0, took = 0;

  function soon(parts) {
    if (left.length) for (const part of parts) asked.add(part);
    else start(parts);
  }

  // Drawing takes at most a third of the time.
  function start(parts) {
    left = [...parts];
    const wait = Math.max(0, lastEnd + 2 * took - performance.now());
    took = 0;
    setTimeout(() => requestAnimationFrame(slice), wait);
  }

  // One part that fails does not keep the others from being drawn.
  function slice() {
    const begin = performance.now();
    try {
      do left.shift()(); while (left.length && performance.now() - begin < SLICE_MS);
    } finally {
      lastEnd = performance.now();
      took += lastEnd - begin;
      next();
    }
  }

  function next() {
    if (left.length) {
      requestAnimationFrame(slice);
    } else if (asked.size) {
      start(asked);
      asked = new Set();
    }
  }

  return { soon };
})();
