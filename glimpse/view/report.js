// Everything on the page is drawn by render() from `data`, which never changes, and `state`, which the reader changes.
// Images and glimpses are counted from 0 here and shown by their index in the data set and from 1.

const lastStep = Math.max(...data.models.map((model) => model.steps)) - 1;
const state = { image: 0, step: 0, ofClass: "all", answers: "all", timer: null };

// The images that pass the filters

function isRight(model, image) {
  return model.right[image][model.steps - 1] === 1;
}

const ANSWERS = {
  all: () => true,
  right: (image) => data.models.every((model) => isRight(model, image)),
  wrong: (image) => data.models.some((model) => !isRight(model, image)),
};

function passes(image) {
  const { targets } = data.images[image];
  const answers = ANSWERS[state.answers] ?? (() => !isRight(data.models[state.answers], image));
  return (state.ofClass === "all" || targets.includes(Number(state.ofClass))) && answers(image);
}

function shownImages() {
  return data.images.map((_, image) => image).filter(passes);
}

// Changes of the state

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

// Scrolls the thumbnails, and not the page, which may be at the glimpses.
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

// Playing stops at the last glimpse; from there it begins anew.
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

// The address: #image=17&glimpse=2

function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const image = data.images.findIndex(({ index }) => index === Number(address.get("image")));
  if (address.has("image") && image >= 0) state.image = image;
  if (!passes(state.image)) Object.assign(state, { ofClass: "all", answers: "all" });
  goToStep((Number.parseInt(address.get("glimpse"), 10) || state.step + 1) - 1);
  reveal(thumbnails[state.image]);
}

let addressTimer;
function keepAddress() {
  clearTimeout(addressTimer); // not at every step of a fast play: browsers limit how often it may change
  const address = `#image=${data.images[state.image].index}&glimpse=${state.step + 1}`;
  addressTimer = setTimeout(() => history.replaceState(null, "", address), 200);
}

// Drawing

function render() {
  const shown = shownImages();
  renderChoice(shown);
  byId("stage").hidden = !shown.length;
  byId("nothing").hidden = shown.length > 0;
  if (!shown.length) return;
  renderControls();
  panels.forEach((panel, number) => renderModel(panel, data.models[number]));
  if (salientPanel) renderSalient(salientPanel);
  keepAddress();
}

function renderChoice(shown) {
  thumbnails.forEach((thumbnail, image) => {
    thumbnail.hidden = !shown.includes(image);
    thumbnail.ariaCurrent = String(image === state.image);
    thumbnail.tabIndex = image === state.image ? 0 : -1;
  });
  byId("class-filter").value = state.ofClass;
  byId("answer-filter").value = state.answers;
  byId("count").textContent = `${shown.length} of ${data.images.length} images`;
}

function renderControls() {
  const { index, label, targets } = data.images[state.image];
  const kind = targets.length === 1 ? "class" : "classes";
  byId("status").textContent = `Image ${index}, ${kind} ${label}: glimpse ${state.step + 1} of ${lastStep + 1}`;
  byId("scrub").value = state.step + 1;
  byId("play").textContent = state.timer === null ? "Play" : "Pause";
  byId("previous").ariaDisabled = String(state.step === 0); // not disabled, which would lose the focus
  byId("next").ariaDisabled = String(state.step === lastStep);
}

function renderModel(panel, model) {
  const find = (name) => panel.querySelector(`.${name}`);
  const { image } = state;
  const step = Math.min(state.step, model.steps - 1); // a model with fewer glimpses stays at its last
  drawGlimpse(find("view"), model, image, step);
  const right = model.right[image][step] === 1;
  const which = `glimpse ${step + 1} of ${model.steps}`;
  panel.dataset.glimpse = step + 1;
  find("verdict").className = `verdict ${right ? "right" : "wrong"}`;
  find("verdict").textContent = right ? "\u2713 right" : "\u2717 wrong";
  find("said").textContent = model.said[image][step];
  find("which").textContent = which;
  find("view").ariaLabel = `Image ${data.images[image].index} with ${which} of ${model.name}`;
  drawPatches(find("patches"), model, image, step);
  find("bars").replaceChildren(...probabilityBars(model, image, step));
  if (model.sensitivity) drawSensitivity(find("columns"), model.sensitivity[image], step);
}

function drawGlimpse(canvas, model, image, step) {
  const { context, zoom, line } = openCanvas(canvas, image);
  const points = model.points[image];
  if (model.grid) drawWeights(context, model, image, step);
  drawTrail(context, points.slice(0, step + 1), zoom, line);
  if (model.spread) drawFootprint(context, points[step], model.spread[image][step], zoom, line);
  if (model.grid) return; // a soft read of a grid has no squares of its own
  [...model.boxes[image][step].entries()].reverse().forEach(([scale, box]) => {
    drawBox(context, box.map((edge) => edge * zoom), scaleColour(scale), line);
  });
}

// Sets a canvas up with the image; see `sizeCanvas`.
function openCanvas(canvas, image) {
  const { context, zoom, line } = sizeCanvas(canvas);
  const picture = thumbnails[image].firstChild;
  context.imageSmoothingEnabled = picture.naturalWidth * 2 > canvas.width; // few pixels are shown as such
  if (picture.complete) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return { context, zoom, line };
}

function drawTrail(context, points, zoom, line) {
  const pixels = points.map(([x, y]) => [x * zoom, y * zoom]);
  const [first] = pixels;
  const last = pixels.at(-1);
  const size = 2.4 * line;
  const path = new Path2D();
  pixels.forEach(([x, y]) => path.lineTo(x, y));
  const marks = new Path2D();
  marks.arc(...first, size, 0, 2 * Math.PI);
  if (points.length > 1) marks.rect(last[0] - size, last[1] - size, 2 * size, 2 * size);
  context.lineJoin = "round";
  strokeTwice(context, path, data.colours.trail, line);
  strokeTwice(context, marks, data.colours.trail, line / 2);
  context.fillStyle = data.colours.trail;
  context.fill(marks);
}

function drawFootprint(context, [x, y], [spreadX, spreadY], zoom, line) {
  context.fillStyle = "rgb(255 255 255 / 25%)";
  for (const deviations of [1, 2]) {
    const path = new Path2D();
    path.ellipse(x * zoom, y * zoom, deviations * spreadX * zoom, deviations * spreadY * zoom, 0, 0, 2 * Math.PI);
    context.fill(path);
    strokeTwice(context, path, data.colours.footprint, line / 2);
  }
}

function drawWeights(context, model, image, step) {
  const [rows, columns] = model.grid;
  const weights = bytes(model.weights[image]).subarray(step * rows * columns, (step + 1) * rows * columns);
  drawMap(context, weights, columns, rows, () => 140);
}

// Draws numbers from 0 to 255 over the whole canvas in the colours of the ramp.
function drawMap(context, values, width, height, opacity) {
  const pixels = new ImageData(width, height);
  values.forEach((value, place) => {
    pixels.data.set(ramp.subarray(3 * value, 3 * value + 3), 4 * place);
    pixels.data[4 * place + 3] = opacity(value);
  });
  const map = new OffscreenCanvas(width, height);
  map.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(map, 0, 0, context.canvas.width, context.canvas.height);
}

function drawPatches(parent, { patches, scales, side, channels }, image, step) {
  const values = bytes(patches[image]);
  for (let scale = 0; scale < scales; scale++) {
    const start = (step * scales + scale) * side * side * channels;
    const pixels = new ImageData(side, side);
    for (let place = 0; place < side * side; place++) {
      const at = start + place * channels;
      const colour = channels === 3 ? values.subarray(at, at + 3) : [values[at], values[at], values[at]];
      pixels.data.set(colour, 4 * place);
      pixels.data[4 * place + 3] = 255;
    }
    parent.children[scale].getContext("2d").putImageData(pixels, 0, 0);
  }
}

function probabilityBars(model, image, step) {
  return model.classes[image].flatMap((number, place) => {
    const there = data.images[image].targets.includes(number) ? " true" : "";
    const percent = 100 * model.answers[image][step][place];
    const bar = element("div", { className: "bar" });
    bar.style.width = `${percent}%`;
    const name = data.classNames[number];
    return [
      element("div", { className: `label${there}`, textContent: there ? `\u25B8 ${name}` : name, title: name }),
      element("div", { className: `track${there}` }, bar),
      element("div", { className: `value${there}`, textContent: inPercent(percent) }),
    ];
  });
}

function drawSensitivity(parent, sensitivity, step) {
  const columns = sensitivity.map((share, number) => {
    const bar = element("div", { className: "bar" });
    bar.style.height = `${100 * share}%`;
    const room = element("div", { className: "room" }, bar);
    return element("div", { className: number === step ? "column current" : "column" }, room, String(number + 1));
  });
  parent.replaceChildren(...columns);
  const shares = sensitivity.map((share, number) => `glimpse ${number + 1}: ${Math.round(100 * share)}%`);
  parent.ariaLabel = `Of the largest: ${shares.join(", ")}`;
}

function renderSalient(panel) {
  const { name, size, maps } = data.salient;
  const { context, zoom, line } = openCanvas(panel.querySelector(".view"), state.image);
  context.fillStyle = "rgb(0 0 0 / 55%)"; // dims the image beneath the map
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  drawMap(context, bytes(maps[state.image]), ...size, (value) => 255 * Math.sqrt(value / 255));
  const [first] = data.models;
  drawTrail(context, first.points[state.image].slice(0, state.step + 1), zoom, line);
  context.canvas.ariaLabel = `What ${name} depends on in image ${data.images[state.image].index}`;
}

// Small things

function scaleColour(scale) {
  return data.colours.scales[scale % data.colours.scales.length];
}

function inPercent(percent) {
  return `${percent.toFixed(percent < 0.05 || percent >= 9.95 ? 0 : 1)}%`;
}

// The page, made once

const ramp = bytes(data.ramp);

function makeThumbnail({ index, label, source }, image) {
  const wrong = data.models.filter((model) => !isRight(model, image)).map((model) => model.name);
  const picture = element("img", { src: source, alt: "", onload: () => image === state.image && render() });
  picture.style.imageRendering = Math.max(...data.size) < 128 ? "pixelated" : "auto";
  const about = `Image ${index}, ${label}, ${wrong.length ? `wrong: ${wrong.join(", ")}` : "right"}`;
  const className = wrong.length ? "thumbnail wrong" : "thumbnail";
  const button = element("button", { type: "button", className, title: about, ariaLabel: about }, picture);
  button.onclick = () => goToImage(image);
  button.dataset.index = index;
  return button;
}

function makePanel(model) {
  const panel = clone("model-panel");
  panel.querySelector(".name").textContent = model.name;
  panel.querySelector(".how").textContent = `${model.how} attention`;
  panel.querySelector(".sensitivity").hidden = !model.sensitivity;
  for (let scale = 0; scale < model.scales; scale++) {
    const ariaLabel = `Patch of scale ${scale + 1}`;
    const patch = element("canvas", { width: model.side, height: model.side, role: "img", ariaLabel });
    patch.style.borderColor = scaleColour(scale);
    panel.querySelector(".patches").append(patch);
  }
  return panel;
}

function makeSalientPanel() {
  const panel = clone("salient-panel");
  const colour = (value) => `rgb(${ramp.subarray(3 * value, 3 * value + 3)})`;
  const stops = [0, 32, 64, 96, 128, 160, 192, 224, 255].map(colour);
  panel.querySelector(".name").textContent = data.salient.name;
  panel.querySelector(".first").textContent = data.models[0].name;
  panel.querySelector(".ramp").style.background = `linear-gradient(to right, ${stops})`;
  return panel;
}

function fillFilters() {
  const option = (value, textContent) => element("option", { value, textContent });
  byId("class-filter").append(option("all", "all"), ...data.classNames.map((name, number) => option(number, name)));
  const several = data.models.length > 1;
  byId("answer-filter").append(
    option("all", "all"),
    option("right", several ? "all right" : "right"),
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

// Whether what has the focus needs the key itself: choosing, sliding, scrolling, pressing.
function isTaken({ key, target, altKey, ctrlKey, metaKey }) {
  if (altKey || ctrlKey || metaKey || target.closest("select, .scroll")) return true;
  if (target.closest("input")) return key.length > 1;
  return key === " " && target.closest("button") !== null;
}

function onKey(event) {
  const act = KEYS[event.key];
  if (!act || isTaken(event)) return;
  event.preventDefault();
  act();
}

const thumbnails = data.images.map(makeThumbnail);
const panels = data.models.map(makePanel);
const salientPanel = data.salient && makeSalientPanel();

byId("thumbnails").append(...thumbnails);
byId("panels").append(...panels, ...(salientPanel ? [salientPanel] : []));
byId("no-network").hidden = Boolean(salientPanel);
byId("scrub").max = lastStep + 1;
fillFilters();

byId("previous").onclick = () => goToStep(state.step - 1);
byId("next").onclick = () => goToStep(state.step + 1);
byId("previous-image").onclick = () => moveImage(-1);
byId("next-image").onclick = () => moveImage(1);
byId("play").onclick = togglePlaying;
byId("speed").onchange = changeSpeed;
byId("scrub").oninput = ({ target }) => goToStep(Number(target.value) - 1);
byId("class-filter").onchange = ({ target }) => filter({ ofClass: target.value });
byId("answer-filter").onchange = ({ target }) => filter({ answers: target.value });
document.addEventListener("keydown", onKey);
addEventListener("hashchange", readAddress);
readAddress();
