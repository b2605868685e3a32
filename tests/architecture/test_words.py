"""Names that were replaced do not come back, and spelling is American."""

import io
import re
import tokenize
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted((REPOSITORY / "glimpse").rglob("*.py"))
TEXTS = [
    *SOURCES,
    *(REPOSITORY / name for name in ("train.py", "evaluate.py", "README.md", "results/README.md")),
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "configs").glob("*.yaml")),
    *sorted((REPOSITORY / "glimpse" / "view" / "pages").iterdir()),
]
# Names of version 0.1, each of which had to be explained.
REPLACED = {
    *("Aligned", "Attends", "Captioned", "Choice", "DataSet", "Early", "Estimates", "Found", "Game", "Job", "Lazy"),
    *("Lengths", "Loaded", "LoadedCaptioner", "LoadedTranslator", "Look", "Looks", "Means", "Mixed", "Mixer", "Played"),
    *("Recall", "Script", "SLACK", "StopBy", "Stopping", "Teller", "Telling", "TellingTask", "Thought", "Told"),
    *("Translated", "Unspoken", "Variances", "answer_of", "boldness", "certainties", "check_how", "disagreement"),
    *("essence", "find_shipped", "glimpse_numbers", "glimpses_taken", "how", "images_of", "in_a_row", "is_shipped"),
    *("learns_places", "least_pixels", "load_runs_of", "looks_of", "most_digits", "names_of", "on_a_grid"),
    *("options_of", "percents", "read_of", "returns_of", "rewind", "said", "seen_patches", "shelves", "summarise"),
    *("think", "told", "tokenise", "truth_of", "with_features"),
}
BRITISH = (
    r"\w*(?:centre|colour|behaviour|favour|neighbour|labelled|modelled|cancelled|"
    r"(?:normal|optim|token|initial|summar|recogn|organ|minim|maxim|visual|random|general|standard|emphas)is(?:e|ed|es|ing|ation))\w*|"
    r"grey\w*"
)
PHRASES = (
    r"has no say|have a say|left the numbers|the model's own way|by chance|left to chance|its kin\b|told otherwise"
)
# Old names and values that are still read, and names of files that keep theirs.
KEPT = {"glimpse/config/upgrade.py", "glimpse/moved.py", "glimpse/envs/rules.py"}
KEPT_WORDS = r"cluttered60_centre|random,centre,fc|aria-labelledby"


def test_replaced_names_do_not_come_back():
    found = []
    for path in SOURCES:
        text = path.read_text()
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME} & REPLACED
        found += [f"{path}: {name}" for name in names if name != "how" or "renamed_keywords" not in text]
    assert not found


def test_spelling_and_phrases():
    found = []
    for path in TEXTS:
        text = path.read_text()
        if path.relative_to(REPOSITORY).as_posix() not in KEPT:
            words = re.findall(rf"\b(?:{BRITISH})\b", re.sub(KEPT_WORDS, "", text), re.IGNORECASE)
            found += [f"{path}: {word}" for word in words]
        found += [f"{path}: {phrase}" for phrase in re.findall(PHRASES, re.sub(r"\s+", " ", text))]
    assert not found
