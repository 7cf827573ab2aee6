// The timeline as a file: PNG of a larger canvas, SVG of the same drawing calls.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;
  const TITLE = 26;

  const escaped = (text) => String(text)
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
  const short = (number) => Number(number.toFixed(2));

  // The calls of a canvas that the drawing makes, written down as SVG. It has no drawImage: bins
  // become rectangles.
  class SvgContext {
    constructor(measure) {
      this.measure = measure;
      this.parts = [];
      this.points = [];
      this.shift = 0;
      Object.assign(this, {fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, font: "", dash: [],
        textAlign: "left", textBaseline: "middle"});
    }
    get paint() { return `fill="${escaped(this.fillStyle)}"`; }
    get stroked() {
      return `fill="none" stroke="${escaped(this.strokeStyle)}" stroke-width="${this.lineWidth}"` +
        (this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "");
    }
    rect(look, x, y, width, height) {
      this.parts.push(`<rect x="${short(x)}" y="${short(y + this.shift)}" ` +
        `width="${short(Math.max(width, 0))}" height="${short(Math.max(height, 0))}" ${look}/>`);
    }
    fillRect(...box) { this.rect(this.paint, ...box); }
    strokeRect(...box) { this.rect(this.stroked, ...box); }
    setLineDash(dash) { this.dash = dash; }
    beginPath() { this.points = []; }
    moveTo(x, y) { this.points.push(`M${short(x)} ${short(y + this.shift)}`); }
    lineTo(x, y) { this.points.push(`L${short(x)} ${short(y + this.shift)}`); }
    closePath() { this.points.push("Z"); }
    stroke() { this.parts.push(`<path d="${this.points.join("")}" ${this.stroked}/>`); }
    fill() { this.parts.push(`<path d="${this.points.join("")}" ${this.paint}/>`); }
    measureText(text) { this.measure.font = this.font; return this.measure.measureText(text); }
    upright(text, x, y) {
      this.fillText(text, x, y, `transform="rotate(-90 ${short(x)} ${short(y + this.shift)})" `);
    }
    fillText(text, x, y, more = "") {
      const anchor = this.textAlign === "center" ? "middle" : "start";
      this.parts.push(`<text x="${short(x)}" y="${short(y + this.shift)}" ${this.paint} ${more}` +
        `text-anchor="${anchor}" dominant-baseline="central" style="font:${escaped(this.font)}">` +
        `${escaped(text)}</text>`);
    }
  }

  const title = (ctx, scene) => {
    ctx.fillStyle = scene.theme.paper;
    ctx.fillRect(0, 0, scene.layout.width, TITLE);
    ctx.font = `bold 13px ${T.FONT}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = scene.theme.ink;
    ctx.fillText(T.fitted(ctx, scene.title, scene.layout.width - 12), 6, TITLE / 2);
  };

  const heightOf = (scene) => TITLE + T.topHeight(scene) + scene.layout.height;

  const svg = (scene) => {
    const ctx = new SvgContext(document.createElement("canvas").getContext("2d"));
    title(ctx, scene);
    ctx.shift = TITLE;
    T.paintTop(ctx, scene);
    ctx.shift = TITLE + T.topHeight(scene);
    T.paintLanes(ctx, scene);
    const size = `width="${scene.layout.width}" height="${heightOf(scene)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${ctx.parts.join("\n")}</svg>\n`;
  };

  const png = (scene, made) => {
    const canvas = document.createElement("canvas");
    const ratio = 2;
    canvas.width = scene.layout.width * ratio;
    canvas.height = heightOf(scene) * ratio;
    const ctx = canvas.getContext("2d");
    const at = (top) => ctx.setTransform(ratio, 0, 0, ratio, 0, top * ratio);
    at(TITLE);
    T.paintTop(ctx, scene);
    at(TITLE + T.topHeight(scene));
    T.paintLanes(ctx, scene);
    at(0);
    title(ctx, scene);
    canvas.toBlob(made, "image/png");
  };

  Object.assign(T, {svg, png});
})();
