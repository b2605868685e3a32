
// Each card shows an image, once for each model, with the words of its caption beneath. A word lays its map over that model's
// image: a canvas that is there as long as the word is shown.

function showWord(picture, model, image, word) {
  hideWord(picture);
  const canvas = element("canvas", { ariaHidden: "true" });
  const { context, zoom, line } = sizeCanvas(canvas);
  const [rows, columns] = model.grid;
  const values = bytes(model.maps[image]).subarray(word * rows * columns, (word + 1) * rows * columns);
  context.fillStyle = data.colours.attention;
  values.forEach((value, place) => {
    // Whole pixels: where the edges of cells share one, a seam would be seen.
    const [left, top, right, bottom] = boxOf(model, place).map((edge) => Math.round(edge * zoom));
    context.globalAlpha = (model.opacity * value) / 255;
    context.fillRect(left, top, right - left, bottom - top);
  });
  context.globalAlpha = 1;
  if (model.how === "hard") {
    const box = boxOf(model, model.places[image][word]).map((edge) => edge * zoom);
    drawBox(context, box, data.colours.read, 2 * line);
  }
  picture.append(canvas);
  picture.classList.add("faded");
}

function hideWord(picture) {
  picture.querySelector("canvas")?.remove();
  picture.classList.remove("faded");
}

// The left, top, right and bottom of what of a place is in the image, in pixels of the image.
function boxOf({ grid: [, columns], cell: [height, width] }, place) {
  const [row, column] = [Math.floor(place / columns), place % columns];
  const [right, bottom] = data.size;
  return [
    column * width, row * height, Math.min((column + 1) * width, right), Math.min((row + 1) * height, bottom),
  ];
}

// The page, made once

function tellerOf(model, image) {
  const { index, source } = data.images[image];
  const picture = element("div", { className: "picture" }, element("img", { src: source, alt: `Image ${index}` }));
  const words = model.captions[image].map((text, word) => ({ text, label: labelOf(model, text, model.places[image][word]) }));
  const show = (word) => (word === null ? hideWord(picture) : showWord(picture, model, image, word));
  return makeTeller(model, picture, words, show).teller;
}

function labelOf({ grid: [rows, columns], how }, text, place) {
  const where = `row ${Math.floor(place / columns) + 1} of ${rows}, column ${(place % columns) + 1} of ${columns}`;
  return `${text}: ${how === "hard" ? "read" : "looked most"} at ${where}`;
}

document.body.classList.toggle("pixelated", Math.max(...data.size) < 128); // few pixels are shown as such
byId("cards").append(
  ...data.images.map((image, row) => makeCard(`Image ${image.index}`, image, data.models.map((model) => tellerOf(model, row)))),
);
