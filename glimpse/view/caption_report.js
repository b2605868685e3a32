// Each card shows an image, once for each model, with the words of its caption beneath. A word that is pointed at, or has
// the focus, lays its map over that model's image: a canvas that is there as long as the word is shown.

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

function makeTeller(model, image) {
  const teller = clone("teller");
  const find = (selector) => teller.querySelector(selector);
  const picture = find(".picture");
  const { index, source } = data.images[image];
  Object.assign(find("img"), { src: source, alt: `Image ${index}` });
  find(".name").textContent = model.name;
  find(".how").textContent = model.how;
  const state = { pointed: null, focused: null }; // the words that are, if any; the first goes before the other
  const change = (what) => {
    const word = Object.assign(state, what).pointed ?? state.focused;
    if (word === null) hideWord(picture);
    else showWord(picture, model, image, word);
  };
  const words = model.captions[image].map((text, word) => makeWord(model, text, model.places[image][word], word, change));
  find(".caption").append(...(words.length ? words : ["(no words)"]));
  return teller;
}

function makeWord(model, text, place, word, change) {
  const [rows, columns] = model.grid;
  const where = `row ${Math.floor(place / columns) + 1} of ${rows}, column ${(place % columns) + 1} of ${columns}`;
  const ariaLabel = `${text}: ${model.how === "hard" ? "read" : "looked most"} at ${where}`;
  const button = element("button", { type: "button", className: "word", textContent: text, ariaLabel });
  button.onpointerenter = () => change({ pointed: word });
  button.onpointerleave = () => change({ pointed: null });
  button.onfocus = () => change({ focused: word });
  button.onblur = () => change({ focused: null });
  button.onclick = () => button.focus(); // not every browser does that by itself
  return button;
}

function makeCard({ index, references }, image) {
  const card = clone("card");
  const find = (selector) => card.querySelector(selector);
  card.dataset.index = index;
  find("h3").textContent = `Image ${index}`;
  find(".tellers").append(...data.models.map((model) => makeTeller(model, image)));
  find("details").hidden = references.length === 0;
  find("summary").textContent = references.length === 1 ? "1 reference" : `${references.length} references`;
  find("ul").append(...references.map((textContent) => element("li", { textContent })));
  return card;
}

document.body.classList.toggle("pixelated", Math.max(...data.size) < 128); // few pixels are shown as such
byId("cards").append(...data.images.map(makeCard));
