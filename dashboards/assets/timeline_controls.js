// The controls above the timeline: moves, choices, search, steps, and the legend as a filter.
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

  const select = (name, options, onchange) => element("select", {"aria-label": name, title: name,
    onchange: (event) => onchange(event.target.value)},
    options.map(([value, text]) => element("option", {value}, text)));

  const field = (name, placeholder, onchange, more = {}) => element("input", {"aria-label": name,
    placeholder, title: name, onchange: (event) => onchange(event.target.value.trim()), ...more});

  T.Controls = class {
    constructor(tool) {
      this.tool = tool;
      const {model} = tool;
      this.search = field("Search events", "Search  /", () => {}, {type: "search", onkeydown: (event) => {
        if (event.key === "Enter") { tool.search(event.target.value.trim()); }
        if (event.key === "Escape") { event.target.blur(); }
      }});
      this.lanes = select("Lanes below the ranks", LANES, (value) => model.set({lanes: value}));
      this.tensor = field("Filter lanes by tensor", "tensor", (value) => model.set({tensor: value}));
      this.ranks = field("Filter ranks", "ranks: 0-3,7", (value) => model.set({ranks: value}));
      this.segment = select("Segment", [["", "All segments"]], (value) => (value
        ? model.go({segment: value}) : model.showWhole()));
      this.step = field("Go to step", "step", (value) => {
        if (/^\d{1,12}$/.test(value)) {
          const segment = this.segmentNow();
          model.go(segment ? {segment, step: value} : {step: value});
        }
      }, {inputmode: "numeric", class: "timeline-step"});
      this.steps = select("Steps of a kind", KINDS, (value) => tool.showSteps(value));
      this.drag = button("Drag selects", "Select a range by dragging, without Shift",
        () => model.set({drag: tool.isSelecting() ? null : "select"}), {"aria-pressed": "false"});
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
      this.root = element("div", {class: "timeline-controls"},
        element("div", {class: "timeline-bar", role: "toolbar", "aria-label": "Timeline"},
          MOVES.map(([text, name, act]) => button(text, name, () => { if (model.window) { act(model); } })),
          this.drag, this.search, this.step, this.steps, this.segment, this.lanes, this.tensor, this.ranks,
          button("PNG", "Save Timeline as PNG", save("png")), button("SVG", "Save Timeline as SVG", save("svg")),
          button("?", "Keys and gestures", () => tool.toggleHelp())),
        this.legend);
    }

    // The segment in the address, or the one in the middle of the window where there are several.
    segmentNow() {
      const {model} = this.tool;
      const segments = (model.data || {segments: []}).segments;
      if (segments.length < 2) { return ""; }
      const middle = (model.window[0] + model.window[1]) / 2;
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
      this.step.disabled = this.steps.disabled = !data.segments.length;
      this.ranks.hidden = data.rows.every((row) => row.kind !== "bands") &&
        data.rows.filter((row) => row.name.startsWith("rank ")).length < 2 && !model.get("ranks");
      this.showLegend(model);
      this.showState(model);
    }

    showLegend(model) {
      const theme = T.themeOf(this.tool.stage, model.data.kinds);
      const hidden = new Set(model.list("hide"));
      // Kinds of which the pass has no event would filter nothing.
      const used = [...model.data.kinds.entries()].filter(([, [name]]) => model.data.used.includes(name));
      T.refill(this.legend, used.map(([at, [name]]) => {
        const box = element("span", {class: "timeline-colour"});
        box.style.background = T.css(theme.colours[at]);
        return element("button", {type: "button", "aria-pressed": String(!hidden.has(name)),
          title: "Show or hide", onclick: () => {
            if (!hidden.delete(name)) { hidden.add(name); }
            model.set({hide: [...hidden].join(",")});
          }}, box, name.replaceAll("_", " "));
      }));
    }

    showState(model) {
      const values = [[this.lanes, model.get("lanes") || (model.get("tensor") ? "tensors" : "")],
        [this.tensor, model.get("tensor")], [this.ranks, model.get("ranks")],
        [this.segment, model.get("segment")], [this.steps, model.get("steps")], [this.step, model.get("step")],
        [this.search, model.get("find")]];
      for (const [control, value] of values) {
        if (document.activeElement !== control || control.tagName === "SELECT") { control.value = value; }
      }
      this.drag.setAttribute("aria-pressed", String(this.tool.isSelecting()));
    }
  };
})();
