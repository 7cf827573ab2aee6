// Functions in the browser: the address, and saving files.

// A figure with its heading and the run as title: a saved picture stands alone.
function titledFigure(graph, name) {
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const card = graph.closest(".mantine-Paper-root");
  const heading = card && card.querySelector("h2");
  const run = new URLSearchParams(window.location.search).get("run") || "";
  const {width, height} = graph._fullLayout;
  const margin = graph.layout.margin || {};
  const title = {
    text: `${plain(heading ? heading.textContent : name)}<br><sub>${plain(run)}</sub>`,
    x: 0, xref: "paper", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: {t: 8},
  };
  const room = 56;
  return {
    data: graph.data,
    layout: {
      ...graph.layout, title, width, height: height + room,
      margin: {...margin, t: (margin.t || 0) + room},
    },
  };
}

// A grid draws its rows in later frames and only those in its window; paper is drawn at once. So a
// plain table with every row stands in for it.
function tableForPaper(grid) {
  const api = window.dash_ag_grid && window.dash_ag_grid.getApi(grid.id);
  if (!api) { return; }
  const columns = api.getAllDisplayedColumns();
  const table = document.createElement("table");
  table.className = "for-paper";
  const addRow = (section, kind, texts) => {
    const row = section.insertRow();
    texts.forEach((text, place) => {
      const cell = document.createElement(kind);
      cell.textContent = text;
      cell.dir = "auto";
      if (columns[place].getColDef().type === "rightAligned") { cell.className = "right"; }
      row.append(cell);
    });
  };
  addRow(table.createTHead(), "th", columns.map(
    (column) => api.getDisplayNameForColumn(column, "header")));
  const body = table.createTBody();
  api.forEachNodeAfterFilterAndSort((node) => addRow(body, "td", columns.map((column) =>
    api.getCellValue({rowNode: node, colKey: column, useFormatter: true}) ?? "")));
  grid.after(table);
}

// A figure keeps the width of the screen: with a view box it shrinks to that of the paper.
function figureForPaper(svg) {
  svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
}

// Beside the bars of the waterfall a phone has room for the time, and none for the share.
const PHONE_PX = 600;

function shortenWaterfalls() {
  if (window.innerWidth > PHONE_PX || !window.Plotly) { return; }
  document.querySelectorAll(".figure.waterfall .js-plotly-plot").forEach((graph) => {
    // A new figure has new traces.
    if (!graph.data || !graph._fullLayout || graph.shortened === graph.data) { return; }
    graph.shortened = graph.data;
    const texts = graph.data.map((bar) => (bar.text || []).map((text) => text.split(", ")[0]));
    window.Plotly.update(graph, {text: texts}, {"xaxis.title.text": "step time, ms"});
  });
}

// A bar of the waterfall opens the finding on its cause.
function wireWaterfalls() {
  document.querySelectorAll(".figure.waterfall .js-plotly-plot").forEach((graph) => {
    if (graph.opensFindings || !graph.on) { return; }
    graph.opensFindings = true;
    graph.on("plotly_click", ({points: [{data, pointNumber}]}) => {
      const cause = (data.customdata || [])[pointNumber];
      const finding = cause && document.querySelector(`[data-cause="${CSS.escape(cause)}"]`);
      if (finding) { finding.open = true; finding.scrollIntoView({block: "nearest"}); }
    });
  });
}

new MutationObserver(wireWaterfalls).observe(document, {childList: true, subtree: true});
new MutationObserver(shortenWaterfalls).observe(document, {childList: true, subtree: true});

function removeTablesForPaper() {
  document.querySelectorAll(".for-paper").forEach((table) => table.remove());
}

window.addEventListener("beforeprint", () => {
  removeTablesForPaper();
  document.querySelectorAll(".data-table[id]").forEach(tableForPaper);
  document.querySelectorAll(".js-plotly-plot .main-svg").forEach(figureForPaper);
});
window.addEventListener("afterprint", () => {
  removeTablesForPaper();
  document.querySelectorAll(".js-plotly-plot .main-svg").forEach(
    (svg) => svg.removeAttribute("viewBox"));
});

// The drawer of the terms, at one of them.
function openGlossary(anchor) {
  window.dash_clientside.set_props("glossary", {opened: true});
  const deadline = Date.now() + 5000;
  const find = () => {
    const term = document.getElementById(anchor);
    if (term && term.getClientRects().length) {
      document.querySelectorAll(".glossary-term.found").forEach((one) => one.classList.remove("found"));
      term.classList.add("found");
      term.scrollIntoView({block: "center"});
    } else if (Date.now() < deadline) { window.setTimeout(find, 50); }
  };
  if (anchor) { find(); }
}

window.addEventListener("click", (event) => {
  const term = event.target.closest("a.term");
  const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
  if (term && isPlain) {
    event.preventDefault();
    event.stopPropagation();
    openGlossary(decodeURIComponent(term.hash.slice(1)));
  } else if (event.target.closest("[aria-keyshortcuts='?']")) { openGlossary(""); }
}, true);

// What is drawn leads to a view of its own.
window.addEventListener("click", (event) => {
  const place = event.target.closest("[data-href]");
  if (!place) { return; }
  window.history.pushState(null, "", place.dataset.href);
  window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
});

// Saves and copies what a button names: a figure, or the rows of a table with the declared names of
// the columns and the ends of intervals. Spreadsheets take columns from the clipboard at tabs.
function saveNamed(saves, name) {
  if (saves === "png" || saves === "svg") {
    const graph = document.querySelector(`.figure.${CSS.escape(name)} .js-plotly-plot`);
    if (graph) {
      window.Plotly.downloadImage(
        titledFigure(graph, name), {format: saves, filename: name, scale: 2});
    }
    return;
  }
  const rows = document.querySelector(`[data-rows="${CSS.escape(name)}"]`);
  const whole = {allColumns: true, processHeaderCallback: ({column}) => column.getColId()};
  const api = rows ? null : window.dash_ag_grid.getApi({name, type: "table"});
  if (saves === "copy") {
    navigator.clipboard.writeText(
      rows ? rows.dataset.tabs : api.getDataAsCsv({...whole, columnSeparator: "\t"}));
  } else if (api) {
    api.exportDataAsCsv({...whole, fileName: `${name}.csv`});
  } else {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([rows.dataset.csv], {type: "text/csv"}));
    link.download = `${name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

window.addEventListener("click", (event) => {
  const button = event.target.closest("[data-saves]");
  if (button) { saveNamed(button.dataset.saves, button.dataset.name); }
});

// A figure that was folded takes the width that it has now.
window.addEventListener("toggle", (event) => {
  if (event.target.open && event.target.querySelector(".js-plotly-plot")) {
    window.dispatchEvent(new Event("resize"));
  }
}, true);

// The digits open the tabs, "?" the terms; on the timeline "?" opens the help of its keys.
window.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable=true]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !/^[1-9?]$/.test(event.key)) { return; }
  if (event.key === "?" && document.getElementById("timeline-help")) { return; }
  const named = document.querySelector(`[aria-keyshortcuts="${event.key}"]`);
  if (named) { named.click(); }
});

window.dash_clientside = Object.assign({}, window.dash_clientside, {
  hvdprof: {
    // A page that comes anew by itself is not covered meanwhile, one that was asked for is.
    stayInSight() { window.dash_clientside.set_props("wait", {display: "hide"}); },

    // Put the shown run into the address, without a step in the history, and follow the fragment.
    settleAddress(drawn) {
      if (!drawn) { return; }
      window.dash_clientside.set_props("wait", {display: "auto"});
      document.title = drawn.title;
      const query = new URLSearchParams(window.location.search);
      if (drawn.run && query.get("run") !== drawn.run) {
        query.set("run", drawn.run);
        window.history.replaceState(
          null, "", window.location.pathname + "?" + query + window.location.hash);
        window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
      }
      const target = window.location.hash.slice(1);
      if (window.location.pathname === "/glossary") {
        openGlossary(decodeURIComponent(target));
      } else if (target) {
        // The page is drawn after the browser has looked for the fragment.
        window.requestAnimationFrame(() => {
          const place = document.getElementById(decodeURIComponent(target));
          if (place) { place.scrollIntoView(); }
        });
      }
    },
    // The chosen steps, typed or dragged over, into the address; all steps leave it.
    chooseSteps(first, last, _all, dragged, lowest, highest) {
      const [{prop_id: changed}] = window.dash_clientside.callback_context.triggered;
      let ends = [first, last];
      if (changed.startsWith("steps-all")) { ends = [lowest, highest]; }
      if (changed.startsWith("steps-graph")) {
        // Plotly forgets a choice when the figure is drawn anew.
        if (!dragged || !dragged.range || !dragged.range.x) { return; }
        ends = [Math.ceil(Math.min(...dragged.range.x)), Math.floor(Math.max(...dragged.range.x))];
      }
      if (ends.some((end) => !Number.isFinite(end))) { return; }
      const [from, to] = [Math.max(Math.min(...ends), lowest), Math.min(Math.max(...ends), highest)];
      if (from > to) { return; }
      const query = new URLSearchParams(window.location.search);
      const [before, isAll] = [query.toString(), from === lowest && to === highest];
      for (const [key, value] of [["first", from], ["last", to]]) {
        if (isAll) { query.delete(key); } else { query.set(key, value); }
      }
      if (query.toString() === before) { return; }
      window.history.pushState(null, "", window.location.pathname + "?" + query);
      window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    },
    // The tab of the page, which a narrow screen can hide.
    showTab() {
      window.requestAnimationFrame(() => {
        const here = document.querySelector(".shell-here");
        if (!here) { return; }
        // scrollIntoView would also move the place from which the Tab key goes on.
        const [tab, tabs] = [here.getBoundingClientRect(), here.parentElement.getBoundingClientRect()];
        here.parentElement.scrollLeft += tab.left + tab.width / 2 - tabs.left - tabs.width / 2;
      });
    },
    // Rows of the list of runs that hold the text.
    searchRuns(text) {
      window.dash_ag_grid.getApi("runs-grid").setGridOption("quickFilterText", text || "");
    },
    // The bar of what to do with the selected runs.
    showSelected(rows) {
      const number = (rows || []).length;
      return [`${number} selected`, number ? "runs-bar shown" : "runs-bar"];
    },
    clearSelected() { return []; },
    // Terms whose entry holds the text.
    searchTerms(text) {
      document.querySelectorAll(".glossary-term").forEach((term) => {
        term.hidden = !term.textContent.toLowerCase().includes((text || "").toLowerCase());
      });
    },
  },
});

// Cells of the list of runs; React shows texts as text.
const {createElement, Fragment} = window.React;
window.dashAgGridComponentFunctions = Object.assign(
  window.dashAgGridComponentFunctions || {}, {
    // After a dot in the tone of its verdict.
    RunLink({data, value}) {
      const dot = createElement("span", {className: `run-dot dot-${data.tone}`, "aria-hidden": true});
      const link = createElement("a", {href: data.href, dir: "auto", title: value}, value);
      return createElement(Fragment, null, dot, link);
    },
    RunAge({data}) {
      return createElement("span", {title: data.started}, data.age);
    },
    // Behind the efficiency on a phone, which has no column for it.
    RunVerdict({data, value}) {
      const number = data.efficiency_text && `${data.efficiency_text} `;
      return createElement(Fragment, null, createElement("b", {className: "on-phone"}, number), value);
    },
    // A ratio as text, and as a bar with its interval in darker colour.
    EfficiencyBar({data}) {
      const [value, low, high] = data.bar || [];
      if (value === undefined) { return null; }
      const place = (from, to) => ({left: `${100 * from}%`, width: `${100 * (to - from)}%`});
      const bars = [createElement("span", {key: 0, className: "bar-value", style: place(0, value)})];
      if (low !== null && high !== null) {
        bars.push(createElement("span", {key: 1, className: "bar-interval", style: place(low, high)}));
      }
      return createElement("span", {className: "run-efficiency"},
        createElement("span", null, data.efficiency_text),
        createElement("span", {className: "bar", "aria-hidden": true}, bars));
    },
    Sparkline({value}) {
      if (!value) { return null; }
      return createElement("svg", {className: "spark", viewBox: "0 0 96 20", "aria-hidden": true},
        createElement("polyline", {points: value}));
    },
  });

// A phone has room for the name and the verdict.
function fitRuns() {
  const grid = document.querySelector("#runs-grid .ag-root");
  const isPhone = String(window.innerWidth <= PHONE_PX);
  if (!grid || grid.dataset.phone === isPhone) { return; }
  grid.dataset.phone = isPhone;
  window.dash_ag_grid.getApiAsync("runs-grid").then((api) => {
    api.setColumnsVisible(["started", "what", "np", "efficiency", "trust", "steps"], isPhone === "false");
    api.applyColumnState({state: [{colId: "name", width: isPhone === "true" ? 104 : 210}]});
  });
}

new MutationObserver(fitRuns).observe(document, {childList: true, subtree: true});
window.addEventListener("resize", fitRuns);
