// Shared by the reports of captions and translations. A card has an example, with an output for each model: the input and
// below it the words of the output. The word under the pointer, or with the focus, shows its attention.

// Makes the output of a model. `attended` is the element of the input; `words` has the text of each word and its label for
// screen readers; `show` is called with the index of the word to show, or with null. Returns the output, and a function
// that changes the word to show.
function makeOutput(model, attended, words, show) {
  const output = clone("output");
  const find = (selector) => output.querySelector(selector);
  find(".name").textContent = model.name;
  find(".mode").textContent = model.mode ?? "no";
  find("h4").after(attended);
  const state = { pointed: null, focused: null }; // indices of words or null; the pointer has precedence
  const change = (changes) => {
    Object.assign(state, changes);
    show(state.pointed ?? state.focused);
  };
  const buttons = words.map(({ text, label }, word) => makeWord(text, label, word, change));
  find(".caption").append(...(buttons.length ? buttons : ["(no words)"]));
  return { output, change };
}

function makeWord(text, ariaLabel, word, change) {
  const button = element("button", { type: "button", className: "word", textContent: text, ariaLabel });
  showOnPointer(button, word, change);
  button.onfocus = () => change({ focused: word });
  button.onblur = () => change({ focused: null });
  button.onclick = () => button.focus(); // some browsers do not focus a button on a click
  return button;
}

// Shows the attention of a word while the pointer is over an element.
function showOnPointer(target, word, change) {
  target.onpointerenter = () => change({ pointed: word });
  target.onpointerleave = () => change({ pointed: null });
}

function makeCard(heading, { index, references }, outputs) {
  const card = clone("card");
  const find = (selector) => card.querySelector(selector);
  card.dataset.index = index;
  find("h3").textContent = heading;
  find(".outputs").append(...outputs);
  find(".references").hidden = references.length === 0;
  find(".references summary").textContent = references.length === 1 ? "1 reference" : `${references.length} references`;
  find("ul").append(...references.map((textContent) => element("li", { textContent })));
  return card;
}
