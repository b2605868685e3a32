
// What pages of told words share. A card is of one example, with a teller for each model: what was looked at, and the words
// that were said beneath. A word that is pointed at, or has the focus, shows what was looked at for it.

// Makes a teller around what was looked at. `words` has the text of each word and what a screen reader says of it; `show` is
// called with the number of the word to show, or with null. Returns the teller and what to call to change what is shown.
function makeTeller(model, looked, words, show) {
  const teller = clone("teller");
  const find = (selector) => teller.querySelector(selector);
  find(".name").textContent = model.name;
  find(".how").textContent = model.how ?? "no";
  find("h4").after(looked);
  const state = { pointed: null, focused: null }; // the words that are, if any; the first goes before the other
  const change = (what) => {
    Object.assign(state, what);
    show(state.pointed ?? state.focused);
  };
  const buttons = words.map(({ text, label }, word) => makeWord(text, label, word, change));
  find(".caption").append(...(buttons.length ? buttons : ["(no words)"]));
  return { teller, change };
}

function makeWord(text, ariaLabel, word, change) {
  const button = element("button", { type: "button", className: "word", textContent: text, ariaLabel });
  pointing(button, word, change);
  button.onfocus = () => change({ focused: word });
  button.onblur = () => change({ focused: null });
  button.onclick = () => button.focus(); // not every browser does that by itself
  return button;
}

// Lets an element stand for a word when it is pointed at.
function pointing(target, word, change) {
  target.onpointerenter = () => change({ pointed: word });
  target.onpointerleave = () => change({ pointed: null });
}

function makeCard(heading, { index, references }, tellers) {
  const card = clone("card");
  const find = (selector) => card.querySelector(selector);
  card.dataset.index = index;
  find("h3").textContent = heading;
  find(".tellers").append(...tellers);
  find(".references").hidden = references.length === 0;
  find(".references summary").textContent = references.length === 1 ? "1 reference" : `${references.length} references`;
  find("ul").append(...references.map((textContent) => element("li", { textContent })));
  return card;
}
