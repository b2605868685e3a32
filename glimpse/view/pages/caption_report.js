// A card shows an image, once for each model, with the words of the caption below. The current word draws its attention
// map over the image, on a canvas that exists as long as the word is current.

function showWord(picture, model, image, word) {
  hideWord(picture);
  const canvas = element("canvas", { ariaHidden: "true" });
  const { context, zoom, line } = sizeCanvas(canvas);
  const [rows, columns] = model.grid;
  const values = bytes(model.maps[image]).subarray(word * rows * columns, (word + 1) * rows * columns);
  context.fillStyle = data.colors.attention;
  values.forEach((value, place) => {
    // Rounded to whole pixels, as cells that share a pixel would leave a seam.
    const [left, top, right, bottom] = boxOf(model, place).map((edge) => Math.round(edge * zoom));
    context.globalAlpha = (model.opacity * value) / 255;
    context.fillRect(left, top, right - left, bottom - top);
  });
  context.globalAlpha = 1;
  if (model.mode === "hard") {
    const box = boxOf(model, model.places[image][word]).map((edge) => edge * zoom);
    drawBox(context, box, data.colors.read, 2 * line);
  }
  picture.append(canvas);
  picture.classList.add("faded");
}

function hideWord(picture) {
  picture.querySelector("canvas")?.remove();
  picture.classList.remove("faded");
}

// Returns left, top, right and bottom of a place, clipped to the image, in pixels of the image.
function boxOf({ grid: [, columns], cell: [height, width] }, place) {
  const [row, column] = [Math.floor(place / columns), place % columns];
  const [right, bottom] = data.size;
  return [
    column * width, row * height, Math.min((column + 1) * width, right), Math.min((row + 1) * height, bottom),
  ];
}

// Building the page

function outputOf(model, image) {
  const { index, source } = data.images[image];
  const picture = element("div", { className: "picture" }, element("img", { src: source, alt: `Image ${index}` }));
  const places = model.places[image];
  const words = model.captions[image].map((text, word) => ({ text, label: labelOf(model, text, places[word]) }));
  const show = (word) => (word === null ? hideWord(picture) : showWord(picture, model, image, word));
  return makeOutput(model, picture, words, show).output;
}

function labelOf({ grid: [rows, columns], mode }, text, place) {
  const where = `row ${Math.floor(place / columns) + 1} of ${rows}, column ${(place % columns) + 1} of ${columns}`;
  return `${text}: ${mode === "hard" ? "read" : "attended most"} at ${where}`;
}

document.body.classList.toggle("pixelated", Math.max(...data.size) < 128); // small images are shown as pixels
byId("cards").append(
  ...data.images.map((image, row) => makeCard(`Image ${image.index}`, image, data.models.map((model) => outputOf(model, row)))),
);
