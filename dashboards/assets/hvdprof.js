// Functions in the browser: the address, and saving files.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  hvdprof: {
    // Put the shown run into the address, without a step in the history, and follow the fragment.
    settleAddress(drawn) {
      if (!drawn) { return; }
      document.title = drawn.title;
      const query = new URLSearchParams(window.location.search);
      if (drawn.run && query.get("run") !== drawn.run) {
        window.history.replaceState(
          null, "", window.location.pathname + "?" + new URLSearchParams({run: drawn.run}) +
            window.location.hash);
        window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
      }
      const target = window.location.hash.slice(1);
      if (target) {
        // The page is drawn after the browser has looked for the fragment.
        window.requestAnimationFrame(() => {
          const place = document.getElementById(decodeURIComponent(target));
          if (place) { place.scrollIntoView(); }
        });
      }
    },
    // Rows of the list of runs that hold the text.
    searchRuns(text) {
      window.dash_ag_grid.getApi("runs-grid").setGridOption("quickFilterText", text || "");
    },
    saveFigure(clicks, id) {
      const graph = document.querySelector(`.figure.${CSS.escape(id.name)} .js-plotly-plot`);
      if (clicks && graph) {
        window.Plotly.downloadImage(graph, {format: id.format, filename: id.name, scale: 2});
      }
    },
    // With the declared names of the columns, and the ends of intervals that the grid hides.
    saveTable(clicks, id) {
      if (clicks) {
        window.dash_ag_grid.getApi(id).exportDataAsCsv({
          fileName: `${id.name}.csv`,
          allColumns: true,
          processHeaderCallback: ({column}) => column.getColId(),
        });
      }
    },
    // The numbers behind a table of texts.
    saveRows(clicks, id) {
      const table = document.querySelector(`[data-rows="${CSS.escape(id.name)}"]`);
      if (!clicks || !table) { return; }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([table.dataset.csv], {type: "text/csv"}));
      link.download = `${id.name}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    },
  },
});

// A name of a run as a link; React shows it as text.
window.dashAgGridComponentFunctions = Object.assign(
  window.dashAgGridComponentFunctions || {}, {
    RunLink(props) {
      return window.React.createElement("a", {href: props.data.href, dir: "auto"}, props.value);
    },
  });
