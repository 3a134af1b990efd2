// Keeps a page current by server-sent events, counts pauses down, copies commands, follows logs.
// Everything else works without it: pages are made on the server, forms are plain forms.
"use strict";

(() => {
  const main = document.getElementById("main");
  const indicator = document.getElementById("live");
  let source = null;

  function say(text, tone) {
    if (indicator && indicator.textContent !== text) {
      indicator.textContent = text;
      indicator.dataset.tone = tone;
    }
  }

  // Sections that came while a user filled in a field of theirs: they are shown when the field is left.
  const waiting = new Map();

  // A section is replaced as a whole. What a user has opened, closed, typed or focused stays so.
  function replace(id, html) {
    const old = document.getElementById(id);
    if (!old) return;
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    if (active && active.matches("input, textarea, select")) {
      waiting.set(id, html);
      return;
    }
    waiting.delete(id);
    const holder = document.createElement(old.tagName === "TR" ? "tbody" : "template");
    holder.innerHTML = html;
    const fresh = (holder.content || holder).firstElementChild;
    if (!fresh) return;
    for (const details of old.querySelectorAll("details[id]")) {
      const same = fresh.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = details.open;
    }
    for (const field of old.querySelectorAll("input[id], textarea[id]")) {
      const same = fresh.querySelector("#" + CSS.escape(field.id));
      if (same && field.value !== field.defaultValue) same.value = field.value;
    }
    const scrolled = [...old.querySelectorAll(".scrolls")].map((one) => one.scrollLeft);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scrolls").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    const again = active && sameElement(fresh, active, old);
    if (again) again.focus({ preventScroll: true });
  }

  // The element that a user has focused, in the section that replaces its own: by its id, else by what it leads to and
  // says. Of several that are alike, the one at the same place.
  function sameElement(fresh, active, old) {
    if (active.id) return document.getElementById(active.id);
    const alike = (one) => one.tagName === active.tagName && one.textContent === active.textContent
      && ["href", "aria-label", "data-copy"].every((name) => one.getAttribute(name) === active.getAttribute(name));
    const among = (section) => [section, ...section.querySelectorAll(active.tagName)].filter(alike);
    return among(fresh)[among(old).indexOf(active)];
  }

  document.addEventListener("focusout", () => {
    setTimeout(() => { for (const [id, html] of [...waiting]) replace(id, html); });
  });

  function follow() {
    if (!main || !main.dataset.live || source) return;
    const query = new URLSearchParams({ view: main.dataset.live, digest: main.dataset.digest || "" });
    source = new EventSource("/dashboard/live?" + query);
    source.onopen = () => say("live", "ok");
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return say("reconnecting", "quiet");
      // The server has refused it: the session has ended, or too many pages are open.
      say("not live: reload the page", "bad");
      leave();
      setTimeout(follow, 10000);
    };
    source.addEventListener("sections", (event) => {
      for (const update of JSON.parse(event.data)) replace(update.id, update.html);
      main.dataset.digest = "";
      main.dispatchEvent(new CustomEvent("updated"));
      countDown();
    });
    source.addEventListener("gone", () => {
      say("no longer here", "bad");
      leave();
    });
  }

  function leave() {
    if (source) source.close();
    source = null;
  }

  // Browsers allow few connections to one server: a page that is not looked at gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave();
    else follow();
  });
  window.addEventListener("pagehide", leave);

  function countDown() {
    for (const one of document.querySelectorAll("[data-until]")) {
      const left = Math.max(0, Math.round(Number(one.dataset.until) - Date.now() / 1000));
      const minutes = Math.floor(left / 60);
      const hours = minutes >= 60 ? Math.floor(minutes / 60) + " h " + (minutes % 60) + " min" : "";
      one.textContent = (hours || (minutes ? minutes + " min " : "") + (left % 60) + " s") + " left";
    }
  }
  setInterval(countDown, 1000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  // A change of a filter that is a choice needs no click.
  document.addEventListener("change", (event) => {
    const control = event.target.closest("form.filters select");
    if (control) control.form.requestSubmit();
  });

  // Addresses that are shared name only filters that are set.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.filters")) return;
    for (const one of event.target.elements) one.disabled = Boolean(one.name) && !one.value;
  });
  // A page that the back button brings again is as it was left.
  window.addEventListener("pageshow", () => {
    for (const one of document.querySelectorAll("form.filters :disabled")) one.disabled = false;
    follow();
  });

  // Merged logs: lines are text, never HTML.
  const log = document.getElementById("log-lines");
  if (log && log.dataset.stream) {
    const lines = new EventSource(log.dataset.stream);
    const most = Number(log.dataset.most) || 2000;
    lines.onopen = () => {
      log.replaceChildren();  // The end of each log comes again.
      say("live", "ok");
    };
    lines.onerror = () => {
      if (lines.readyState === EventSource.CLOSED) say("not live: reload the page", "bad");
      else say("reconnecting", "quiet");
    };
    lines.addEventListener("lines", (event) => {
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      for (const entry of JSON.parse(event.data)) {
        const line = document.createElement("span");
        line.className = "line";
        const pod = document.createElement("span");
        pod.className = "pod-name tint-" + (entry.tint % 8);
        pod.textContent = entry.pod;
        const time = document.createElement("time");
        time.textContent = entry.at.slice(11, 19);
        time.dateTime = entry.at + "Z";
        line.append(...(entry.at ? [time] : []), pod, " " + entry.text + "\n");
        log.append(line);
      }
      while (log.childElementCount > most) log.firstElementChild.remove();
      if (atEnd) log.scrollTop = log.scrollHeight;
    });
    lines.addEventListener("end", () => { say("ended", "quiet"); lines.close(); });
    window.addEventListener("pagehide", () => lines.close());
  }

  if (main && !main.dataset.live && indicator && !log) say("", "quiet");
  countDown();
  follow();
})();
