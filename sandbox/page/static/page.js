/* SPDX-License-Identifier: Apache-2.0
   Renews what stands on the page when something happens, and answers by keys. Without it every
   link and every button works all the same. */
"use strict";
(() => {
  const RENEW_MS = 5000, GATHER_MS = 300, SETTLE_MS = 800;
  let source = null, due = null;

  const renew = () => {
    due = null;
    if (!document.hidden) htmx.trigger(document.body, "changed");
  };
  const soon = () => { if (due === null) due = setTimeout(renew, GATHER_MS); };
  const listen = () => {
    if (document.hidden || !document.getElementById("stop")) {
      if (source !== null) source.close();
      source = null;
    } else if (source === null) {
      source = new EventSource("/events");
      source.addEventListener("changed", soon);
      soon();
    }
  };
  const title = document.title;
  document.addEventListener("htmx:afterSettle", () => {
    const alerts = document.querySelector("[data-waiting]");
    const count = alerts ? Number(alerts.dataset.waiting) : 0;
    document.title = count ? `(${count}) ${title}` : title;
  });
  document.addEventListener("visibilitychange", listen);
  setInterval(soon, RENEW_MS);
  listen();

  /* A key held down, or struck before a card could be read, answers nothing. */
  const card = document.querySelector("[data-keys]");
  if (card !== null) setTimeout(() => { card.dataset.keys = "ready"; }, SETTLE_MS);
  const press = (id) => {
    const button = document.getElementById(id);
    if (button !== null && card.dataset.keys === "ready") button.click();
  };
  /* Nor does the second half of a double click, which meets the next card. */
  document.addEventListener("submit", (event) => {
    if (event.target.closest("[data-keys]") !== null && card.dataset.keys !== "ready") event.preventDefault();
  });
  const PLACES = { n: "/", a: "/approvals", h: "/history", s: "/sessions", c: "/held", p: "/policy", r: "/record" };
  let going = false;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select");
    if (typing || event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
    if (going) {
      going = false;
      if (event.key in PLACES) location.href = PLACES[event.key];
      return;
    }
    if (event.key === "g") going = true;
    if (card === null) return;
    if (event.key === "a") press("approve");
    if (event.key === "d") press("deny");
  });

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-all]");
    if (all === null) {
      const form = event.target.closest("form");
      const whole = form && form.querySelector("[data-all]");
      if (whole) whole.checked = form.querySelector("input[name=path]:not(:checked)") === null;
      return;
    }
    for (const each of all.closest("form").querySelectorAll("input[name=path]")) each.checked = all.checked;
  });
})();
