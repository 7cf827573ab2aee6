// What has to happen in the browser: the address, and saving files.
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  hvdprof: {
    // The run that is shown stands in the address from the start, without a step in the history.
    settleAddress(drawn) {
      if (!drawn) { return; }
      document.title = drawn.title;
      const query = new URLSearchParams(window.location.search);
      if (drawn.run && query.get("run") !== drawn.run) {
        window.history.replaceState(
          null, "", window.location.pathname + "?" + new URLSearchParams({run: drawn.run}));
        window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
      }
    },
    saveFigure(clicks, id) {
      const graph = document.querySelector(`.figure.${CSS.escape(id.name)} .js-plotly-plot`);
      if (clicks && graph) {
        window.Plotly.downloadImage(graph, {format: id.format, filename: id.name, scale: 2});
      }
    },
    saveTable(clicks) {
      return clicks ? true : window.dash_clientside.no_update;
    },
  },
});
