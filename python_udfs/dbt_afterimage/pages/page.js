// Draws the figures of the page in the colours of the reader's theme, and again when that changes.
(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Colours are named by CSS variables. What came out of a table is left as it is.
  var fromTables = { customdata: 1, text: 1, ticktext: 1, x: 1, y: 1, base: 1 };
  function painted(node, style) {
    if (typeof node === "string") {
      return /^--[a-z_-]+$/.test(node) ? style.getPropertyValue(node).trim() : node;
    }
    if (Array.isArray(node)) {
      return node.map(function (item) { return painted(item, style); });
    }
    if (node === null || typeof node !== "object") {
      return node;
    }
    var copy = {};
    Object.keys(node).forEach(function (key) {
      copy[key] = fromTables[key] ? node[key] : painted(node[key], style);
    });
    return copy;
  }

  // The rows of one transaction, or of the version under the pointer.
  function mark(names) {
    document.querySelectorAll("tr[data-transaction]").forEach(function (row) {
      row.classList.toggle("same", names.indexOf(row.dataset.transaction) >= 0);
    });
  }

  function draw() {
    var style = getComputedStyle(document.documentElement);
    figures.forEach(function (figure) {
      var place = document.getElementById(figure.id);
      if (typeof Plotly === "undefined") {
        place.textContent = "No picture: the script that draws it is not beside this page." +
          " --output FILE writes a page that is complete in itself.";
        return;
      }
      var options = { responsive: true, displaylogo: false, scrollZoom: true,
        displayModeBar: place.clientWidth > 600,
        modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
      Plotly.react(place, painted(figure.data, style), painted(figure.layout, style), options);
      if (!place.dataset.drawn) {
        place.dataset.drawn = "yes";
        place.on("plotly_hover", function (event) {
          mark(event.points.map(function (point) { return (point.customdata || [])[1]; })
            .filter(Boolean));
        });
        place.on("plotly_unhover", function () { mark([]); });
      }
    });
  }

  draw();
  dark.addEventListener("change", draw);
}());
