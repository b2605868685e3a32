"""Names that were replaced do not come back, and spelling is American."""

import io
import re
import tokenize
from pathlib import Path

import pytest

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
KEPT = {"glimpse/config/upgrade.py", "glimpse/__init__.py", "glimpse/envs/rules.py"}
KEPT_WORDS = r"cluttered60_centre|random,centre,fc|aria-labelledby"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_replaced_names_do_not_come_back(path):
    names = (
        token.string
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME
    )
    found = {name for name in names if name in REPLACED}
    assert found <= ({"how"} if "renamed_keywords" in path.read_text() else set())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_spelling_and_phrases(path):
    text = path.read_text()
    words = re.findall(rf"\b(?:{BRITISH})\b", re.sub(KEPT_WORDS, "", text), re.IGNORECASE)
    assert path.relative_to(REPOSITORY).as_posix() in KEPT or not words
    assert not re.findall(PHRASES, re.sub(r"\s+", " ", text))
