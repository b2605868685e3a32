"use strict";

// What the pages of all reports share. `data` never changes; `data.size` is the width and height of the images.

const CANVAS_SIDE = 600; // least number of canvas pixels along the longer side of an image

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function clone(id) {
  return byId(id).content.firstElementChild.cloneNode(true);
}

// Makes a canvas of the shape of an image, empty. `zoom` is the number of canvas pixels to a pixel of the image, and `line`
// a good width for lines.
function sizeCanvas(canvas) {
  const [width, height] = data.size;
  const side = Math.max(width, height);
  const zoom = side > CANVAS_SIDE ? CANVAS_SIDE / side : Math.ceil(CANVAS_SIDE / side);
  canvas.width = Math.round(width * zoom);
  canvas.height = Math.round(height * zoom);
  canvas.dataset.zoom = zoom;
  return { context: canvas.getContext("2d"), zoom, line: (side * zoom) / 200 };
}

function drawBox(context, [left, top, right, bottom], colour, line) {
  const path = new Path2D();
  path.rect(left, top, right - left, bottom - top);
  strokeTwice(context, path, colour, line);
}

// On a dark edge every colour can be seen, whatever the image.
function strokeTwice(context, path, colour, line) {
  for (const [style, width] of [["rgb(0 0 0 / 60%)", 2 * line], [colour, line]]) {
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
