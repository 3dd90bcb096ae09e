// Follows running jobs: loads the first document, then applies what the server sends. Only in the page of `scalerl watch`.
// Knows `Page.render(document)` and `Page.update(partial)` and nothing about what they draw.
"use strict";

const Live = (() => {
  const FIRST_RETRY_MS = 500;
  const LONGEST_RETRY_MS = 5000;
  let waiting = []; // messages that arrive while the document is still on its way
  let loaded = false;

  function say(state, words) {
    const place = document.getElementById("live");
    place.hidden = false;
    place.dataset.state = state;
    document.getElementById("live-words").textContent = words;
  }

  async function load() {
    loaded = false;
    const answer = await fetch("document.json", { cache: "no-store", credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const whole = await answer.json();
    if (Page.document()) Page.replace(whole);
    else await Page.render(whole);
    loaded = true;
    for (const partial of waiting.splice(0)) Page.update(partial);
    say("on", "live");
  }

  // A reconnected stream has missed what happened in between, so the whole document is loaded again each time it opens.
  function listen(path) {
    const stream = new EventSource(path);
    stream.onopen = () => retry(FIRST_RETRY_MS);
    stream.onmessage = (message) => {
      const partial = JSON.parse(message.data);
      if (loaded) Page.update(partial);
      else waiting.push(partial);
    };
    stream.onerror = () => {
      say("off", "connection lost, trying again");
      if (stream.readyState !== EventSource.CLOSED) return; // the browser tries by itself
      setTimeout(() => listen(path), LONGEST_RETRY_MS);
    };
  }

  async function retry(delay) {
    try {
      await load();
    } catch (error) {
      say("off", `connection lost (${error.message}), trying again`);
      setTimeout(() => retry(Math.min(2 * delay, LONGEST_RETRY_MS)), delay);
    }
  }

  return { start: () => listen(document.body.dataset.live) };
})();
