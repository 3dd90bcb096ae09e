// Brings plotly.js to life. In a file it lies compressed in the page; the words and tables are shown before it is unpacked.
"use strict";

const Load = (() => {
  const isReady = () => typeof Plotly !== "undefined";

  async function plotly() {
    if (isReady()) return;
    const packed = document.getElementById("plotly");
    const bytes = unpacked(packed.textContent);
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script); // runs at once
    packed.remove();
  }

  // The quick way is not in every browser yet.
  function unpacked(text) {
    return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  }

  // After the next picture on the screen, so that the reader sees the answer before the charts.
  const painted = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

  return { plotly, painted, isReady };
})();
