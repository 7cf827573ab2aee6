// Gestures and keys on the timeline: zoom at the pointer, pan, select, choose.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const MOVED = 4;
  const STEP = 1.25;

  const isTyping = (target) => target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

  // On one canvas; tool gives scale(), model, choose(x, y), openRow(y), isSelecting() and hover().
  // What comes back ends the drag without effect.
  T.lanesGestures = (canvas, tool) => {
    const pointers = new Map();
    let start = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const distance = () => {
      const [one, other] = [...pointers.values()];
      return Math.max(Math.abs(one[0] - other[0]), 10);
    };
    const pinched = () => {
      const [one, other] = [...pointers.values()];
      return {middle: (one[0] + other[0]) / 2, distance: distance()};
    };

    canvas.addEventListener("wheel", (event) => {
      const [x] = at(event);
      const scale = tool.scale();
      if (!scale || x < scale.left) { return; }
      const [first, last] = tool.model.window;
      const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      const delta = (isSideways ? event.deltaX || event.deltaY : event.deltaY) * (event.deltaMode ? 30 : 1);
      if (isSideways) {
        event.preventDefault();
        tool.model.pan(delta / (scale.right - scale.left));
        return;
      }
      // With the whole pass in view, turning further scrolls the page.
      if (delta > 0 && last - first >= tool.model.length && !event.ctrlKey) { return; }
      event.preventDefault();
      tool.model.zoom(Math.exp(Math.max(-300, Math.min(300, delta)) * (event.ctrlKey ? 0.01 : 0.0025)),
        scale.ns(x));
    }, {passive: false});

    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) { return; }
      const place = at(event);
      pointers.set(event.pointerId, place);
      canvas.setPointerCapture(event.pointerId);
      const scale = tool.scale();
      if (!scale) { return; }
      if (pointers.size === 2) {
        tool.select(null, false);
        start = {kind: "pinch", places: tool.model.places, ...pinched()};
        return;
      }
      const kind = place[0] < scale.left ? "names" :
        event.shiftKey || tool.isSelecting() ? "select" : "pan";
      start = {kind, place, scale, places: tool.model.places, moved: false};
    });

    canvas.addEventListener("pointermove", (event) => {
      const place = at(event);
      tool.hover(place, event);
      if (!start || !pointers.has(event.pointerId)) { return; }
      pointers.set(event.pointerId, place);
      const [first, last] = start.places;
      if (start.kind === "pinch" && pointers.size === 2) {
        const now = pinched();
        const scale = T.scaleOf(first, last, tool.scale().left, tool.scale().right);
        const length = (last - first) * start.distance / now.distance;
        const share = (now.middle - scale.left) / (scale.right - scale.left);
        const from = scale.ns(start.middle) - share * length;
        tool.model.showPlaces(from, from + length);
        return;
      }
      if (!start.place) { return; }
      start.moved = start.moved || Math.hypot(place[0] - start.place[0], place[1] - start.place[1]) > MOVED;
      if (!start.moved) { return; }
      if (start.kind === "pan") {
        const by = start.scale.place(start.place[0]) - start.scale.place(place[0]);
        tool.model.showPlaces(first + by, last + by);
      } else if (start.kind === "select") {
        const clamp = (x) => Math.min(Math.max(x, start.scale.left), start.scale.right);
        tool.select([start.place[0], place[0]].map((x) => Math.round(start.scale.ns(clamp(x))))
          .sort((one, other) => one - other), false);
      }
    });

    const end = (event) => {
      pointers.delete(event.pointerId);
      const done = start;
      if (pointers.size) { return; }
      start = null;
      if (event.type === "pointercancel") { tool.select(null, false); return; }
      if (!done || !done.place) { return; }
      if (done.kind === "select" && done.moved) { tool.select(null, true); return; }
      if (done.moved) { return; }
      if (done.kind === "names") { tool.openRow(done.place[1]); } else { tool.choose(...done.place); }
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => tool.hover(null));
    canvas.addEventListener("dblclick", () => tool.model.showWhole());
    return () => { start = null; };
  };

  // The overview: a drag inside of the window moves it, one beside it draws another.
  T.overviewGestures = (canvas, tool) => {
    let start = null;
    const x = (event) => event.clientX - canvas.getBoundingClientRect().left;
    const y = (event) => event.clientY - canvas.getBoundingClientRect().top;
    canvas.addEventListener("pointerdown", (event) => {
      const scale = tool.wholeScale();
      if (!scale || event.button || x(event) < scale.left) { return; }
      if (y(event) > T.STRIP) {
        const segment = tool.segmentAt(scale.ns(x(event)), y(event));
        if (segment) { tool.model.go({segment}); }
        return;
      }
      canvas.setPointerCapture(event.pointerId);
      const at = scale.place(x(event));
      const [first, last] = tool.model.places;
      const isInside = at >= first && at <= last && last - first < scale.high;
      start = {at, first, last, isInside, place: x(event), moved: false};
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!start) { return; }
      start.moved = start.moved || Math.abs(x(event) - start.place) > MOVED;
      if (!start.moved) { return; }
      const at = tool.wholeScale().place(x(event));
      if (start.isInside) {
        tool.model.showPlaces(start.first + at - start.at, start.last + at - start.at);
      } else {
        tool.model.showPlaces(Math.min(at, start.at), Math.max(at, start.at));
      }
    });
    canvas.addEventListener("pointerup", () => {
      if (start && !start.moved && !start.isInside) {
        const half = (start.last - start.first) / 2;
        if (2 * half < tool.wholeScale().high) { tool.model.showPlaces(start.at - half, start.at + half); }
      }
      start = null;
    });
    canvas.addEventListener("pointercancel", () => { start = null; });
    canvas.addEventListener("dblclick", () => tool.model.showWhole());
  };

  // Keys work wherever nothing else takes them.
  T.keys = (tool) => {
    const {model} = tool;
    const actions = {
      w: () => model.zoom(1 / STEP / STEP, tool.pointed()),
      s: () => model.zoom(STEP * STEP, tool.pointed()),
      a: () => model.pan(-0.25),
      d: () => model.pan(0.25),
      arrowup: () => model.zoom(1 / STEP / STEP, tool.pointed()),
      arrowdown: () => model.zoom(STEP * STEP, tool.pointed()),
      arrowleft: () => model.pan(-0.25),
      arrowright: () => model.pan(0.25),
      0: () => model.showWhole(),
      f: () => tool.fit(),
      r: () => tool.selectView(),
      o: () => tool.openGroups(),
      m: () => tool.mark(),
      n: () => tool.toActing(1),
      p: () => tool.toActing(-1),
      "/": () => tool.focusSearch(),
      "?": () => tool.toggleHelp(),
      escape: () => tool.clear(),
    };
    return (event) => {
      const key = event.key.toLowerCase();
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !model.window) { return; }
      // Arrows scroll the page and move in lists unless the lanes have the focus.
      if (key.startsWith("arrow") && !tool.hasFocus()) { return; }
      const action = Object.hasOwn(actions, key) ? actions[key] : null;
      if (!action) { return; }
      event.preventDefault();
      action();
    };
  };
})();
