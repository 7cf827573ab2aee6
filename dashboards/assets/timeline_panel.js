// What stands below the lanes: facts of the event, the table of the range, hits, and help.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;

  const {element, button} = T;

  const factTable = (facts) => element("table", {class: "timeline-facts"}, element("tbody", {},
    facts.map(([name, text]) => element("tr", {}, element("th", {scope: "row"}, name), element("td", {}, text)))));

  const copy = async (text, from) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch (error) {
      // Without https, browsers offer the older way alone.
      const area = element("textarea", {});
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    from.textContent = "Copied";
    setTimeout(() => { from.textContent = "Copy as JSON"; }, 1500);
  };

  const arrivalTable = (found) => {
    if (!found) { return []; }
    const rows = found.ranks.map(([rank, before], at) => element("tr", {class: at ? "" : "timeline-last"},
      element("th", {scope: "row"}, `rank ${rank}`),
      element("td", {}, at ? `${T.lengthText(before)} before the last` : "last")));
    const left = found.num_ranks - found.ranks.length;
    return [
      element("h3", {}, "Ready times for this tensor"),
      element("table", {class: "timeline-facts"}, element("tbody", {}, rows)),
      element("p", {class: "about"}, `${left > 0 ? `${left} earlier ranks are not listed. ` : ""}From ${found.source}.`),
    ];
  };

  // The same phase of the same step: one row per rank, with a bar and what differs.
  const sameTable = (found, act) => {
    if (!found.same || !found.same.length) { return []; }
    const longest = Math.max(...found.same.map((one) => one.dur_ns), 1);
    const rows = found.same.map((one) => {
      const bar = element("span", {class: "timeline-length"});
      bar.style.width = `${Math.max(100 * one.dur_ns / longest, 1)}%`;
      const isThis = one.rank === found.values.rank;
      const more = one.dur_ns - Math.max(found.values.dur_ns, 0);
      return element("tr", {"aria-current": isThis ? "true" : null},
        element("th", {scope: "row"}, button(`rank ${one.rank}`, `Show this event on rank ${one.rank}`, () => act.event(one.event))),
        element("td", {class: "timeline-bar-cell"}, bar),
        element("td", {class: "number"}, T.lengthText(one.dur_ns)),
        element("td", {class: "number"}, isThis ? "this" : `${more < 0 ? "−" : "+"}${T.lengthText(Math.abs(more))}`));
    });
    return [element("h3", {}, "The same event on the other ranks"),
      element("table", {class: "timeline-same"}, element("tbody", {}, rows))];
  };

  const block = (...parts) => {
    const shown = parts.flat().filter(Boolean);
    return shown.length ? element("div", {class: "timeline-block", tabindex: "0"}, shown) : null;
  };

  const details = (found, act) => {
    if (!found.title) { return []; }
    const isEvent = found.event !== undefined;
    const buttons = [found.lane >= 0 ? button("Pin lane", "Pin or unpin this lane", () => act.pin(found.lane)) : null];
    if (isEvent) {
      const save = button("Copy as JSON", "Copy the event as JSON", () => copy(JSON.stringify({
        ...found.values, lane: found.facts.find(([name]) => name === "lane")?.[1],
        start_in_pass_ns: found.start_ns, execution: found.execution_facts,
        tensors: found.execution, arrivals: found.arrivals,
      }, null, 2), save));
      buttons.unshift(
        button("◂ Previous", "Previous event of this name", () => act.event(found.previous),
          {disabled: found.previous < 0}),
        button("Next ▸", "Next event of this name", () => act.event(found.next), {disabled: found.next < 0}));
      buttons.push(save, ...(found.links || []).map(({text, href}) => element("a", {href}, text)));
    }
    buttons.push(button("✕", "Close the facts", act.clear));
    const isBin = !isEvent && found.facts.some(([name]) => name === "events");
    const parts = [
      block(element("h2", {}, found.title), element("div", {class: "timeline-buttons"}, buttons), factTable(found.facts),
        isBin ? element("p", {class: "about"}, "Shares of that time; zoom in for single events.") : null),
    ];
    if (!isEvent) { return parts; }
    if (found.execution.length) {
      const number = found.num_tensors === 1 ? "1 tensor" : `${found.num_tensors.toLocaleString("en-US")} tensors`;
      parts.push(block(element("h3", {}, `Executed together: ${number}`), factTable(found.execution_facts),
        factTable(found.execution)));
    }
    parts.push(block(sameTable(found, act)), block(arrivalTable(found.arrivals)));
    if (found.lines.length) {
      parts.push(block(element("h3", {}, "Lines sampled in this phase"), factTable(found.lines)));
    }
    return parts;
  };

  const FILE_COLUMNS = ["name", "lane", "rank", "count", "sum_ns", "mean_ns", "p95_ns", "share"];
  const COLUMNS = [
    ["name", "name", "Name of the events"],
    ["lane", "lane", "Rank or lane of the events"],
    ["count", "count", "Events that lie at least partly in the range"],
    ["sum_ns", "sum", "Time inside of the range"],
    ["mean_ns", "mean", "Mean length of the whole events"],
    ["p95_ns", "p95", "95th percentile of the length of the whole events"],
    ["share", "share", "Sum divided by the length of the range; events that overlap each count"],
  ];
  // Ranks in their order, and before the lanes below them.
  const RANK_LANE = /^rank (\d+)/;
  const orderOf = (row, key) => {
    const match = key === "lane" ? RANK_LANE.exec(row.lane) : null;
    return match ? Number(match[1]) : key === "lane" ? Infinity : row[key];
  };
  const shortLane = (lane) => (RANK_LANE.exec(lane) || [lane])[0];
  const cellText = (name, value) => {
    if (name === "lane") { return shortLane(value); }
    if (name === "share") { return `${(100 * value).toFixed(value < 0.995 ? 1 : 0)} %`; }
    // A break after each part of a name.
    if (name === "name") { return value.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]); }
    if (name.endsWith("_ns")) { return T.lengthText(value); }
    return typeof value === "number" ? value.toLocaleString("en-US") : value;
  };

  const rangeRows = (found, order) => {
    const [key, sign] = order;
    return [...found.rows].sort((one, other) => {
      const [low, high] = [orderOf(one, key), orderOf(other, key)];
      return sign * (low < high ? -1 : low > high ? 1 : one.lane < other.lane ? -1 : Number(one.lane > other.lane));
    });
  };

  const rangeCsv = (rows) => {
    const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
    const lines = [FILE_COLUMNS, ...rows.map((row) => FILE_COLUMNS.map((key) => row[key]))];
    return lines.map((cells) => cells.map(quoted).join(",")).join("\r\n") + "\r\n";
  };

  const range = (found, act, order, setOrder) => {
    if (!found.rows) { return []; }
    const rows = rangeRows(found, order);
    const head = COLUMNS.map(([key, name, meaning]) => element("th", {
      scope: "col", "aria-sort": key === order[0] ? (order[1] > 0 ? "ascending" : "descending") : "none",
    }, button(name + (key === order[0] ? (order[1] > 0 ? " ▴" : " ▾") : ""), meaning,
      () => setOrder([key, key === order[0] ? -order[1] : -1]))));
    const body = rows.map((row) => element("tr", {}, COLUMNS.map(([key]) =>
      element("td", {class: typeof row[key] === "number" ? "number" : "", title: key === "lane" ? row.lane : null},
        cellText(key, row[key])))));
    return [
      element("h2", {}, "Selected range"),
      element("div", {class: "timeline-buttons"},
        button("Fit", "Zoom to the selection", act.fit), button("Clear", "Clear the selection", act.clear),
        button("CSV", "Save the selected range as CSV",
          () => T.save(`timeline-range.csv`, new Blob([rangeCsv(rows)], {type: "text/csv"})))),
      factTable(found.facts),
      rows.length ? element("div", {class: "timeline-scroll", tabindex: "0"}, element("table",
        {class: "timeline-range"}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)))
        : element("p", {}, "No events in this range."),
      found.num_left_out ? element("p", {class: "about"},
        `${found.num_left_out} more rows with smaller sums are not listed.`) : null,
    ];
  };

  const hits = (found, current, act, asked) => {
    if (!asked) { return []; }
    if (!found.hits) { return [element("p", {}, "Searching…")]; }
    const title = found.kind || `Search: ${asked}`;
    if (!found.hits.length) {
      const none = found.kind ? "This pass has no such step." : `No event of this pass contains "${asked}".`;
      return [element("h2", {}, title), element("p", {}, none), button("Close", "Close the hits", act.closeHits)];
    }
    const shown = found.hits.map((hit, at) => element("li", {}, element("button", {
      type: "button", onclick: () => act.hit(at), "aria-current": at === current ? "true" : null,
    }, element("span", {class: "timeline-hit"}, hit.name),
      element("span", {class: "about"}, [hit.event >= 0 && hit.step >= 0 ? `step ${hit.step}` : "",
        hit.rank >= 0 ? `${hit.event < 0 ? "slowest: " : ""}rank ${hit.rank}` : "", `at ${hit.place}`,
        `${T.lengthText(hit.dur_ns)} long`].filter(Boolean).join(" · ")))));
    const place = current >= 0 ? `${current + 1} of ` : "";
    const cut = found.number > found.hits.length ? `; the first ${found.hits.length} are listed` : "";
    return [
      element("h2", {}, title),
      element("div", {class: "timeline-buttons"},
        button("◂", "Previous hit", () => act.hit(current - 1), {disabled: current <= 0}),
        button("▸", "Next hit", () => act.hit(current + 1), {disabled: current + 1 >= found.hits.length}),
        element("span", {}, `${place}${found.number.toLocaleString("en-US")}${cut}`),
        button("Close", "Close the hits", act.closeHits)),
      element("ol", {class: "timeline-hits timeline-scroll"}, shown),
    ];
  };

  const KEYS = [
    ["W S, wheel, pinch, ↑ ↓", "zoom in and out at the pointer; over the names the wheel scrolls"],
    ["A D, ← →, drag", "pan; Shift with the wheel pans, too"],
    ["Shift-drag", "select a range and show its table"],
    ["double-click, 0", "the whole pass"],
    ["R", "select what is in view, as a range"],
    ["N, P", "the next and the previous step in which the finding acts"],
    ["O", "open or fold the groups of many ranks"],
    ["click", "facts of an event; on a name, pin the lane"],
    ["F", "fit the selection, or the chosen event, into the window"],
    ["M", "set or remove a mark at the pointer"],
    ["/", "search by step, rank, tensor or event, such as step 15, rank 3, conv1; Enter goes to the next hit"],
    ["Escape", "close this help; else clear the selection and the chosen event"],
    ["?", "this help"],
  ];
  const help = (isShown, act) => (isShown
    ? [element("h2", {}, "Keys and gestures"), factTable(KEYS), button("Close", "Close the help", act.help)] : []);

  // The parts in their order, replaced one by one: scroll positions of the others stay.
  T.Panel = class {
    constructor(act) {
      this.act = act;
      this.parts = Object.fromEntries(["help", "details", "range", "hits"].map((name) =>
        [name, element("section", {id: `timeline-${name}`})]));
      this.root = element("aside", {class: "timeline-panel", "aria-label": "Details"},
        Object.values(this.parts));
    }

    isShown() { return Object.values(this.parts).some((part) => !part.hidden); }

    fill(name, children) {
      T.refill(this.parts[name], children.filter(Boolean));
      this.parts[name].hidden = !children.length;
    }

    showDetails(found) { this.fill("details", details(found || {}, this.act)); }

    // The order is a column, after "-" for the largest first.
    showRange(found, asked) {
      const column = asked.replace(/^-/, "");
      const order = COLUMNS.some(([key]) => key === column) ? [column, asked === column ? 1 : -1] : ["sum_ns", -1];
      this.fill("range", range(found || {}, this.act, order, ([key, sign]) =>
        this.act.sort(`${sign < 0 ? "-" : ""}${key}`)));
    }

    showHits(found, current, asked) {
      const scrolled = this.parts.hits.querySelector("ol")?.scrollTop || 0;
      this.fill("hits", hits(found || {}, current, this.act, asked));
      const list = this.parts.hits.querySelector("ol");
      if (!list) { return; }
      list.scrollTop = scrolled;
      const here = list.querySelector("[aria-current]");
      if (!here) { return; }
      const at = here.offsetTop - list.offsetTop;
      if (at < list.scrollTop || at > list.scrollTop + list.clientHeight - 40) { list.scrollTop = at - 40; }
    }

    showHelp(isShown) { this.fill("help", help(isShown, this.act)); }
  };
})();
