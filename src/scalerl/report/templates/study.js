// Light or dark: by the system's wish, or by the switch. Everything else on the page of a study stands still.
"use strict";

(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const wish = window.matchMedia("(prefers-color-scheme: dark)");

  function show(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
  }

  button.addEventListener("click", () => show(root.dataset.theme !== "dark"));
  wish.addEventListener("change", (event) => show(event.matches));
  window.addEventListener("beforeprint", () => show(false));
  show(wish.matches);
})();
