// The controls of the timeline: the search, the legend as a filter, moves, and what is rarely used.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const {element, button} = T;
  const MOVES = [
    ["◀", "Earlier", (model) => model.pan(-0.5)],
    ["▶", "Later", (model) => model.pan(0.5)],
    ["+", "Zoom in", (model) => model.zoom(0.5)],
    ["−", "Zoom out", (model) => model.zoom(2)],
    ["Whole pass", "Show the whole pass", (model) => model.showWhole()],
  ];
  const KINDS = [["", "Steps…"], ["longest", "Longest steps"], ["straggler", "With a straggler"],
    ["stall", "With a stall"], ["warmup", "Warm-up"]];
  const LANES = [["", "Horovod: executions"], ["tensors", "Horovod: tensors"]];

  const NAMES = {outside: "outside all phases"};
  const shareText = (share) => (share === undefined ? "" : share < 0.0005 ? "0 %" :
    `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);

  const select = (name, options, onchange) => element("select", {"aria-label": name, title: name,
    onchange: (event) => onchange(event.target.value)},
    options.map(([value, text]) => element("option", {value}, text)));

  const field = (name, placeholder, onchange, more = {}) => element("input", {"aria-label": name,
    placeholder, title: name, onchange: (event) => onchange(event.target.value.trim()), ...more});

  // "step 15, rank 3, conv1": a step, ranks, part of a tensor's name, and what is searched for.
  T.readSearch = (text) => {
    const asked = {step: "", ranks: [], tensor: "", find: []};
    let before = "";
    for (const part of text.split(",").map((one) => one.trim()).filter(Boolean)) {
      const [, word, rest] = /^(steps?|ranks?|tensors?)\s+(.+)$/i.exec(part) || ["", "", part];
      const kind = word.toLowerCase().replace(/s$/, "") || (/^\d{1,12}$/.test(part) && before !== "rank" ? "step" : "");
      if (kind === "step" && /^\d{1,12}$/.test(rest)) { asked.step = rest; }
      else if (kind === "rank" || (before === "rank" && /^\d+(\s*-\s*\d+)?$/.test(part))) { asked.ranks.push(rest); before = "rank"; continue; }
      else if (kind === "tensor") { asked.tensor = rest; }
      else { asked.find.push(part); }
      before = kind;
    }
    return {...asked, ranks: asked.ranks.join(","), find: asked.find.join(", ")};
  };

  const searchText = (model) => [
    model.get("step") && `step ${model.get("step")}`, model.get("ranks") && `rank ${model.get("ranks")}`,
    model.get("tensor") && `tensor ${model.get("tensor")}`, model.get("find")].filter(Boolean).join(", ");

  T.Controls = class {
    constructor(tool) {
      this.tool = tool;
      const {model} = tool;
      this.search = field("Search: step, rank, tensor or event", "step 15, rank 3, conv1  /", () => {}, {
        type: "search", class: "timeline-search", onkeydown: (event) => {
          if (event.key === "Enter") { tool.search(event.target.value.trim()); }
          if (event.key === "Escape") { event.target.blur(); }
        }});
      this.lanes = select("Lanes below the ranks", LANES, (value) => model.set({lanes: value}));
      this.segment = select("Segment", [["", "All segments"]], (value) => (value
        ? model.go({segment: value}) : model.showWhole()));
      this.steps = select("Steps of a kind", KINDS, (value) => tool.showSteps(value));
      this.drag = button("Drag selects", "Select a range by dragging, without Shift",
        () => model.set({drag: tool.isSelecting() ? null : "select"}), {"aria-pressed": "false"});
      this.acting = ["Previous", "Next"].map((name, at) => button(at ? "▶▶" : "◀◀", `${name} such step`,
        () => tool.toActing(at ? 1 : -1)));
      this.legend = element("div", {class: "timeline-legend", role: "group", "aria-label": "Activities"});
      const save = (kind) => () => {
        const scene = tool.scene();
        if (!scene) { return; }
        if (kind === "svg") {
          T.save("timeline.svg", new Blob([T.svg(scene)], {type: "image/svg+xml"}));
        } else {
          T.png(scene, (blob) => T.save("timeline.png", blob));
        }
      };
      this.more = element("details", {class: "timeline-more"}, element("summary", {}, "More"),
        element("div", {}, this.steps, this.segment, this.lanes, this.drag,
          button("PNG", "Save Timeline as PNG", save("png")), button("SVG", "Save Timeline as SVG", save("svg"))));
      this.onPress = (event) => { if (!this.more.contains(event.target)) { this.more.open = false; } };
      document.addEventListener("pointerdown", this.onPress);
      this.root = element("div", {class: "timeline-controls", role: "toolbar", "aria-label": "Timeline"}, this.legend,
        MOVES.map(([text, name, act]) => button(text, name, () => { if (model.window) { act(model); } })),
        this.acting, this.more, button("?", "Keys and gestures", () => tool.toggleHelp()));
      // The first of the two rows, with the sentence and the pass.
      document.getElementById("timeline-search")?.replaceChildren(this.search);
    }

    close() { document.removeEventListener("pointerdown", this.onPress); }

    // The segment in the address, or the one in the middle of the window where there are several.
    segmentNow() {
      const {model} = this.tool;
      const segments = (model.data || {segments: []}).segments;
      if (segments.length < 2) { return ""; }
      const {middle} = model;
      const here = segments.find((one) => middle >= one.from && middle <= one.to) || segments[0];
      return model.get("segment") || here.name;
    }

    showData(model) {
      const {data} = model;
      this.segment.hidden = data.segments.length < 2;
      if (this.segment.options.length !== data.segments.length + 1) {
        this.segment.replaceChildren(element("option", {value: ""}, "All segments"), ...data.segments.map((one) =>
          element("option", {value: one.name}, `${one.name} (steps ${one.first_step} to ${one.last_step})`)));
      }
      this.steps.disabled = !data.segments.length;
      this.acting.forEach((one, at) => {
        one.disabled = !data.acting.length;
        one.title = `${at ? "Next" : "Previous"} ${data.finding ? `step of: ${data.finding}` : "steady step"}`;
      });
      this.showLegend(model);
      this.showState(model);
    }

    showLegend(model) {
      const theme = T.themeOf(this.tool.stage, model.data.kinds);
      const hidden = new Set(model.list("hide"));
      // Kinds of which the pass has no event would filter nothing.
      const used = [...model.data.kinds.entries()].filter(([, [name]]) => model.data.used.includes(name));
      const chip = (colour, name, number, more) => {
        const box = element("span", {class: "timeline-colour"});
        box.style.background = colour;
        // Browsers leave a chip cut of which they show a part.
        const onfocus = (event) => event.target.scrollIntoView({block: "nearest", inline: "nearest"});
        return element("button", {type: "button", onfocus, ...more}, box, name, element("span", {class: "timeline-share"}, number));
      };
      const chips = used.map(([at, [name]]) => {
        const label = NAMES[name] || name.replaceAll("_", " ");
        return chip(T.css(theme.colours[at]), label, shareText(model.data.shares[name]), {"aria-pressed": String(!hidden.has(name)),
          title: `Show or hide. The number is its share of the view: ${at < 8 ? "mean over the ranks" : "sum over its events"}`, "aria-label": label,
          onclick: () => {
            if (!hidden.delete(name)) { hidden.add(name); }
            model.set({hide: [...hidden].join(",")});
          }});
      });
      // In a narrow window a turn has no room for its name.
      const {turns} = model.data.axis;
      if (turns.length) {
        const sum = T.lengthText(turns.reduce((length, [from, to]) => length + to - from, 0));
        chips.push(chip(theme.turn, "hvdprof's turns", sum, {
          title: "Go to the next time in which other launches run. It is drawn narrower than it is.",
          onclick: () => {
            const [from, to] = turns.find(([begin]) => begin > model.middle) || turns[0];
            this.tool.center(from, to - from);
          }}));
      }
      T.refill(this.legend, chips);
    }

    showState(model) {
      const values = [[this.lanes, model.get("lanes") || (model.get("tensor") ? "tensors" : "")],
        [this.segment, model.get("segment")], [this.steps, model.get("steps")], [this.search, searchText(model)]];
      for (const [control, value] of values) {
        if (document.activeElement !== control || control.tagName === "SELECT") { control.value = value; }
      }
      this.drag.setAttribute("aria-pressed", String(this.tool.isSelecting()));
    }
  };
})();
