// A card shows a sentence, once for each model, with the words of the translation below. The current word shades the source
// words by their attention weights, and marks its row in the heat map, which is built when it is first opened.

const filters = { sentence: "all", correctness: "all" };

function weightsOf(model, sentence, word) {
  const length = data.sentences[sentence].source.length;
  return bytes(model.weights[sentence]).subarray(word * length, (word + 1) * length);
}

// Shades elements, one for each source word, by their weights for an output word; null: clears them.
function shade(targets, model, sentence, word) {
  const weights = word === null ? null : weightsOf(model, sentence, word);
  const [start, stop] = (word === null ? null : data.sentences[sentence].spans[word]) ?? [0, 0];
  targets.forEach((target, place) => {
    const weight = weights === null ? 0 : weights[place] / 255;
    target.style.backgroundColor = weight ? `rgb(${data.colors.attention} / ${weight.toFixed(4)})` : "";
    target.classList.toggle("large-weight", weight > 0.6);
    target.classList.toggle("read", weights !== null && model.mode === "hard" && place === model.places[sentence][word]);
    target.classList.toggle("aligned", start <= place && place < stop);
  });
}

// Building the page

function outputOf(model, sentence) {
  const { source } = data.sentences[sentence];
  const sourceWords = source.map((textContent) => element("span", { className: "source-word", textContent }));
  const attended = element("p", { className: "source" }, ...sourceWords);
  if (model.mode === null) {
    const { output } = makeOutput(model, attended, [], () => {});
    const words = model.outputs[sentence].map((textContent) => element("span", { className: "word", textContent }));
    if (words.length) output.querySelector(".caption").replaceChildren(...words);
    return addVerdict(output, model, sentence);
  }
  const heatmap = element("details", { className: "heatmap" }, element("summary", { textContent: "Heat map" }));
  const show = (word) => {
    shade(sourceWords, model, sentence, word);
    heatmap.querySelectorAll("tbody tr").forEach((row, number) => row.classList.toggle("current", number === word));
  };
  const words = model.outputs[sentence].map((text, word) => ({ text, label: labelOf(model, sentence, text, word) }));
  const { output, change } = makeOutput(model, attended, words, show);
  heatmap.ontoggle = () => {
    if (heatmap.open && !heatmap.querySelector("table")) heatmap.append(makeHeatmap(model, sentence, change));
    // The heat maps of a sentence open together, for comparison.
    for (const other of heatmap.closest(".card").querySelectorAll(".heatmap")) other.open = heatmap.open;
  };
  if (words.length) output.append(heatmap);
  return addVerdict(output, model, sentence);
}

function labelOf(model, sentence, text, word) {
  const { source } = data.sentences[sentence];
  const place = model.places[sentence][word];
  const percent = Math.round(weightsOf(model, sentence, word)[place] / 2.55);
  const verb = model.mode === "hard" ? "read" : "attended most to";
  return `${text}: ${verb} ${source[place]}, word ${place + 1} of ${source.length}, ${percent}%`;
}

// Adds whether the translation is correct, if known.
function addVerdict(output, model, sentence) {
  const correct = model.correct[sentence];
  if (correct !== null) {
    const [name, text] = correct ? ["correct", data.verdicts[0]] : ["wrong", data.verdicts[1]];
    output.querySelector("h4").append(" ", element("span", { className: `verdict ${name}`, textContent: text }));
  }
  return output;
}

function makeHeatmap(model, sentence, change) {
  const heading = (scope, text) =>
    element("th", { scope }, element("span", { className: text.length > 2 ? "long" : "", textContent: text }));
  const head = element("tr", {}, element("td"), ...data.sentences[sentence].source.map((text) => heading("col", text)));
  const rows = model.outputs[sentence].map((text, word) => {
    const cells = data.sentences[sentence].source.map(() => element("td"));
    shade(cells, model, sentence, word);
    const row = element("tr", {}, heading("row", text), ...cells);
    showOnPointer(row, word, change);
    return row;
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Heat map" }, table);
}

function passes(sentence) {
  if (filters.sentence !== "all" && sentence !== Number(filters.sentence)) return false;
  const correct = data.models.map((model) => model.correct[sentence]);
  if (filters.correctness === "all") return true;
  if (filters.correctness === "correct") return correct.every(Boolean);
  return filters.correctness === "wrong" ? !correct.every(Boolean) : !correct[Number(filters.correctness)];
}

function filter(change) {
  Object.assign(filters, change);
  const cards = [...byId("cards").children];
  cards.forEach((card, sentence) => (card.hidden = !passes(sentence)));
  byId("count").textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} sentences`;
}

function fillFilters() {
  const option = (value, textContent) => element("option", { value, textContent });
  const [correct, wrong] = data.verdicts;
  const several = data.models.length > 1;
  byId("correctness-filter").append(
    option("all", "all"),
    option("correct", several ? `all ${correct}` : correct),
    option("wrong", several ? `some ${wrong}` : wrong),
    ...(several ? data.models.map(({ name }, model) => option(model, `${name} ${wrong}`)) : []),
  );
  byId("correctness-filter").closest("label").hidden = data.models[0].correct[0] === null;
  byId("sentence-filter").append(
    option("all", "all"),
    ...data.sentences.map(({ index, source }, sentence) => option(sentence, `${index}: ${source.join(" ")}`)),
  );
  byId("correctness-filter").onchange = ({ target }) => filter({ correctness: target.value });
  byId("sentence-filter").onchange = ({ target }) => filter({ sentence: target.value });
}

byId("cards").append(
  ...data.sentences.map((sentence, row) =>
    makeCard(`Sentence ${sentence.index}`, sentence, data.models.map((model) => outputOf(model, row))),
  ),
);
fillFilters();
filter({});
const first = document.querySelector(".heatmap");
if (first !== null) first.open = true;
