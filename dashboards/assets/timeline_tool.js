// The timeline as a whole: its controls, its two canvases, and what happens when.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const {element, button} = T;

  class Tool {
    constructor(root) {
      this.root = root;
      this.pointer = null;
      this.selecting = null;
      this.serials = {details: 0, range: 0, hits: 0};
      this.found = {details: {}, range: {}, hits: {}};
      this.model = new T.Model(root.dataset.run, (what) => this.changed(what));
      this.panel = new T.Panel({
        event: (row) => this.goToEvent(row), pin: (lane) => this.pin(lane), fit: () => this.fit(),
        clear: () => this.clear(), hit: (at) => this.goToHit(at), help: () => this.toggleHelp(),
        sort: (order) => this.model.set({sort: order}), closeHits: () => this.model.set({find: null, steps: null, hit: null}),
      });
      this.top = element("canvas", {class: "timeline-top", "aria-hidden": "true"});
      this.lanes = element("canvas", {class: "timeline-lanes", tabindex: "0", role: "img",
        "aria-label": "Timeline of all ranks. Press ? for the keys."});
      this.tip = element("div", {class: "timeline-tip", hidden: true});
      this.caption = element("div", {id: "timeline-caption", class: "about"}, "Loading…");
      this.controls = new T.Controls(this);
      this.room = element("div", {class: "timeline-room"}, this.lanes);
      this.stage = element("div", {class: "timeline-stage"},
        element("div", {class: "timeline-sticky"}, this.top), this.room, this.tip);
      root.replaceChildren(this.controls.root, this.stage, this.panel.root, this.caption);
      this.endDrag = T.lanesGestures(this.lanes, this);
      T.overviewGestures(this.top, this);
      this.onKey = T.keys(this);
      document.addEventListener("keydown", this.onKey);
      this.sized = new ResizeObserver(() => this.draw());
      this.sized.observe(this.stage);
      this.onResize = () => this.draw();
      window.addEventListener("resize", this.onResize);
      this.themed = new MutationObserver(() => this.draw());
      this.themed.observe(document.documentElement, {attributeFilter: ["data-mantine-color-scheme"]});
      this.panel.showHelp(false);
      this.model.pixels = Math.max(this.stage.clientWidth - 170, 200);
      this.model.load();
      this.changed("state");
    }

    close() {
      document.removeEventListener("keydown", this.onKey);
      this.sized.disconnect();
      window.removeEventListener("resize", this.onResize);
      this.controls.close();
      this.themed.disconnect();
      this.model.close();
    }

    changed(what) {
      if (!this.model || !this.panel) { return; }
      if (what === "problem" && this.model.problem) {
        this.root.dataset.problem = "true";
        this.caption.textContent = this.model.problem;
      }
      if (what === "data" && this.model.data) {
        this.model.data.rowsKey = this.model.rowsKey();
        if (this.model.base && !this.model.base.rowsKey) { this.model.base.rowsKey = this.model.baseKey; }
        this.caption.textContent = this.captionText(this.model.data);
        const answer = document.getElementById("timeline-answer");
        if (answer) { answer.textContent = this.model.data.answer; }
        this.controls.showData(this.model);
        this.lookUp();
      }
      if (what === "state") { this.lookUp(); this.controls.showState(this.model); }
      this.draw();
    }

    captionText(data) {
      const alone = data.notes.filter((note) => note.lane < 0).map((note) => note.text);
      const left = data.left_out ? [`${data.left_out} more lanes are not drawn: filter them.`] : [];
      return [...data.missed, data.caption, ...left, ...alone].join(" ");
    }

    // Ask for the details, the range and the hits that the address names.
    lookUp() {
      const {model} = this;
      const asked = {
        // A bin is as wide as those in view.
        details: model.get("event") || [model.get("lane"), model.get("at"), model.window].join(),
        range: [model.get("sel_from"), model.get("sel_to"), model.rowsKey()].join(),
        hits: [model.get("find"), model.get("steps"), model.get("pass"), model.get("lanes")].join(),
      };
      const isAsked = {details: model.get("event") || model.get("lane"), range: model.get("sel_to"),
        hits: model.get("find") || model.get("steps")};
      for (const what of Object.keys(asked)) {
        if (this.asked && this.asked[what] === asked[what]) { continue; }
        // Details stay until others arrive, so that nothing flickers while the window moves.
        if (!isAsked[what] || what !== "details") { this.found = {...this.found, [what]: {}}; }
        const serial = ++this.serials[what];
        if (isAsked[what]) {
          model.fetch(what, model.params).then((found) => {
            if (serial !== this.serials[what] || !found) { return; }
            this.found[what] = found;
            this.showPanel(what);
            if (what === "hits" && this.goFirst && found.hits.length) { this.goToHit(this.firstHit(found.hits)); }
            this.goFirst = what === "hits" ? false : this.goFirst;
            this.draw();
          });
        }
        this.showPanel(what);
      }
      if (this.asked && this.hitShown !== model.get("hit")) { this.showPanel("hits"); }
      this.hitShown = model.get("hit");
      if (this.asked && this.orderShown !== model.get("sort")) { this.showPanel("range"); }
      this.orderShown = model.get("sort");
      this.asked = asked;
    }

    showPanel(what) {
      const {model, panel, found} = this;
      if (what === "details") { panel.showDetails(found.details); }
      if (what === "range") { panel.showRange(found.range, model.get("sort")); }
      if (what === "hits") {
        const current = model.number("hit");
        panel.showHits(found.hits, current === null ? -1 : current, model.get("find") || model.get("steps"));
      }
    }

    scene() {
      const {model} = this;
      const data = model.data;
      if (!data || !model.window || data.rowsKey !== model.rowsKey()) { return null; }
      const width = Math.floor(this.room.clientWidth);
      const room = this.roomFor(data);
      const layout = T.placed(data.rows, width, room);
      const [first, last] = model.window;
      const base = model.base && model.base.rowsKey === data.rowsKey ? model.base : data;
      const event = this.found.details && this.found.details.event !== undefined ? this.found.details : null;
      const ends = ["sel_from", "sel_to"].map((key) => model.number(key));
      return {
        data, base, layout, room, event, window: model.window, segments: data.segments,
        theme: T.themeOf(this.stage, data.kinds),
        scale: T.scaleOf(first, last, layout.gutter, width - 6, data.axis),
        whole: T.scaleOf(0, base.length, layout.gutter, width - 6, data.axis),
        selection: this.selecting || (ends[0] !== null && ends[1] !== null ? ends : null),
        marks: model.list("marks").map(Number).filter(Number.isFinite),
        title: `${model.run} · ${data.pass} · ${data.axis.text(first, last)} from ${T.lengthText(first)}`,
      };
    }

    // The window but for what stands above and below; the lanes scroll in it.
    roomFor(data) {
      const pins = data.rows.filter((row) => row.pinned).length;
      const top = T.topHeight({segments: data.segments, layout: {pinnedHeight: 24 * pins}});
      const below = this.panel.isShown() && window.innerWidth > 1000 ? this.panel.root.offsetHeight + 8 : 0;
      return Math.max(window.innerHeight - 150 - top - below, 160);
    }

    draw() {
      if (this.drawing) { return; }
      this.drawing = requestAnimationFrame(() => {
        this.drawing = null;
        const scene = this.scene();
        this.shown = scene;
        if (!scene || scene.layout.width < 50) { return; }
        this.model.pixels = scene.scale.right - scene.scale.left;
        this.room.style.maxHeight = `${scene.room}px`;
        const heights = [[this.top, T.topHeight(scene), T.paintTop], [this.lanes, scene.layout.height, T.paintLanes]];
        for (const [canvas, height, paint] of heights) {
          const ratio = window.devicePixelRatio || 1;
          const size = [Math.round(scene.layout.width * ratio), Math.round(height * ratio)];
          if (canvas.width !== size[0] || canvas.height !== size[1]) {
            [canvas.width, canvas.height] = size;
            canvas.style.width = `${scene.layout.width}px`;
            canvas.style.height = `${height}px`;
          }
          const ctx = canvas.getContext("2d");
          ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
          paint(ctx, scene);
        }
        // For tests and the benchmark: what is on the screen, and whether it is exact.
        const [first, last] = scene.window;
        this.root.dataset.first = String(first);
        this.root.dataset.last = String(last);
        this.root.dataset.exact = String(
          scene.data.window[0] === first && scene.data.window[1] === last && !this.model.asking);
      });
    }

    scale() { return this.shown ? this.shown.scale : null; }

    wholeScale() { return this.shown ? this.shown.whole : null; }

    segmentAt(ns, y) {
      if (this.shown.segments.length < 2 || y > T.STRIP + T.SEGMENTS) { return null; }
      const found = this.shown.segments.find((one) => ns >= one.from && ns <= one.to);
      return found ? found.name : null;
    }

    placeAt(y) {
      return this.shown && this.shown.layout.places.find((one) =>
        !one.pinned && y >= one.top && y < one.top + one.height);
    }

    barAt(x, y) {
      const place = this.placeAt(y);
      if (!place || place.row.lane < 0 || this.shown.data.binned) { return -1; }
      const {scale, data} = this.shown;
      const [low, high] = [scale.ns(x - 2), scale.ns(x + 2)];
      // The last one is drawn on top; of those the shortest is the hardest to hit.
      return T.barsOf(data, place.row.lane).filter((at) =>
        data.bars.start[at] <= high && data.bars.start[at] + data.bars.length[at] >= low)
        .reduce((best, at) => (best < 0 || data.bars.length[at] <= data.bars.length[best] ? at : best), -1);
    }

    choose(x, y) {
      const place = this.placeAt(y);
      if (!place) { return; }
      if (place.row.opens) { this.openRow(y); return; }
      const bar = this.barAt(x, y);
      if (bar >= 0 && this.shown.data.bars.id[bar] >= 0) {
        this.model.set({event: this.shown.data.bars.id[bar], lane: null, at: null});
      } else if (bar >= 0) {
        const {start, length} = this.shown.data.bars;
        this.model.set({event: null, lane: place.row.lane, at: start[bar] + Math.floor(length[bar] / 2)});
      } else if (place.row.lane >= 0 && this.shown.data.binned) {
        this.model.set({event: null, lane: place.row.lane, at: Math.round(this.shown.scale.ns(x))});
      }
    }

    openRow(y) {
      const place = this.placeAt(y);
      if (!place) { return; }
      if (place.row.opens) {
        const opened = new Set(this.model.list("open"));
        if (!opened.delete(place.row.opens)) { opened.add(place.row.opens); }
        this.model.set({open: [...opened].join(",")});
      } else if (place.row.lane >= 0) {
        this.pin(place.row.lane);
      }
    }

    pin(lane) {
      const pins = new Set(this.model.list("pins"));
      if (!pins.delete(String(lane))) { pins.add(String(lane)); }
      this.model.set({pins: [...pins].join(",")});
    }

    isSelecting() { return this.model.get("drag") === "select"; }

    select(ends, isDone) {
      if (!isDone) { this.selecting = ends; this.draw(); return; }
      const [first, last] = this.selecting;
      this.selecting = null;
      if (last > first) { this.model.set({sel_from: first, sel_to: last}); } else { this.draw(); }
    }

    selectView() {
      const [first, last] = this.model.window;
      this.model.set({sel_from: first, sel_to: last});
    }

    openGroups() {
      const groups = (this.model.data || {rows: []}).rows.filter((row) => row.opens).map((row) => row.opens);
      if (groups.length) { this.model.set({open: groups.every((one) => this.model.list("open").includes(one)) ? null : groups.join(",")}); }
    }

    pointed() {
      return this.pointer && this.shown && this.pointer[0] >= this.shown.scale.left
        ? this.shown.scale.ns(this.pointer[0]) : null;
    }

    hasFocus() { return this.root.contains(document.activeElement) && document.activeElement === this.lanes; }

    hover(place) {
      this.pointer = place;
      const bar = place && this.shown ? this.barAt(...place) : -1;
      const row = place && this.shown ? this.placeAt(place[1]) : null;
      let text = "";
      if (bar >= 0 && place[0] >= this.shown.scale.left) {
        const {bars} = this.shown.data;
        text = [bars.activities[bars.activity[bar]],
          this.shown.data.axis.text(bars.start[bar], bars.start[bar] + bars.length[bar]),
          bars.tensors[bars.tensor[bar]]].filter(Boolean).join(" · ");
      } else if (row && place[0] < this.shown.scale.left) {
        text = row.row.full + (row.row.opens ? " (click opens or folds it)" : row.row.lane >= 0 ? " (click pins it)" : "");
      }
      const turn = place && this.shown && place[0] >= this.shown.scale.left &&
        this.shown.scale.axis.at(this.shown.scale.ns(place[0]));
      if (!text && turn) {
        text = `hvdprof's turn: other launches run for ${T.lengthText(turn[1] - turn[0])}; drawn narrower than it is`;
      }
      this.tip.hidden = !text;
      if (!text) { return; }
      this.tip.textContent = text;
      const left = Math.min(place[0] + 12, Math.max(this.shown.layout.width - 260, 0));
      const above = this.room.offsetTop - this.room.scrollTop;
      this.tip.style.transform = `translate(${left}px, ${place[1] + above + 16}px)`;
    }

    fit() {
      const {model} = this;
      const [first, last] = [model.number("sel_from"), model.number("sel_to")];
      const {event} = this.shown || {};
      if (first !== null && last !== null) {
        model.show(first, last);
      } else if (event) {
        this.center(event.start_ns, event.dur_ns);
      }
    }

    center(start, length) {
      this.model.showAround(start, start + length, 1, 1000);
    }

    goToEvent(row) {
      this.follow = true;
      this.model.set({event: row, lane: null, at: null});
      this.model.fetch("details", this.model.params).then((found) => {
        if (!found || found.start_ns === undefined) { return; }
        const [first, last] = this.model.window;
        if (found.start_ns < first || found.start_ns + found.dur_ns > last) {
          const [low, high] = this.model.places;
          const [start, end] = [found.start_ns, found.start_ns + found.dur_ns].map(this.model.axis.of);
          const half = Math.max(high - low - (end - start), 0) / 2;
          this.model.showPlaces(start - half, start - half + Math.max(high - low, end - start));
        }
      });
    }

    goToHit(at) {
      const hit = ((this.found.hits || {}).hits || [])[at];
      if (!hit) { return; }
      this.model.set({hit: at, event: hit.event >= 0 ? hit.event : null, lane: null, at: null});
      if (hit.event < 0) {
        this.model.showAround(hit.start_ns, hit.start_ns + hit.dur_ns, 0.05);
      } else {
        this.center(hit.start_ns, hit.dur_ns);
      }
    }

    // A step, ranks, a tensor and a text at once: "step 15, rank 3, conv1".
    search(text) {
      const {step, ranks, tensor, find} = T.readSearch(text);
      const {model} = this;
      const isSame = find && find === model.get("find") && ranks === model.get("ranks") &&
        tensor === model.get("tensor") && (!step || step === this.wanted?.step);
      if (isSame) { this.goToHit(((model.number("hit") ?? -1) + 1) % Math.max(this.found.hits.hits?.length || 1, 1)); return; }
      this.goFirst = Boolean(find);
      this.wanted = {step, ranks};
      model.set({ranks, tensor, find, steps: null, hit: null});
      if (step) {
        const segment = this.controls.segmentNow();
        model.go(segment ? {segment, step} : {step});
      }
    }

    // The first hit in the step and on the rank that were asked for with it.
    firstHit(hits) {
      const {step, ranks} = this.wanted || {};
      const at = hits.findIndex((hit) => (!step || hit.step === Number(step)) &&
        (!ranks || String(hit.rank) === ranks));
      return Math.max(at, 0);
    }

    showSteps(kind) {
      this.goFirst = Boolean(kind);
      this.wanted = null;
      this.model.set({steps: kind, find: null, hit: null});
    }

    mark() {
      const {axis, places: [low, high]} = this.model;
      const at = Math.round(this.pointed() ?? this.model.middle);
      const marks = this.model.list("marks").map(Number);
      const near = marks.findIndex((one) => Math.abs(axis.of(one) - axis.of(at)) < 0.006 * (high - low));
      if (near >= 0) { marks.splice(near, 1); } else { marks.push(at); }
      this.model.set({marks: marks.sort((one, other) => one - other).slice(0, 12).join(",")});
    }

    clear() {
      if (this.helps) { this.toggleHelp(); return; }
      if (this.selecting) { this.endDrag(); this.select(null, false); return; }
      this.model.set({sel_from: null, sel_to: null, event: null, lane: null, at: null});
    }

    toActing(by) { this.model.toActing(by); }

    focusSearch() { this.controls.search.focus(); }

    toggleHelp() {
      this.helps = !this.helps;
      this.panel.showHelp(this.helps);
    }
  }

  // The page puts an empty element there; another run or pass changes its attributes.
  const OF_THE_PASS = ["from", "to", "step", "segment", "event", "lane", "at", "sel_from", "sel_to", "marks", "pins",
    "find", "steps", "hit", "open", "all"];
  let shown = null;
  const look = () => {
    const root = document.getElementById("timeline");
    const key = root ? `${root.dataset.run}\n${root.dataset.pass}` : "";
    if (shown && shown.tool.root === root && shown.key === key) { return; }
    const before = shown;
    if (shown) { shown.tool.close(); shown = null; }
    if (!root) { return; }
    const isOtherPass = before && before.key.split("\n")[0] === root.dataset.run && before.key !== key;
    shown = {key, tool: new Tool(root)};
    if (isOtherPass) { shown.tool.model.forget(OF_THE_PASS); }
  };
  new MutationObserver(look).observe(document.documentElement, {childList: true, subtree: true,
    attributeFilter: ["data-run", "data-pass"]});
  look();
})();
