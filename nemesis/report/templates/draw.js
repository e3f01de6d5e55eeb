"use strict";
(function () {
  const figure = JSON.parse(document.getElementById("figure").textContent);
  const options = { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
  Plotly.newPlot("plots", figure.data, figure.layout, options);
})();
