// The two parts of the timeline: the sticky top with overview, axis and pins, and the lanes below.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const MARK_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

  const topHeight = (scene) =>
    T.STRIP + (scene.segments.length > 1 ? T.SEGMENTS : 0) + T.AXIS + scene.layout.pinnedHeight;

  const clear = (ctx, scene, height) => {
    ctx.fillStyle = scene.theme.paper;
    ctx.fillRect(0, 0, scene.layout.width, height);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
  };

  const line = (ctx, points, colour, width = 1, dash = []) => {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.beginPath();
    points.forEach(([x, y], at) => (at ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
    ctx.stroke();
    ctx.setLineDash([]);
  };

  const inside = (scale, x) => Math.min(Math.max(x, scale.left), scale.right);

  // A stretch of time from top to bottom.
  const wash = (ctx, scale, from, to, top, height, colour) => {
    if (to < scale.first || from > scale.last) { return; }
    const left = inside(scale, scale.x(from));
    ctx.fillStyle = colour;
    ctx.fillRect(left, top, Math.max(inside(scale, scale.x(to)) - left, 1), height);
  };

  // The turns of hvdprof, with their true lengths where a text has room.
  const turns = (ctx, scale, top, height, theme, withText = false) => {
    for (const [from, to] of scale.axis.turns) {
      if (to <= scale.first || from >= scale.last) { continue; }
      const [left, right] = [from, to].map((time) => inside(scale, scale.x(time)));
      wash(ctx, scale, from, to, top, height, theme.turn);
      [left, right].forEach((x) => line(ctx, [[x, top], [x, top + height]], theme.soft, 1, [2, 2]));
      if (!withText) { continue; }
      ctx.font = `italic 11px ${T.FONT}`;
      ctx.fillStyle = theme.ink;
      const length = T.lengthText(to - from);
      const widthOf = (text) => ctx.measureText(text).width + 8;
      const isUpright = right - left <= widthOf(length);
      const room = isUpright ? (right - left >= 12 ? height : 0) : right - left;
      const text = [`hvdprof's turn, ${length}`, length].find((one) => widthOf(one) < room);
      if (text) { T.centered(ctx, text, (left + right) / 2, top + height / 2, isUpright); }
    }
  };

  const overview = (ctx, scene) => {
    const {base, layout, theme, whole} = scene;
    const lanes = layout.places.filter((place) => place.row.lane >= 0 && !place.pinned);
    const height = T.STRIP / Math.max(lanes.length, 1);
    lanes.forEach((place, at) => T.drawLane(
      ctx, base, theme, {...place, height}, whole, at * height, false));
    turns(ctx, whole, 0, T.STRIP, theme);
    const [left, right] = scene.window.map(whole.x);
    ctx.fillStyle = theme.isDark ? "rgba(0,0,0,0.55)" : "rgba(255,255,255,0.66)";
    ctx.fillRect(whole.left, 0, left - whole.left, T.STRIP);
    ctx.fillRect(right, 0, whole.right - right, T.STRIP);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(left, 1, Math.max(right - left, 3), T.STRIP - 2);
    label(ctx, scene, "whole pass", T.STRIP / 2);
    if (scene.segments.length < 2) { return T.STRIP; }
    ctx.font = `10px ${T.FONT}`;
    scene.segments.forEach((segment, at) => {
      const start = whole.x(segment.from);
      const width = Math.max(whole.x(segment.to) - start, 2);
      ctx.fillStyle = at % 2 ? theme.wash : theme.chosen;
      ctx.fillRect(start, T.STRIP + 1, width, T.SEGMENTS - 2);
      if (width > 24) {
        ctx.fillStyle = theme.ink;
        ctx.fillText(T.fitted(ctx, segment.name, width - 6), start + 3, T.STRIP + T.SEGMENTS / 2);
      }
    });
    label(ctx, scene, "segments", T.STRIP + T.SEGMENTS / 2);
    return T.STRIP + T.SEGMENTS;
  };

  const label = (ctx, scene, text, y, colour) => {
    ctx.font = `11px ${T.FONT}`;
    ctx.fillStyle = colour || scene.theme.soft;
    ctx.fillText(T.fitted(ctx, text, scene.layout.gutter - 10), 4, y);
  };

  const axis = (ctx, scene, top) => {
    const {scale, theme} = scene;
    const {ticks, base} = T.ticksOf(scale.first, scale.last, scale.right - scale.left, scale.axis);
    const isNarrow = scene.layout.gutter < 100;
    label(ctx, scene, base ? `${isNarrow ? "" : "from "}${base}` : isNarrow ? "time" : "time in the pass", top + 8);
    label(ctx, scene, "step", top + 25);
    ctx.font = `11px ${T.FONT}`;
    let taken = -Infinity;
    for (const [at, text] of ticks) {
      const x = scale.x(at);
      line(ctx, [[x, top + 15], [x, top + 18]], theme.soft);
      const width = ctx.measureText(text).width;
      const from = Math.min(Math.max(x - width / 2, scale.left), scale.right - width);
      if (from < taken) { continue; }
      ctx.fillStyle = theme.ink;
      ctx.fillText(text, from, top + 8);
      taken = from + width + 6;
    }
    let free = scale.left;
    const {steps} = scene.data;
    steps.number.forEach((number, at) => {
      if (steps.end[at] < scale.first || steps.start[at] > scale.last) { return; }
      const x = Math.max(scale.x(steps.start[at]), scale.left);
      const end = inside(scale, scale.x(steps.end[at]));
      const plain = `${number}${steps.warmup[at] ? " warm-up" : ""}`;
      const full = steps.straggler[at] >= 0 ? `${plain} straggler rank ${steps.straggler[at]}` : plain;
      const text = ctx.measureText(full).width < end - x - 6 ? full : plain;
      const width = ctx.measureText(text).width;
      // The rest of a step that begins before the window leaves its place to the next one.
      const isCut = steps.start[at] < scale.first && width > end - x;
      if (x < free || isCut || x + width > scale.right) { return; }
      ctx.fillStyle = steps.straggler[at] >= 0 ? theme.accent : theme.soft;
      ctx.fillText(text, x + 2, top + 25);
      free = x + width + 12;
    });
    return top + T.AXIS;
  };

  const marksOf = (scene) => scene.marks.map((at, number) => [at, MARK_NAMES[number % 26]]);

  const chosen = (ctx, scene, top, height, withText) => {
    const {scale, theme, selection} = scene;
    if (selection) {
      wash(ctx, scale, selection[0], selection[1], top, height, theme.chosen);
      if (withText && selection[1] > scale.first && selection[0] < scale.last) {
        const text = scale.axis.text(selection[0], selection[1]);
        ctx.font = `bold 12px ${T.FONT}`;
        const x = inside(scale, scale.x(selection[0])) + 3;
        const width = ctx.measureText(text).width;
        ctx.fillStyle = theme.paper;
        ctx.fillRect(x - 2, top + 1, width + 4, 15);
        ctx.fillStyle = theme.accent;
        ctx.fillText(text, x, top + 9);
      }
    }
    for (const [at, name] of marksOf(scene)) {
      if (at < scale.first || at > scale.last) { continue; }
      line(ctx, [[scale.x(at), top], [scale.x(at), top + height]], theme.accent, 1, [4, 3]);
      if (withText) {
        ctx.font = `bold 11px ${T.FONT}`;
        ctx.fillStyle = theme.accent;
        ctx.fillText(name, scale.x(at) + 3, top + 9);
      }
    }
  };

  const paintTop = (ctx, scene) => {
    const height = topHeight(scene);
    clear(ctx, scene, height);
    const top = overview(ctx, scene);
    turns(ctx, scene.scale, top, height - top, scene.theme);
    const from = axis(ctx, scene, top);
    scene.layout.places.filter((place) => place.pinned).forEach((place) => {
      lane(ctx, scene, place, from + place.top);
    });
    chosen(ctx, scene, top, height - top, true);
    line(ctx, [[0, height - 0.5], [scene.layout.width, height - 0.5]], scene.theme.grid);
  };

  const lane = (ctx, scene, place, top) => {
    const {theme, scale, data, base, event} = scene;
    if (place.height >= 10 || place.at % Math.ceil(11 / place.height) === 0) {
      label(ctx, scene, (place.pinned ? "◆ " : "") + place.row.name, top + place.height / 2, theme.ink);
    }
    // What the last answer does not cover comes from the overview until the next answer.
    const covered = data.from <= scale.first && data.to >= scale.last;
    if (!covered && base.rowsKey === data.rowsKey) {
      T.drawLane(ctx, base, theme, place, scale, top, false);
      wash(ctx, scale, data.from, data.to, top, place.height, theme.paper);
    }
    T.drawLane(ctx, data, theme, place, scale, top);
    if (event && event.lane === place.row.lane && event.start_ns <= scale.last &&
        event.start_ns + event.dur_ns >= scale.first) {
      const left = inside(scale, scale.x(event.start_ns));
      const right = inside(scale, scale.x(event.start_ns + event.dur_ns));
      ctx.strokeStyle = theme.ink;
      ctx.lineWidth = 2.5;
      ctx.strokeRect(left - 1, top + 1, Math.max(right - left, 3) + 2, place.height - 2);
    }
  };

  const counter = (ctx, scene, place, top) => {
    const {theme, scale, data} = scene;
    const one = data.counters.find((found) => found.row === place.at);
    if (!one) { return; }
    label(ctx, scene, place.row.name, top + place.height / 2 - 6, theme.ink);
    label(ctx, scene, one.missing || (scene.layout.gutter < 100 ? one.text : `mean up to ${one.text}`), top + place.height / 2 + 8);
    const [begin, end] = [data.from, data.to].map(scale.axis.of);
    const per = (end - begin) / one.values.length;
    ctx.fillStyle = T.css(theme.colours[place.row.kind === "bytes" ? 2 : 3], 0.8);
    one.values.forEach((value, at) => {
      const from = begin + at * per;
      if (!value || from + per < scale.low || from > scale.high) { return; }
      const left = inside(scale, scale.at(from));
      const height = (place.height - 4) * value / one.most;
      ctx.fillRect(left, top + place.height - 2 - height,
        Math.max(inside(scale, scale.at(from + per)) - left, 0.5), height);
    });
  };

  const bands = (ctx, scene, place, top) => {
    const {theme, scale, data} = scene;
    label(ctx, scene, `${place.row.open ? "▾" : "▸"} ${place.row.name}`, top + 14, theme.ink);
    const one = data.bands.find((found) => found.row === place.at);
    if (!one || !one.quantiles.length) { return; }
    const [least, most] = [Math.min(...one.quantiles[0]), Math.max(...one.quantiles[4])];
    label(ctx, scene, `own ${T.lengthText(least)} to ${T.lengthText(most)}`, top + 30);
    // The differences between ranks are a small part of their work.
    const room = Math.max(most - least, 0.02 * most, 1);
    const y = (value) => top + place.height - 5 - (place.height - 10) * (value - least) / room;
    one.start.forEach((start, at) => {
      if (one.end[at] < scale.first || start > scale.last) { return; }
      const left = inside(scale, scale.x(start));
      const width = Math.max(inside(scale, scale.x(one.end[at])) - left - 0.5, 0.5);
      for (const [low, high, alpha] of [[0, 4, 0.3], [1, 3, 0.55]]) {
        const above = y(one.quantiles[high][at]);
        ctx.fillStyle = T.css(theme.colours[1], alpha);
        ctx.fillRect(left, above, width, Math.max(y(one.quantiles[low][at]) - above, 1));
      }
      ctx.fillStyle = theme.ink;
      ctx.fillRect(left, y(one.quantiles[2][at]) - 0.75, width, 1.5);
    });
  };

  const marks = (ctx, scene, byLane, theme) => {
    const {data, scale} = scene;
    data.marks.time.forEach((at, number) => {
      const place = byLane.get(data.marks.lane[number]);
      if (!place || at < scale.first || at > scale.last) { return; }
      const x = scale.x(at);
      const y = place.top + place.height;
      ctx.fillStyle = theme.ink;
      if (data.marks.ready[number]) {
        ctx.beginPath();
        ctx.moveTo(x, y - 6); ctx.lineTo(x - 3, y); ctx.lineTo(x + 3, y);
        ctx.closePath();
        ctx.fill();
      } else {
        ctx.fillRect(x - 0.5, y - 6, 1, 6);
      }
    });
  };

  const arrows = (ctx, scene, byLane, theme) => {
    const {data, scale} = scene;
    for (const arrow of data.arrows) {
      const from = byLane.get(arrow.lane);
      if (!from || arrow.to < scale.first || arrow.from > scale.last) { continue; }
      const start = [scale.x(arrow.from), from.top + from.height / 2];
      for (const other of arrow.others) {
        const to = byLane.get(other);
        if (!to) { continue; }
        const end = [scale.x(arrow.to), to.top + to.height / 2];
        // The part between the ends of the window, which keeps its slope.
        const at = (x) => [x, start[1] + (end[1] - start[1]) * (x - start[0]) / Math.max(end[0] - start[0], 1e-9)];
        line(ctx, [start[0] < scale.left ? at(scale.left) : start, end[0] > scale.right ? at(scale.right) : end],
          theme.ink, 1.2);
        if (arrow.to > scale.last) { continue; }
        const angle = Math.atan2(end[1] - start[1], end[0] - start[0]);
        ctx.fillStyle = theme.ink;
        ctx.beginPath();
        ctx.moveTo(end[0], end[1]);
        for (const turn of [2.7, -2.7]) {
          ctx.lineTo(end[0] + 8 * Math.cos(angle + turn), end[1] + 8 * Math.sin(angle + turn));
        }
        ctx.closePath();
        ctx.fill();
      }
      if (arrow.from < scale.first) { continue; }
      ctx.fillStyle = theme.ink;
      ctx.fillRect(start[0] - 2, start[1] - 2, 4, 4);
    }
  };

  const notes = (ctx, scene, byLane, theme) => {
    const {data, scale} = scene;
    for (const note of data.notes) {
      const place = byLane.get(note.lane);
      if (!place || note.to < scale.first || note.from > scale.last) { continue; }
      const left = inside(scale, scale.x(note.from));
      const room = inside(scale, scale.x(note.to)) - left;
      if (room < 60) { continue; }
      ctx.font = `italic 11px ${T.FONT}`;
      ctx.fillStyle = theme.soft;
      ctx.fillText(T.begun(ctx, note.text, room - 6), left + 3, place.top + place.height / 2);
    }
  };

  const paintLanes = (ctx, scene) => {
    const {layout, theme, scale, data} = scene;
    clear(ctx, scene, layout.height);
    const {steps} = data;
    const own = layout.places.filter((place) => !place.pinned);
    const byLane = new Map(own.filter((place) => place.row.lane >= 0)
      .map((place) => [place.row.lane, place]));
    steps.number.forEach((_, at) => {
      const colour = steps.warmup[at] ? theme.wash : steps.straggler[at] >= 0 ? theme.tint : null;
      // The fastest rank begins the next step before the slowest has ended this one.
      const end = Math.min(steps.end[at], steps.start[at + 1] ?? Infinity);
      if (colour) { wash(ctx, scale, steps.start[at], end, 0, layout.height, colour); }
    });
    for (const place of own) {
      if (place.row.kind === "lane") {
        lane(ctx, scene, place, place.top);
      } else if (place.row.kind === "bands") {
        bands(ctx, scene, place, place.top);
      } else if (place.row.kind === "group") {
        ctx.font = `bold 11px ${T.FONT}`;
        ctx.fillStyle = theme.ink;
        ctx.fillText(T.fitted(ctx, place.row.name, layout.width - 10), 4, place.top + place.height / 2);
        line(ctx, [[0, place.top + 0.5], [layout.width, place.top + 0.5]], theme.grid);
      } else {
        counter(ctx, scene, place, place.top);
      }
    }
    let last = -Infinity;
    steps.start.forEach((start) => {
      const x = scale.x(start);
      if (start < scale.first || start > scale.last || x - last < 6) { return; }
      line(ctx, [[x, 0], [x, layout.height]], theme.soft, 1, [1, 3]);
      last = x;
    });
    marks(ctx, scene, byLane, theme);
    arrows(ctx, scene, byLane, theme);
    notes(ctx, scene, byLane, theme);
    turns(ctx, scale, 0, layout.height, theme, true);
    chosen(ctx, scene, 0, layout.height, false);
    line(ctx, [[layout.gutter - 2, 0], [layout.gutter - 2, layout.height]], theme.grid);
  };

  Object.assign(T, {topHeight, paintTop, paintLanes});
})();
