"use strict";
// Read-only console of a served commit owner. Its data is shown as text, never as HTML.
(() => {
  const KEY = "slackwater-token";
  const MOST_COMMITS = 100;
  const SVG = "http://www.w3.org/2000/svg";
  const at = (id) => document.getElementById(id);
  let token = remembered();
  let timer = 0;
  let shown = null;
  let asking = false;

  function remembered() {
    try { return sessionStorage.getItem(KEY) || ""; } catch { return ""; }
  }
  function remember(text) {
    token = text;
    try { text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY); } catch { /* no storage: this page only */ }
  }

  // --- requests

  class Refused extends Error {
    constructor(status, message) { super(message); this.status = status; }
  }
  async function ask(path, asText) {
    const headers = token ? { Authorization: "Bearer " + token } : {};
    const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error" });
    if (!answer.ok) {
      let message = "HTTP " + answer.status;
      try { message = (await answer.json()).message || message; } catch { /* not JSON: the response of a proxy */ }
      throw new Refused(answer.status, message);
    }
    return asText ? answer.text() : answer.json();
  }
  async function look() {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    try {
      const [owner, tables, activity, recent, metrics] = await Promise.all([
        ask("v1/owner"), ask("v1/tables"), ask("v1/activity"), ask("v1/commits?limit=" + MOST_COMMITS),
        ask("metrics", true),
      ]);
      shown = { owner, tables: tables.tables, activity, commits: recent.commits, metrics: samples(metrics) };
      show();
      say(null);
    } catch (error) {
      fail(error);
    } finally {
      asking = false;
      later();
    }
  }
  function later() {
    const seconds = Number(at("every").value);
    if (seconds && at("gate").hidden) timer = setTimeout(() => (document.hidden ? later() : look()), seconds * 1000);
  }
  function fail(error) {
    const state = at("state");
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      const told = token ? error.message : null;
      remember("");
      shown = null;
      at("panels").hidden = true;
      at("gate").hidden = false;
      badge(state, "token required", "warn");
      say(told);
      at("token").focus();
      return;
    }
    badge(state, "not reachable", "bad");
    say(error instanceof Refused ? error.message : "The owner is not reachable: " + error.message);
  }
  function say(text) {
    at("notice").hidden = !text;
    at("notice").textContent = text || "";
  }

  // --- elements

  function make(tag, attributes, ...children) {
    const made = document.createElement(tag);
    return filled(made, attributes, children);
  }
  function draw(tag, attributes, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
  }
  function filled(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) if (value !== null) made.setAttribute(name, value);
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }
  function badge(element, text, kind) {
    element.className = "sw-badge" + (kind ? " sw-" + kind : "");
    element.textContent = text;
    return element;
  }
  const badged = (text, kind, title) => {
    const made = badge(make("span"), text, kind);
    if (title) made.title = title;
    return made;
  };
  const code = (text) => {
    const told = visible(text);
    const most = window.innerWidth < 700 ? 26 : 48;
    return told.length > most ? make("code", { title: told }, told.slice(0, most - 1) + "…") : make("code", null, told);
  };
  const muted = (text) => make("span", { class: "sw-muted" }, text);
  function put(id, ...children) { at(id).replaceChildren(...children.flat()); }
  function table(id, heads, rows, none) {
    if (!rows.length) return put(id, make("p", { class: "sw-muted" }, none));
    const kind = (head) => (head.endsWith(">") ? "sw-number" : null);
    const name = (head) => head.replace(/[>]$/, "");
    const head = heads.map((text) => make("th", { class: kind(text), scope: "col" }, name(text)));
    const body = rows.map((row) => make("tr", null, row.map((cell, i) => make("td", { class: kind(heads[i]) }, cell))));
    const whole = make("table", null, make("thead", null, make("tr", null, head)), make("tbody", null, body));
    put(id, make("div", { class: "sw-scroll", tabindex: "0" }, whole));
  }

  // --- text

  const number = (value) => Number(value).toLocaleString("en-US");
  const moment = (ms) => {
    const told = new Date(ms);
    return isNaN(told) ? String(ms) : told.toISOString().replace("T", " ").replace("Z", "");
  };
  function span(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 1) return Math.round(ms < 0 ? 0 : ms) + " ms";
    if (s < 60) return s.toFixed(1) + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  }
  const ago = (ms) => make("span", { title: moment(ms), class: "sw-nowrap" },
    span(shown.activity.nowMs - ms) + " ago");
  // Escape control and bidirectional characters, because text from a log must not change the direction of its line.
  const visible = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  const whole = (granule) => (granule ? code(granule) : muted("whole table"));
  const process = (holder, hasEnded) =>
    [code(holder.replace(/^(.*):(\d+):.*$/, "$1 · $2") || "–"), hasEnded ? " " : "",
     hasEnded ? badged("ended", "bad", "The lease has expired, or the process has ended. Other transactions can take its locks.") : ""];

  // --- panels

  function show() {
    const { owner, tables, activity, commits } = shown;
    at("gate").hidden = true;
    at("panels").hidden = false;
    at("forget").hidden = !token;
    const waiting = activity.locks.filter((lock) => lock.wanted);
    const backlog = tables.reduce((sum, t) => sum + lag(t), 0);
    const broken = tables.filter((t) => t.problem).length;
    badge(at("state"), broken ? "has a problem" : "connected", broken ? "bad" : "good");
    put("about", "owner ", code(owner.ownerId), " · ", moment(activity.nowMs) + " UTC",
      activity.leftOut ? " · " + number(activity.leftOut) + " more entries are not shown" : "");
    put("facts", facts([
      ["tables", number(tables.length)],
      ["open transactions", number(activity.transactions.length)],
      ["waiting for locks", number(new Set(waiting.map((lock) => lock.transaction)).size)],
      ["not backfilled", number(backlog)],
      ["commits since start", number(total("slackwater_commits_total"))],
      ["conflicts since start", number(total("slackwater_commit_conflicts_total"))],
    ]));
    table("tables", ["table", "version>", "backfilled>", "lag>", "last commit", "state"], tables.map((t) => [
      code(t.name), number(t.ratifiedVersion), number(t.backfilledVersion), lagged(lag(t)),
      t.ratifiedVersion < 0 ? muted("none") : ago(t.timestampMs), t.problem ? problem(t.problem) : state(t.state),
    ]), "This owner has no tables yet.");
    timeline(commits, tables);
    table("commits", ["time", "table", "version>", "operation", "user", "rows>", "transaction", ""],
      commits.slice(0, 30).map((c) => [
        make("span", { class: "sw-nowrap" }, moment(c.timestampMs)), code(c.table), number(c.version),
        visible(c.operation || "–"), visible(c.userName || "–"), rows(c.metrics), code(c.transaction),
        c.isBackfilled ? "" : badged("not backfilled", "warn"),
      ]), "This owner has no commits yet.");
    table("transactions", ["transaction", "stage", "age", "tables", "timestamp", "process"], activity.transactions.map((t) => [
      code(t.transaction), badged(t.stage, t.stage === "prepared" ? "warn" : "accent"),
      t.sinceMs === null ? muted("–") : make("span", { title: moment(t.sinceMs), class: "sw-nowrap" }, span(activity.nowMs - t.sinceMs)),
      t.tables.length ? t.tables.map((name, i) => [i ? ", " : "", code(name)]).flat() : muted("none yet"),
      range(t), [t.openedBy ? visible(t.openedBy) + " " : "", ...process(t.holder, t.hasEnded)],
    ]), "There are no open transactions.");
    table("waits", ["transaction", "lock", "on", "held by", "waiting for"], waiting.map((lock) => [
      code(lock.transaction), lock.wanted, [code(lock.table), " ", whole(lock.granule)],
      lock.waitsFor.map((id, i) => [i ? ", " : "", code(id)]).flat(), span(activity.nowMs - lock.sinceMs),
    ]), "No transaction waits for a lock.");
    table("locks", ["table", "part", "transaction", "held", "requested", "process"], activity.locks.map((lock) => [
      code(lock.table), whole(lock.granule), code(lock.transaction), lock.held || muted("–"), lock.wanted || muted("–"),
      process(lock.holder, lock.hasEnded),
    ]), "There are no locks.");
    table("promises", ["table", "transaction", "time", "process"], activity.promises.map((p) => [
      code(p.table), code(p.transaction), moment(p.timestampMs), process(p.holder, p.hasEnded),
    ]), "There are no reserved timestamps.");
    reads(activity.readTimestamps);
    requests();
  }
  function facts(entries) {
    return entries.map(([name, value]) =>
      make("div", { class: "sw-fact" }, make("dt", null, name), make("dd", null, value)));
  }
  const lag = (t) => Math.max(0, t.ratifiedVersion - t.backfilledVersion);
  const lagged = (n) => (n ? badged(number(n), n >= 100 ? "bad" : "warn") : muted("0"));
  const state = (text) => (text === "active" ? muted(text) : badged(text, "warn"));
  const problem = (text) => make("span", { class: "sw-bad" }, visible(text));
  const range = (t) => {
    if (t.lowMs === null || t.lowMs < 0) return muted("any");
    if (t.highMs === t.lowMs + 1) return moment(t.highMs);
    const end = t.highMs === null || t.highMs > 8.64e15 ? "…" : moment(t.highMs);
    return "after " + moment(t.lowMs) + (end === "…" ? "" : " to " + end);
  };
  function rows(metrics) {
    const found = ["numOutputRows", "numTargetRowsInserted", "numUpdatedRows", "numDeletedRows", "numAddedFiles"]
      .find((name) => /^\d{1,18}$/.test(metrics[name] || ""));
    return found ? make("span", { title: found }, number(metrics[found])) : "";
  }

  function timeline(commits, tables) {
    const named = [...new Set(commits.map((c) => c.table))].sort();
    if (!named.length) return put("timeline");
    const lanes = named.slice(0, 12);
    const width = Math.max(280, at("timeline").clientWidth || 900);
    const labels = Math.min(180, Math.round(width * 0.28));
    const lane = 24, top = 8, bottom = 22;
    const height = top + lanes.length * lane + bottom;
    const times = commits.map((c) => c.timestampMs);
    const first = Math.min(...times), last = Math.max(...times, first + 1);
    const x = (ms) => labels + 8 + ((ms - first) / (last - first)) * (width - labels - 22);
    const y = (name) => top + lanes.indexOf(name) * lane + lane / 2;
    const parts = [];
    for (const name of lanes) {
      const fits = Math.floor(labels / 7.4);
      const text = visible(name);
      parts.push(draw("line", { x1: labels + 2, x2: width - 8, y1: y(name), y2: y(name), class: "sw-lane" }));
      parts.push(draw("text", { x: 0, y: y(name) + 4, class: "sw-label" },
        text.length > fits ? text.slice(0, fits - 1) + "…" : text, draw("title", null, text)));
    }
    const together = new Map();
    for (const c of commits) {
      if (!lanes.includes(c.table)) continue;
      const key = c.timestampMs + " " + c.transaction;
      together.set(key, [...(together.get(key) || []), c]);
    }
    for (const group of together.values()) {
      if (group.length < 2) continue;
      const ys = group.map((c) => y(c.table));
      const where = x(group[0].timestampMs);
      parts.push(draw("line", { x1: where, x2: where, y1: Math.min(...ys), y2: Math.max(...ys), class: "sw-across" }));
    }
    for (const c of commits) {
      if (!lanes.includes(c.table)) continue;
      const told = [c.table + " version " + c.version, c.operation, c.userName, moment(c.timestampMs)];
      parts.push(draw("circle", { cx: x(c.timestampMs), cy: y(c.table), r: 4.5, class: c.isBackfilled ? "sw-dot" : "sw-dot-waiting" },
        draw("title", null, visible(told.filter(Boolean).join(" · ")))));
    }
    const ticks = width > 560 ? 4 : 2;
    for (let i = 0; i < ticks; i++) {
      const ms = first + ((last - first) * i) / (ticks - 1);
      const anchor = i === 0 ? "start" : i === ticks - 1 ? "end" : "middle";
      parts.push(draw("text", { x: x(ms), y: height - 5, "text-anchor": anchor, class: "sw-tick" }, tick(ms, last - first)));
    }
    const label = "The latest " + commits.length + " commits of " + named.length + " tables, by time";
    const left = named.length - lanes.length;
    put("timeline", draw("svg", { width, height, viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": label }, parts),
      make("p", { class: "sw-note" }, "Each dot is a commit. A line joins the commits of one transaction. Colour of commits that are not backfilled: ",
        badged("not backfilled", "warn"), left > 0 ? ". " + number(left) + " more tables are not shown." : ""));
  }
  function tick(ms, wide) {
    const text = moment(ms);
    return wide < 2000 ? text.slice(11) : wide < 86400000 ? text.slice(11, 19) : text.slice(0, 16);
  }

  function reads(load) {
    const share = load.slots ? load.used / load.slots : 0;
    const kind = share > 0.75 ? "warn" : "good";
    const bar = draw("svg", { width: 240, height: 8, viewBox: "0 0 240 8", role: "img", "aria-label": (share * 100).toFixed(1) + " % used" },
      draw("rect", { x: 0, y: 0, width: 240, height: 8, rx: 2, class: "sw-track" }),
      draw("rect", { x: 0, y: 0, width: (share * 240).toFixed(2), height: 8, rx: 2, class: "sw-fill-" + kind }));
    put("reads", make("p", null, number(load.used) + " of " + number(load.slots) + " slots, " + (share * 100).toFixed(1) + " %"),
      make("p", null, bar),
      make("p", { class: "sw-muted sw-small" }, load.latestMs ? "Latest read " + moment(load.latestMs) + "." : "There are no reads.",
        load.floorMs ? " Everything up to " + moment(load.floorMs) + " is treated as read." : ""));
  }

  // --- metrics, in the text format of Prometheus

  function samples(text) {
    const found = [];
    for (const line of text.split("\n")) {
      const parts = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$/.exec(line);
      if (!parts) continue;
      const labels = {};
      for (const [, name, value] of (parts[2] || "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
      found.push({ name: parts[1], labels, value: Number(parts[3]) });
    }
    return found;
  }
  const of = (name) => shown.metrics.filter((sample) => sample.name === name);
  const total = (name) => of(name).reduce((sum, sample) => sum + sample.value, 0);
  function requests() {
    const byRoute = new Map();
    const entry = (labels) => {
      const key = labels.method + " " + labels.route;
      if (!byRoute.has(key)) byRoute.set(key, { key, count: 0, refused: 0, failed: 0, seconds: 0 });
      return byRoute.get(key);
    };
    for (const { labels, value } of of("slackwater_requests_total")) {
      const found = entry(labels);
      found.count += value;
      if (labels.status >= "500") found.failed += value;
      else if (labels.status >= "400") found.refused += value;
    }
    for (const { labels, value } of of("slackwater_request_seconds_sum")) entry(labels).seconds += value;
    const sorted = [...byRoute.values()].filter((r) => r.count).sort((a, b) => b.count - a.count);
    table("metrics", ["request", "responses>", "rejected>", "failed>", "mean time>"], sorted.map((r) => [
      code(r.key), number(r.count), r.refused ? number(r.refused) : muted("0"),
      r.failed ? badged(number(r.failed), "bad") : muted("0"), ((r.seconds / r.count) * 1000).toFixed(1) + " ms",
    ]), "There are no requests yet.");
  }

  // --- the page

  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    remember(at("token").value.trim());
    at("token").value = "";
    at("gate").hidden = true;
    look();
  });
  at("forget").addEventListener("click", () => { remember(""); location.reload(); });
  at("now").addEventListener("click", look);
  at("every").addEventListener("change", () => { clearTimeout(timer); later(); });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width || !shown) return;
    width = window.innerWidth;
    timeline(shown.commits, shown.tables);
  });
  look();
})();
