"use strict";

// Shared by all reports. `data` is constant; `data.size` is the width and height of the images.

const CANVAS_SIDE = 600; // minimum of the longer side of a canvas, in pixels

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function element(tag, properties, ...children) {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

function clone(id) {
  return byId(id).content.firstElementChild.cloneNode(true);
}

// Resizes a canvas to the shape of the images and clears it. Returns `zoom`, the canvas pixels per image pixel, and `line`,
// a line width.
function sizeCanvas(canvas) {
  const [width, height] = data.size;
  const side = Math.max(width, height);
  const zoom = side > CANVAS_SIDE ? CANVAS_SIDE / side : Math.ceil(CANVAS_SIDE / side);
  canvas.width = Math.round(width * zoom);
  canvas.height = Math.round(height * zoom);
  canvas.dataset.zoom = zoom;
  return { context: canvas.getContext("2d"), zoom, line: (side * zoom) / 200 };
}

function drawBox(context, [left, top, right, bottom], color, line) {
  const path = new Path2D();
  path.rect(left, top, right - left, bottom - top);
  strokeTwice(context, path, color, line);
}

// Strokes a dark outline first, so that the color is visible on any image.
function strokeTwice(context, path, color, line) {
  for (const [style, width] of [["rgb(0 0 0 / 60%)", 2 * line], [color, line]]) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.stroke(path);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light page" : "Dark page";
  byId("theme").onclick = () => setTheme(theme === "dark" ? "light" : "dark");
}

setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
