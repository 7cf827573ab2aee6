// Drawing of the timeline on a canvas, or on what takes the same calls (timeline_image.js).
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const FONT = "system-ui, sans-serif";
  const HEIGHTS = {group: 20, bands: 46};
  const [LOWEST, HIGHEST] = [18, 48];
  const STRIP = 26;
  const SEGMENTS = 14;
  const AXIS = 34;

  const rgb = (text) => (text.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const luminance = ([red, green, blue]) => (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;

  // Dark hues are hard to tell from dark paper: they are mixed with white there.
  const onPaper = (colour, isDark) => {
    const parts = hex(colour);
    if (!isDark || luminance(parts) > 0.42) { return parts; }
    const share = (0.42 - luminance(parts)) / (1 - luminance(parts));
    return parts.map((one) => Math.round(one + share * (255 - one)));
  };

  const themeOf = (element, kinds) => {
    const style = window.getComputedStyle(element);
    const isDark = luminance(rgb(style.backgroundColor)) < 0.4;
    return {
      paper: style.backgroundColor,
      ink: style.color,
      soft: style.outlineColor,
      grid: style.borderTopColor,
      isDark,
      colours: kinds.map(([, colour]) => onPaper(colour, isDark)),
      tint: isDark ? "rgba(255,140,80,0.16)" : "rgba(213,94,0,0.12)",
      wash: isDark ? "rgba(255,255,255,0.08)" : "rgba(0,0,0,0.06)",
      turn: isDark ? "rgba(255,255,255,0.14)" : "rgba(0,0,0,0.10)",
      chosen: isDark ? "rgba(86,180,233,0.28)" : "rgba(0,114,178,0.18)",
      accent: isDark ? "#7cc7f2" : "#005a8e",
    };
  };
  const css = (parts, alpha = 1) => `rgba(${parts[0]},${parts[1]},${parts[2]},${alpha})`;

  // Places of the rows from the top: pinned ones in the sticky part, the others below it.
  // Lanes take the room that there is; counters are a little higher than they.
  const placed = (rows, width, room) => {
    const gutter = width < 700 ? 86 : 168;
    const others = rows.filter((row) => !row.pinned);
    const fixed = others.reduce((sum, row) => sum + (HEIGHTS[row.kind] || 0), 4);
    const shares = others.reduce((sum, row) => sum + (HEIGHTS[row.kind] ? 0 : row.lane >= 0 ? 1 : 1.3), 0);
    const height = Math.min(Math.max(Math.floor((room - fixed) / Math.max(shares, 1)), LOWEST), HIGHEST);
    const tops = {pinned: 0, other: 0};
    let slot = 0;
    const places = rows.map((row, at) => {
      const counter = Math.max(Math.floor(1.3 * height), 32);
      const tall = row.pinned ? 24 : HEIGHTS[row.kind] || (row.lane >= 0 ? height : counter);
      const group = row.pinned ? "pinned" : "other";
      const place = {row, at, top: tops[group], height: tall, pinned: row.pinned,
        slot: row.lane >= 0 ? slot++ : -1};
      tops[group] += tall;
      return place;
    });
    return {gutter, width, places, pinnedHeight: tops.pinned, height: tops.other + 4};
  };

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const unitOf = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];
  const lengthText = (ns) => {
    const [size, unit] = unitOf(ns);
    return `${Number((ns / size).toPrecision(3)).toLocaleString("en-US")} ${unit}`;
  };
  // Where the window is a small part of what lies before it, ticks count from a base.
  const ticksOf = (first, last, room, axis = T.PLAIN) => {
    const own = axis.parts(first, last);
    const parts = own.length ? own : [[first, last]];
    const length = own.length ? axis.of(last) - axis.of(first) : last - first;
    const raw = length / Math.max(room / (room < 400 ? 75 : 110), 2);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
    const number = (at, size) => {
      const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
      return (at / size).toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
    };
    const start = Math.ceil(parts[0][0] / step) * step;
    const isFar = first > 4 * length;
    const [size, unit] = unitOf(isFar ? Math.max(length, 1e3)
      : last >= 1e10 ? 1e9 : Math.max(step * 10, 1e3));
    const ticks = [];
    for (const [from, to] of parts) {
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        ticks.push([at, `${isFar ? "+" : ""}${number(isFar ? at - start : at, size)} ${unit}`]);
      }
    }
    const [far, farUnit] = unitOf(start >= 1e10 ? 1e9 : 1e6);
    return {ticks, base: isFar ? `${number(start, far)} ${farUnit}` : ""};
  };

  // The longest text that fits, cut in the middle.
  const fitted = (ctx, text, room) => {
    if (ctx.measureText(text).width <= room) { return text; }
    let keep = Math.floor(text.length * room / Math.max(ctx.measureText(text).width, 1)) - 1;
    for (; keep > 2; keep -= 1) {
      const head = Math.ceil(keep / 2);
      const cut = `${text.slice(0, head)}…${text.slice(text.length - (keep - head))}`;
      if (ctx.measureText(cut).width <= room) { return cut; }
    }
    return keep > 0 ? text.slice(0, 1) : "";
  };

  // The end of a name, by which tensors of one model differ.
  const ending = (ctx, text, room) => {
    if (ctx.measureText(text).width <= room) { return text; }
    for (let keep = Math.min(text.length - 1, Math.ceil(room / 4)); keep > 3; keep -= 1) {
      const cut = `…${text.slice(text.length - keep)}`;
      if (ctx.measureText(cut).width <= room) { return cut; }
    }
    return "";
  };

  // The beginning of a sentence; nothing where less than half of it fits.
  const begun = (ctx, text, room) => {
    if (ctx.measureText(text).width <= room) { return text; }
    for (let keep = text.length - 1; keep > text.length / 2; keep -= 1) {
      const cut = `${text.slice(0, keep).trimEnd()}…`;
      if (ctx.measureText(cut).width <= room) { return cut; }
    }
    return "";
  };

  // A text around its middle; an upright one is read from the bottom to the top.
  const centered = (ctx, text, x, y, isUpright) => {
    ctx.textAlign = "center";
    if (!isUpright) {
      ctx.fillText(text, x, y);
    } else if (ctx.upright) {
      ctx.upright(text, x, y);
    } else {
      ctx.save();
      ctx.translate(x, y);
      ctx.rotate(-Math.PI / 2);
      ctx.fillText(text, 0, 0);
      ctx.restore();
    }
    ctx.textAlign = "left";
  };

  // A byte per bin and lane as pixels, once per answer and theme.
  const binImage = (data, theme) => {
    const key = theme.isDark ? "dark" : "light";
    data.images = data.images || {};
    if (data.images[key]) { return data.images[key]; }
    if (!data.codes) {
      data.codes = Uint8Array.from(window.atob(data.bins.codes), (one) => one.charCodeAt(0));
    }
    const codes = data.codes;
    const canvas = document.createElement("canvas");
    canvas.width = data.bins.width;
    canvas.height = Math.max(codes.length / data.bins.width, 1);
    const ctx = canvas.getContext("2d");
    const image = ctx.createImageData(canvas.width, canvas.height);
    for (let at = 0; at < codes.length; at += 1) {
      if (!codes[at]) { continue; }
      const colour = theme.colours[Math.floor((codes[at] - 1) / data.shades)];
      const shade = (codes[at] - 1) % data.shades + 1;
      image.data.set(colour, 4 * at);
      image.data[4 * at + 3] = 255 * (0.3 + 0.7 * shade / data.shades);
    }
    ctx.putImageData(image, 0, 0);
    data.images[key] = canvas;
    return canvas;
  };

  // Bins of one lane between two times, without smoothing; those of an image file as rectangles.
  const drawBins = (ctx, data, theme, slot, scale, top, height) => {
    const width = data.bins.width;
    // Bins are equally wide on the axis.
    const [begin, end] = [data.from, data.to].map(scale.axis.of);
    const perBin = (end - begin) / width;
    const from = Math.max(begin, scale.low);
    const to = Math.min(end, scale.high);
    if (to <= from) { return; }
    const image = binImage(data, theme);
    if (slot >= image.height) { return; }
    if (!ctx.drawImage) {
      const low = Math.floor((from - begin) / perBin);
      const high = Math.min(Math.ceil((to - begin) / perBin), width);
      for (let at = low; at < high;) {
        const code = data.codes[slot * width + at];
        let stop = at + 1;
        while (stop < high && data.codes[slot * width + stop] === code) { stop += 1; }
        if (code) {
          const shade = (code - 1) % data.shades + 1;
          ctx.fillStyle = css(
            theme.colours[Math.floor((code - 1) / data.shades)], 0.3 + 0.7 * shade / data.shades);
          const left = Math.max(scale.at(begin + at * perBin), scale.left);
          const right = Math.min(scale.at(begin + stop * perBin), scale.right);
          ctx.fillRect(left, top, right - left, height);
        }
        at = stop;
      }
      return;
    }
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(image, (from - begin) / perBin, slot, (to - from) / perBin, 1,
      scale.at(from), top, scale.at(to) - scale.at(from), height);
  };

  const INNER = new Set(["blocked", "init", "wait", "queue", "copy", "transfer"]);

  // What is drawn on top of them would cut their texts.
  const OUTER = new Set(["optimizer", "operation"]);

  const drawBars = (ctx, data, theme, place, scale, top, withText) => {
    const {bars} = data;
    for (const at of barsOf(data, place.row.lane)) {
      const end = bars.start[at] + bars.length[at];
      if (end < scale.first || bars.start[at] > scale.last) { continue; }
      const left = Math.max(scale.x(bars.start[at]), scale.left);
      const right = Math.min(scale.x(end), scale.right);
      const kind = data.kinds[bars.kind[at]][0];
      const isInner = INNER.has(kind);
      const height = Math.max(place.height * (isInner ? 0.5 : 0.84), Math.min(place.height, 2));
      const colour = theme.colours[bars.kind[at]];
      const width = Math.max(right - left, 1);
      ctx.fillStyle = css(colour);
      ctx.fillRect(left, top + (place.height - height) / 2, width, height);
      if (withText && width > 46 && height >= 12 && !OUTER.has(kind)) {
        ctx.font = `11px ${FONT}`;
        ctx.fillStyle = luminance(colour) > 0.5 ? "#111" : "#fff";
        const tensor = bars.tensors[bars.tensor[at]];
        const activity = bars.activities[bars.activity[at]] || "";
        // The lane of a tensor has its name.
        const shown = isInner || !tensor || place.row.full === tensor
          ? fitted(ctx, activity, width - 8) : ending(ctx, tensor, width - 8);
        ctx.fillText(shown, left + 4, top + place.height / 2);
      }
    }
  };

  const barsOf = (data, lane) => {
    if (!data.byLane) {
      data.byLane = new Map();
      data.bars.lane.forEach((one, at) => {
        if (!data.byLane.has(one)) { data.byLane.set(one, []); }
        data.byLane.get(one).push(at);
      });
    }
    return data.byLane.get(lane) || [];
  };

  // The events of one lane from an answer of either kind.
  const drawLane = (ctx, data, theme, place, scale, top, withText = true) => {
    if (data.binned) {
      drawBins(ctx, data, theme, place.slot, scale, top + 0.5, Math.max(place.height - 1, Math.min(place.height, 2)));
    } else {
      drawBars(ctx, data, theme, place, scale, top, withText);
    }
  };

  // Pixels of times (x) and of places on the axis (at), and back (ns, place).
  const scaleOf = (first, last, left, right, axis = T.PLAIN) => {
    const [low, high] = [first, last].map(axis.of);
    const at = (place) => left + (place - low) / (high - low) * (right - left);
    const place = (x) => low + (x - left) / (right - left) * (high - low);
    return {first, last, left, right, axis, low, high, at, place,
      x: (ns) => at(axis.of(ns)), ns: (x) => axis.time(place(x))};
  };

  Object.assign(window.hvdprofTimeline, {
    FONT, STRIP, SEGMENTS, AXIS, css, themeOf, placed, lengthText, ticksOf, fitted, begun, centered, drawLane, barsOf, scaleOf,
  });
})();
