// The state of the timeline, which is that of the address, and its requests to the server.
window.hvdprofTimeline = window.hvdprofTimeline || {};
window.hvdprofTimeline.Model = class {
  // What decides on the rows; another value of one of them also changes the overview.
  static ROWS = ["run", "np", "pass", "lanes", "tensor", "ranks", "open", "pins", "hide"];
  static PLACES = ["from", "to", "step", "segment", "all"];
  static SHORTEST = 1000;
  static WRITE_AFTER_MS = 150;
  static NEW_ENTRY_AFTER_MS = 700;

  constructor(run, changed) {
    this.run = run;
    this.changed = changed;
    this.data = null;
    this.base = null;
    this.window = null;
    this.pixels = 1000;
    this.follow = true;
    this.problem = "";
    this.read();
    this.onPop = () => { this.read(); this.follow = true; this.load(); this.changed("state"); };
    window.addEventListener("popstate", this.onPop);
  }

  close() {
    window.removeEventListener("popstate", this.onPop);
    clearTimeout(this.writing);
    clearTimeout(this.telling);
    this.closed = true;
  }

  read() {
    this.params = new URLSearchParams(window.location.search);
    this.params.set("run", this.run);
  }

  get(key) { return this.params.get(key) || ""; }

  number(key) {
    const text = this.get(key);
    return /^-?\d{1,18}$/.test(text) ? Number(text) : null;
  }

  list(key) { return this.get(key).split(",").filter(Boolean); }

  // Change values of the address; null removes one.
  set(values) {
    let sameRows = true;
    for (const [key, value] of Object.entries(values)) {
      const text = value === null || value === undefined ? "" : String(value);
      if (text === this.get(key)) { continue; }
      if (text) { this.params.set(key, text); } else { this.params.delete(key); }
      sameRows = sameRows && !this.constructor.ROWS.includes(key);
    }
    this.write();
    if (!sameRows) { this.load(); }
    this.changed("state");
  }

  // Drop values that mean nothing in another pass.
  forget(keys) {
    this.set(Object.fromEntries(keys.map((key) => [key, null])));
    this.follow = true;
    this.ask();
  }

  // Browsers slow pages down that write the address at each movement, and the back button goes
  // back by whole gestures.
  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const search = `?${this.params}`;
      if (search === window.location.search) { return; }
      const isNew = Date.now() - (this.writtenAt || 0) > this.constructor.NEW_ENTRY_AFTER_MS;
      this.writtenAt = Date.now();
      window.history[isNew ? "pushState" : "replaceState"](null, "", window.location.pathname + search);
      clearTimeout(this.telling);
      this.telling = setTimeout(
        () => window.dispatchEvent(new CustomEvent("_dashprivate_pushstate")), 400);
    }, this.constructor.WRITE_AFTER_MS);
  }

  get axis() { return (this.data || this.base || {axis: window.hvdprofTimeline.PLAIN}).axis; }

  // The ends of the window on the axis.
  get places() { return this.window.map(this.axis.of); }

  get middle() {
    const [low, high] = this.places;
    return this.axis.time((low + high) / 2);
  }

  get length() { return (this.base || this.data || {length: 1}).length; }

  // Show a window: at once from what is there, and exactly once the server has answered.
  show(first, last) { this.showPlaces(...[first, last].map(this.axis.of)); }

  // Beside two times, a share of what lies between them.
  showAround(first, last, share, least = 0) {
    const [low, high] = [first, last].map(this.axis.of);
    const beside = Math.max(share * (high - low), least);
    this.showPlaces(low - beside, high + beside);
  }

  showPlaces(low, high) {
    const {axis} = this;
    const length = axis.of(this.length);
    const wanted = Math.min(Math.max(high - low, this.constructor.SHORTEST), length);
    const start = Math.round(Math.min(Math.max(low, 0), length - wanted));
    this.window = [start, start + wanted].map((place) => Math.round(axis.time(place)));
    this.follow = false;
    const isWhole = wanted >= length;
    for (const key of this.constructor.PLACES) { this.params.delete(key); }
    // Without any place, the server opens at the steps of the finding.
    if (isWhole) {
      this.params.set("all", "1");
    } else {
      ["from", "to"].forEach((key, at) => this.params.set(key, String(this.window[at])));
    }
    this.write();
    this.ask();
    this.changed("window");
  }

  showWhole() { this.show(0, this.length); }

  // A place that the server knows, such as a step.
  go(values) {
    for (const key of this.constructor.PLACES) { this.params.delete(key); }
    for (const [key, value] of Object.entries(values)) { this.params.set(key, String(value)); }
    this.follow = true;
    this.write();
    this.ask();
  }

  // The next or the previous step in which the finding acts, three steps wide.
  toActing(by) {
    const {middle} = this;
    const steps = (this.data.acting || []).filter(([first, last]) =>
      (by > 0 ? first > middle : last < middle));
    const [first, last] = steps[by > 0 ? 0 : steps.length - 1] || [];
    if (first !== undefined) { this.showAround(first, last, 1); }
  }

  zoom(factor, at) {
    const [low, high] = this.places;
    const anchor = at === null || at === undefined ? (low + high) / 2 : this.axis.of(at);
    const most = this.axis.of(this.length);
    const length = Math.min(Math.max((high - low) * factor, this.constructor.SHORTEST), most);
    const share = (anchor - low) / (high - low);
    this.showPlaces(anchor - share * length, anchor + (1 - share) * length);
  }

  pan(share) {
    const [low, high] = this.places;
    const by = share * (high - low);
    this.showPlaces(low + by, high + by);
  }

  rowsKey() { return this.constructor.ROWS.map((key) => this.get(key)).join("\n"); }

  // The view, and the whole pass where other rows are shown than before.
  load() {
    const key = this.rowsKey();
    if (key !== this.baseKey) {
      this.baseKey = key;
      const whole = new URLSearchParams(this.params);
      for (const place of this.constructor.PLACES) { whole.delete(place); }
      whole.set("all", "1");
      this.fetch("view", whole).then((base) => {
        if (base && key === this.baseKey) { this.base = base; this.changed("data"); }
      });
    }
    this.ask();
  }

  // One request at a time; of what changes meanwhile only the latest is asked for.
  async ask() {
    if (this.asking) { this.again = true; return; }
    this.asking = true;
    const key = this.rowsKey();
    const data = await this.fetch("view", this.params);
    this.asking = false;
    if (data && key === this.rowsKey()) {
      this.data = data;
      // The answer to what is asked for by now says which window that is.
      if (!this.window || (this.follow && !this.again)) {
        this.window = data.window.slice();
        this.follow = this.again;
      }
      this.changed("data");
    }
    if (this.again) { this.again = false; this.ask(); }
  }

  async fetch(what, params) {
    const query = new URLSearchParams(params);
    query.set("px", String(Math.round(this.pixels)));
    for (const key of ["marks", "hit", "drag", "sort"]) { query.delete(key); }
    try {
      const answer = await window.fetch(`/timeline-data/${what}?${query}`, {credentials: "same-origin"});
      const found = await answer.json();
      if (this.closed) { return null; }
      this.problem = answer.ok ? "" : [found.problem, found.hint].filter(Boolean).join(" ");
      if (answer.ok) {
        if (what === "view") { found.axis = window.hvdprofTimeline.axisOf(found.turns); }
        return found;
      }
    } catch (error) {
      if (this.closed) { return null; }
      this.problem = "The dashboard does not answer. Check that its process still runs.";
    }
    this.changed("problem");
    return null;
  }
};
