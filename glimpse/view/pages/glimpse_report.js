// render() draws the page from `data`, which is constant, and `state`, which the controls change. In this script, images and
// glimpses count from 0; the page shows the index of an image in its data set, and counts glimpses from 1.

const lastStep = Math.max(...data.models.map((model) => model.numGlimpses)) - 1;
const state = { image: 0, step: 0, label: "all", correctness: "all", timer: null };

// Filters

function isCorrect(model, image) {
  return model.correct[image][model.numGlimpses - 1] === 1;
}

const CORRECTNESS = {
  all: () => true,
  correct: (image) => data.models.every((model) => isCorrect(model, image)),
  wrong: (image) => data.models.some((model) => !isCorrect(model, image)),
};

function passes(image) {
  const { targets } = data.images[image];
  const isShown = CORRECTNESS[state.correctness] ?? (() => !isCorrect(data.models[state.correctness], image));
  return (state.label === "all" || targets.includes(Number(state.label))) && isShown(image);
}

function shownImages() {
  return data.images.map((_, image) => image).filter(passes);
}

// Changing the state

function goToStep(step) {
  pause();
  state.step = Math.min(Math.max(step, 0), lastStep);
  render();
}

function goToImage(image) {
  state.image = image;
  render();
  reveal(thumbnails[image]);
}

// Scrolls a thumbnail into view; scrollIntoView would scroll the page too.
function reveal({ offsetTop, offsetHeight }) {
  const box = byId("thumbnails");
  box.scrollTop = Math.min(Math.max(box.scrollTop, offsetTop + offsetHeight - box.clientHeight), offsetTop);
}

function moveImage(by) {
  const shown = shownImages();
  if (shown.length) goToImage(shown[(shown.indexOf(state.image) + by + shown.length) % shown.length]);
}

function filter(change) {
  Object.assign(state, change);
  const shown = shownImages();
  if (shown.length && !shown.includes(state.image)) state.image = shown[0];
  if (!shown.length) pause();
  render();
}

// Plays up to the last glimpse; from the last glimpse, starts at the first.
function play() {
  if (state.step === lastStep) state.step = 0;
  state.timer = setInterval(advance, Number(byId("speed").value));
  render();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
}

function advance() {
  state.step = Math.min(state.step + 1, lastStep);
  if (state.step === lastStep) pause();
  render();
}

function togglePlaying() {
  if (state.timer === null) return play();
  pause();
  render();
}

function changeSpeed() {
  if (state.timer === null) return;
  pause();
  play();
}

// The address, such as #image=17&glimpse=2

function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const image = data.images.findIndex(({ index }) => index === Number(address.get("image")));
  if (address.has("image") && image >= 0) state.image = image;
  if (!passes(state.image)) Object.assign(state, { label: "all", correctness: "all" });
  goToStep((Number.parseInt(address.get("glimpse"), 10) || state.step + 1) - 1);
  reveal(thumbnails[state.image]);
}

let addressTimer;
function keepAddress() {
  clearTimeout(addressTimer); // delayed, as browsers limit the rate of address changes
  const address = `#image=${data.images[state.image].index}&glimpse=${state.step + 1}`;
  addressTimer = setTimeout(() => history.replaceState(null, "", address), 200);
}

// Drawing

function render() {
  const shown = shownImages();
  renderThumbnails(shown);
  byId("stage").hidden = !shown.length;
  byId("no-match").hidden = shown.length > 0;
  if (!shown.length) return;
  renderControls();
  panels.forEach((panel, number) => renderModel(panel, data.models[number]));
  if (saliencyPanel) renderSaliency(saliencyPanel);
  keepAddress();
}

function renderThumbnails(shown) {
  thumbnails.forEach((thumbnail, image) => {
    thumbnail.hidden = !shown.includes(image);
    thumbnail.ariaCurrent = String(image === state.image);
    thumbnail.tabIndex = image === state.image ? 0 : -1;
  });
  byId("class-filter").value = state.label;
  byId("correctness-filter").value = state.correctness;
  byId("count").textContent = `${shown.length} of ${data.images.length} images`;
}

function renderControls() {
  const { index, label, targets } = data.images[state.image];
  const kind = targets.length === 1 ? "class" : "classes";
  byId("status").textContent = `Image ${index}, ${kind} ${label}: glimpse ${state.step + 1} of ${lastStep + 1}`;
  byId("scrub").value = state.step + 1;
  byId("play").textContent = state.timer === null ? "Play" : "Pause";
  byId("previous").ariaDisabled = String(state.step === 0); // `disabled` would lose the focus
  byId("next").ariaDisabled = String(state.step === lastStep);
}

function renderModel(panel, model) {
  const find = (name) => panel.querySelector(`.${name}`);
  const { image } = state;
  const step = Math.min(state.step, model.numGlimpses - 1); // a model with fewer glimpses stays at its last one
  drawGlimpse(find("view"), model, image, step);
  const correct = model.correct[image][step] === 1;
  const stepText = `glimpse ${step + 1} of ${model.numGlimpses}`;
  panel.dataset.glimpse = step + 1;
  find("verdict").className = `verdict ${correct ? "correct" : "wrong"}`;
  find("verdict").textContent = correct ? "\u2713 correct" : "\u2717 wrong";
  find("prediction").textContent = model.predictions[image][step];
  find("step").textContent = stepText;
  find("view").ariaLabel = `Image ${data.images[image].index} with ${stepText} of ${model.name}`;
  drawPatches(find("patches"), model, image, step);
  find("bars").replaceChildren(...probabilityBars(model, image, step));
  if (model.sensitivity) drawSensitivity(find("columns"), model.sensitivity[image], step);
}

function drawGlimpse(canvas, model, image, step) {
  const { context, zoom, line } = drawImage(canvas, image);
  const centers = model.centers[image];
  if (model.grid) drawWeights(context, model, image, step);
  drawTrail(context, centers.slice(0, step + 1), zoom, line);
  if (model.stds) drawFootprint(context, centers[step], model.stds[image][step], zoom, line);
  if (model.grid) return; // soft attention over a grid reads all its squares
  [...model.boxes[image][step].entries()].reverse().forEach(([scale, box]) => {
    drawBox(context, box.map((edge) => edge * zoom), scaleColor(scale), line);
  });
}

// Draws the image on a canvas, see `sizeCanvas`.
function drawImage(canvas, image) {
  const { context, zoom, line } = sizeCanvas(canvas);
  const picture = thumbnails[image].firstChild;
  context.imageSmoothingEnabled = picture.naturalWidth * 2 > canvas.width; // small images are shown as pixels
  if (picture.complete) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return { context, zoom, line };
}

function drawTrail(context, centers, zoom, line) {
  const pixels = centers.map(([x, y]) => [x * zoom, y * zoom]);
  const [first] = pixels;
  const last = pixels.at(-1);
  const size = 2.4 * line;
  const path = new Path2D();
  pixels.forEach(([x, y]) => path.lineTo(x, y));
  const marks = new Path2D();
  marks.arc(...first, size, 0, 2 * Math.PI);
  if (centers.length > 1) marks.rect(last[0] - size, last[1] - size, 2 * size, 2 * size);
  context.lineJoin = "round";
  strokeTwice(context, path, data.colors.trail, line);
  strokeTwice(context, marks, data.colors.trail, line / 2);
  context.fillStyle = data.colors.trail;
  context.fill(marks);
}

function drawFootprint(context, [x, y], [stdX, stdY], zoom, line) {
  context.fillStyle = "rgb(255 255 255 / 25%)";
  for (const deviations of [1, 2]) {
    const path = new Path2D();
    path.ellipse(x * zoom, y * zoom, deviations * stdX * zoom, deviations * stdY * zoom, 0, 0, 2 * Math.PI);
    context.fill(path);
    strokeTwice(context, path, data.colors.footprint, line / 2);
  }
}

function drawWeights(context, model, image, step) {
  const [rows, columns] = model.grid;
  const weights = bytes(model.weights[image]).subarray(step * rows * columns, (step + 1) * rows * columns);
  drawMap(context, weights, columns, rows, () => 140);
}

// Draws values from 0 to 255 over the whole canvas, with the color map.
function drawMap(context, values, width, height, opacity) {
  const pixels = new ImageData(width, height);
  values.forEach((value, place) => {
    pixels.data.set(colorMap.subarray(3 * value, 3 * value + 3), 4 * place);
    pixels.data[4 * place + 3] = opacity(value);
  });
  const map = new OffscreenCanvas(width, height);
  map.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(map, 0, 0, context.canvas.width, context.canvas.height);
}

function drawPatches(parent, { patches, numScales, patchSize, channels }, image, step) {
  const values = bytes(patches[image]);
  for (let scale = 0; scale < numScales; scale++) {
    const start = (step * numScales + scale) * patchSize * patchSize * channels;
    const pixels = new ImageData(patchSize, patchSize);
    for (let place = 0; place < patchSize * patchSize; place++) {
      const at = start + place * channels;
      const color = channels === 3 ? values.subarray(at, at + 3) : [values[at], values[at], values[at]];
      pixels.data.set(color, 4 * place);
      pixels.data[4 * place + 3] = 255;
    }
    parent.children[scale].getContext("2d").putImageData(pixels, 0, 0);
  }
}

function probabilityBars(model, image, step) {
  return model.classes[image].flatMap((number, place) => {
    const isTrue = data.images[image].targets.includes(number) ? " true" : "";
    const percent = 100 * model.probabilities[image][step][place];
    const bar = element("div", { className: "bar" });
    bar.style.width = `${percent}%`;
    const name = data.classNames[number];
    return [
      element("div", { className: `label${isTrue}`, textContent: isTrue ? `\u25B8 ${name}` : name, title: name }),
      element("div", { className: `track${isTrue}` }, bar),
      element("div", { className: `value${isTrue}`, textContent: inPercent(percent) }),
    ];
  });
}

function drawSensitivity(parent, sensitivity, step) {
  const columns = sensitivity.map((share, number) => {
    const bar = element("div", { className: "bar" });
    bar.style.height = `${100 * share}%`;
    const frame = element("div", { className: "frame" }, bar);
    return element("div", { className: number === step ? "column current" : "column" }, frame, String(number + 1));
  });
  parent.replaceChildren(...columns);
  const shares = sensitivity.map((share, number) => `glimpse ${number + 1}: ${Math.round(100 * share)}%`);
  parent.ariaLabel = `Relative to the largest: ${shares.join(", ")}`;
}

function renderSaliency(panel) {
  const { name, size, maps } = data.saliency;
  const { context, zoom, line } = drawImage(panel.querySelector(".view"), state.image);
  context.fillStyle = "rgb(0 0 0 / 55%)"; // darkens the image below the map
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  drawMap(context, bytes(maps[state.image]), ...size, (value) => 255 * Math.sqrt(value / 255));
  const [first] = data.models;
  drawTrail(context, first.centers[state.image].slice(0, state.step + 1), zoom, line);
  context.canvas.ariaLabel = `Saliency of ${name} in image ${data.images[state.image].index}`;
}

// Helpers

function scaleColor(scale) {
  return data.colors.scales[scale % data.colors.scales.length];
}

function inPercent(percent) {
  return `${percent.toFixed(percent < 0.05 || percent >= 9.95 ? 0 : 1)}%`;
}

// Building the page

const colorMap = bytes(data.colorMap);

function makeThumbnail({ index, label, source }, image) {
  const wrong = data.models.filter((model) => !isCorrect(model, image)).map((model) => model.name);
  const picture = element("img", { src: source, alt: "", onload: () => image === state.image && render() });
  picture.style.imageRendering = Math.max(...data.size) < 128 ? "pixelated" : "auto";
  const description = `Image ${index}, ${label}, ${wrong.length ? `wrong: ${wrong.join(", ")}` : "correct"}`;
  const className = wrong.length ? "thumbnail wrong" : "thumbnail";
  const button = element("button", { type: "button", className, title: description, ariaLabel: description }, picture);
  button.onclick = () => goToImage(image);
  button.dataset.index = index;
  return button;
}

function makePanel(model) {
  const panel = clone("model-panel");
  panel.querySelector(".name").textContent = model.name;
  panel.querySelector(".mode").textContent = `${model.mode} attention`;
  panel.querySelector(".sensitivity").hidden = !model.sensitivity;
  for (let scale = 0; scale < model.numScales; scale++) {
    const ariaLabel = `Patch of scale ${scale + 1}`;
    const patch = element("canvas", { width: model.patchSize, height: model.patchSize, role: "img", ariaLabel });
    patch.style.borderColor = scaleColor(scale);
    panel.querySelector(".patches").append(patch);
  }
  return panel;
}

function makeSaliencyPanel() {
  const panel = clone("saliency-panel");
  const color = (value) => `rgb(${colorMap.subarray(3 * value, 3 * value + 3)})`;
  const stops = [0, 32, 64, 96, 128, 160, 192, 224, 255].map(color);
  panel.querySelector(".name").textContent = data.saliency.name;
  panel.querySelector(".first").textContent = data.models[0].name;
  panel.querySelector(".color-map").style.background = `linear-gradient(to right, ${stops})`;
  return panel;
}

function fillFilters() {
  const option = (value, textContent) => element("option", { value, textContent });
  byId("class-filter").append(option("all", "all"), ...data.classNames.map((name, number) => option(number, name)));
  const several = data.models.length > 1;
  byId("correctness-filter").append(
    option("all", "all"),
    option("correct", several ? "all correct" : "correct"),
    option("wrong", several ? "some wrong" : "wrong"),
    ...(several ? data.models.map((model, number) => option(number, `${model.name} wrong`)) : []),
  );
}

const KEYS = {
  ArrowLeft: () => goToStep(state.step - 1),
  ArrowRight: () => goToStep(state.step + 1),
  Home: () => goToStep(0),
  End: () => goToStep(lastStep),
  " ": togglePlaying,
  n: () => moveImage(1),
  p: () => moveImage(-1),
};

// Returns whether the focused element handles the key itself: a menu, a slider, a scrolling box or a button.
function isTaken({ key, target, altKey, ctrlKey, metaKey }) {
  if (altKey || ctrlKey || metaKey || target.closest("select, .scroll")) return true;
  if (target.closest("input")) return key.length > 1;
  return key === " " && target.closest("button") !== null;
}

function onKey(event) {
  const action = KEYS[event.key];
  if (!action || isTaken(event)) return;
  event.preventDefault();
  action();
}

const thumbnails = data.images.map(makeThumbnail);
const panels = data.models.map(makePanel);
const saliencyPanel = data.saliency && makeSaliencyPanel();

byId("thumbnails").append(...thumbnails);
byId("panels").append(...panels, ...(saliencyPanel ? [saliencyPanel] : []));
byId("no-saliency").hidden = Boolean(saliencyPanel);
byId("scrub").max = lastStep + 1;
fillFilters();

byId("previous").onclick = () => goToStep(state.step - 1);
byId("next").onclick = () => goToStep(state.step + 1);
byId("previous-image").onclick = () => moveImage(-1);
byId("next-image").onclick = () => moveImage(1);
byId("play").onclick = togglePlaying;
byId("speed").onchange = changeSpeed;
byId("scrub").oninput = ({ target }) => goToStep(Number(target.value) - 1);
byId("class-filter").onchange = ({ target }) => filter({ label: target.value });
byId("correctness-filter").onchange = ({ target }) => filter({ correctness: target.value });
document.addEventListener("keydown", onKey);
addEventListener("hashchange", readAddress);
readAddress();
