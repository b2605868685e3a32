
// Each card shows a sentence, once for each model, with the words of its translation beneath. A word shades the source words
// by their weight, and marks its row in the heat map, which is made when it is first opened.

const shown = { sentence: "all", answers: "all" };

function weightsOf(model, sentence, word) {
  const length = data.sentences[sentence].source.length;
  return bytes(model.maps[sentence]).subarray(word * length, (word + 1) * length);
}

// Shades elements, one for each source word, as they are for a word that was written; as for none if it is null.
function shade(targets, model, sentence, word) {
  const weights = word === null ? null : weightsOf(model, sentence, word);
  const [start, stop] = (word === null ? null : data.sentences[sentence].spans[word]) ?? [0, 0];
  targets.forEach((target, place) => {
    const weight = weights === null ? 0 : weights[place] / 255;
    target.style.backgroundColor = weight ? `rgb(${data.colours.attention} / ${weight.toFixed(4)})` : "";
    target.classList.toggle("strong", weight > 0.6);
    target.classList.toggle("read", weights !== null && model.how === "hard" && place === model.places[sentence][word]);
    target.classList.toggle("meant", start <= place && place < stop);
  });
}

// The page, made once

function tellerOf(model, sentence) {
  const { source } = data.sentences[sentence];
  const from = source.map((textContent) => element("span", { className: "from", textContent }));
  const looked = element("p", { className: "source" }, ...from);
  if (model.how === null) {
    const { teller } = makeTeller(model, looked, [], () => {});
    const words = model.words[sentence].map((textContent) => element("span", { className: "word", textContent }));
    if (words.length) teller.querySelector(".caption").replaceChildren(...words);
    return finish(teller, model, sentence);
  }
  const map = element("details", { className: "map" }, element("summary", { textContent: "Heat map" }));
  const show = (word) => {
    shade(from, model, sentence, word);
    map.querySelectorAll("tbody tr").forEach((row, number) => row.classList.toggle("shown", number === word));
  };
  const words = model.words[sentence].map((text, word) => ({ text, label: labelOf(model, sentence, text, word) }));
  const { teller, change } = makeTeller(model, looked, words, show);
  map.ontoggle = () => {
    if (map.open && !map.querySelector("table")) map.append(makeMap(model, sentence, change));
    // Those of a sentence are there to be compared.
    for (const other of map.closest(".card").querySelectorAll(".map")) other.open = map.open;
  };
  if (words.length) teller.append(map);
  return finish(teller, model, sentence);
}

function labelOf(model, sentence, text, word) {
  const { source } = data.sentences[sentence];
  const place = model.places[sentence][word];
  const percent = Math.round(weightsOf(model, sentence, word)[place] / 2.55);
  const looked = model.how === "hard" ? "read" : "looked most at";
  return `${text}: ${looked} ${source[place]}, word ${place + 1} of ${source.length}, ${percent}%`;
}

// Says whether it is right, where that is known.
function finish(teller, model, sentence) {
  const right = model.right[sentence];
  if (right !== null) {
    const [name, text] = right ? ["right", data.verdicts[0]] : ["wrong", data.verdicts[1]];
    teller.querySelector("h4").append(" ", element("span", { className: `verdict ${name}`, textContent: text }));
  }
  return teller;
}

function makeMap(model, sentence, change) {
  const heading = (scope, text) =>
    element("th", { scope }, element("span", { className: text.length > 2 ? "long" : "", textContent: text }));
  const head = element("tr", {}, element("td"), ...data.sentences[sentence].source.map((text) => heading("col", text)));
  const rows = model.words[sentence].map((text, word) => {
    const cells = data.sentences[sentence].source.map(() => element("td"));
    shade(cells, model, sentence, word);
    const row = element("tr", {}, heading("row", text), ...cells);
    pointing(row, word, change);
    return row;
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Heat map" }, table);
}

function passes(sentence) {
  if (shown.sentence !== "all" && sentence !== Number(shown.sentence)) return false;
  const right = data.models.map((model) => model.right[sentence]);
  if (shown.answers === "all") return true;
  if (shown.answers === "right") return right.every((one) => one);
  return shown.answers === "wrong" ? !right.every((one) => one) : !right[Number(shown.answers)];
}

function filter(change) {
  Object.assign(shown, change);
  const cards = [...byId("cards").children];
  cards.forEach((card, sentence) => (card.hidden = !passes(sentence)));
  byId("count").textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} sentences`;
}

function fillFilters() {
  const option = (value, textContent) => element("option", { value, textContent });
  const [right, wrong] = data.verdicts;
  const several = data.models.length > 1;
  byId("answer-filter").append(
    option("all", "all"),
    option("right", several ? `all ${right}` : right),
    option("wrong", several ? `some ${wrong}` : wrong),
    ...(several ? data.models.map(({ name }, model) => option(model, `${name} ${wrong}`)) : []),
  );
  byId("answer-filter").closest("label").hidden = data.models[0].right[0] === null;
  byId("sentence-filter").append(
    option("all", "all"),
    ...data.sentences.map(({ index, source }, sentence) => option(sentence, `${index}: ${source.join(" ")}`)),
  );
  byId("answer-filter").onchange = ({ target }) => filter({ answers: target.value });
  byId("sentence-filter").onchange = ({ target }) => filter({ sentence: target.value });
}

byId("cards").append(
  ...data.sentences.map((sentence, row) =>
    makeCard(`Sentence ${sentence.index}`, sentence, data.models.map((model) => tellerOf(model, row))),
  ),
);
fillFilters();
filter({});
const first = document.querySelector(".map");
if (first !== null) first.open = true;
