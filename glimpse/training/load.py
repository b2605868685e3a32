"""From run folders to trained models, one by one or several to be compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glimpse.attention import Read
from glimpse.build import Model, build_data, make_captioner, make_model, make_translator, script_of
from glimpse.captioner import Captioner
from glimpse.config import TRANSLATED, Config, different, images_of
from glimpse.data import Splits
from glimpse.runs import Run, RunError, names_of
from glimpse.text import Vocabulary
from glimpse.translation import LoadedTranslator


class LoadedCaptioner(NamedTuple):
    """A run that writes captions."""

    run: Run
    model: Captioner
    vocabulary: Vocabulary
    image_shape: tuple[int, int, int]  # (C, H, W) of the images it was trained on


def load_captioner(folder: str | Path) -> LoadedCaptioner:
    """Open the run folder of a captioner, with its best weights and its words.

    Raises:
        RunError: If the folder is not such a run, or its checkpoint cannot be used.
    """
    run, about = _open_teller(folder, "captioner")
    try:
        channels, height, width = map(int, about["image_shape"])
        vocabulary = Vocabulary(about["words"])
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
    image_shape = (channels, height, width)
    model = make_captioner(run.config, image_shape=image_shape, vocabulary_size=len(vocabulary), pretrained=False)
    run.load_weights(model)
    return LoadedCaptioner(run, model.eval(), vocabulary, image_shape)


def load_translator(folder: str | Path) -> LoadedTranslator:
    """Open the run folder of a translator, with its best weights and its words.

    Raises:
        RunError: If the folder is not such a run, or its checkpoint cannot be used.
    """
    run, about = _open_teller(folder, "translator")
    try:
        source, target = Vocabulary(about["source_words"]), Vocabulary(about["words"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
    model = make_translator(run.config, source_size=len(source), vocabulary_size=len(target))
    run.load_weights(model)
    return LoadedTranslator(run, model.eval(), source, target, script_of(run.config.data))


def _open_teller(folder: str | Path, model: str) -> tuple[Run, dict[str, Any]]:
    """A run, if it is of this model, and what it has to say of itself."""
    run = Run.open(folder)
    if run.config.model != model:
        raise RunError(f"{folder} is not the run of a {model}, but of model {run.config.model}")
    return run, run.read_json("meta.json")


def load(folder: str | Path) -> Model | LoadedCaptioner | LoadedTranslator:
    """Load a trained model, with its best weights and ready to look.

        model = glimpse.load("cluttered60-hard")
        answers = model(images, sample=False).logits[:, -1].argmax(-1)  # images: (B, 1, 60, 60), 8-bit or float

    Args:
        folder: A run folder, or the name of a model that ships with the package (`glimpse.shipped_models()`).

    Returns:
        The model itself of a classifier; of a captioner a `LoadedCaptioner`, of a translator a `LoadedTranslator`,
        which have the words beside the model. It reads as it does when it is scored, unless told otherwise.

    Raises:
        RunError: If there is no such run, or its checkpoint cannot be used.
    """
    config = Run.open(folder).config
    if config.model in ("captioner", "translator"):
        loaded = (load_captioner if config.model == "captioner" else load_translator)(folder)
        reader = loaded.model.decoder
    else:
        loaded = _load_model(Run.open(folder))[0]
        reader = loaded.glimpses if config.model == "attention" else None
    if reader is not None and config.score.read is not None:
        reader.attention.how = config.score.read
    return loaded


class Loaded(NamedTuple):
    """A run, ready to be compared with others."""

    run: Run
    name: str  # that no other of them has
    model: Model
    how: Read | None  # how it reads when scored; None if it sees the whole image


def load_runs(folders: Sequence[str | Path]) -> tuple[list[Loaded], Splits]:
    """Open run folders that are to be scored on the very same images.

    Raises:
        RunError: If a folder is not a run, or is given twice, or its checkpoint cannot be used; or if the data has
            changed, or is not the same for all.
        DataError: If the data cannot be read.
    """
    if not folders:
        raise RunError("there must be at least one run folder, got none")
    runs = [Run.open(folder) for folder in folders]
    for run in runs:
        check_comparable(str(run), run.config)
    check_given_once(runs)
    check_same_images({str(run): run.config for run in runs})
    data = build_data(runs[0].config.data)
    loaded = []
    for run, name in zip(runs, names_of(runs), strict=True):
        config = run.config
        how = (config.score.read or config.read) if config.model == "attention" else None
        loaded.append(Loaded(run, name, _load_model_for(run, data), how))
    return loaded, data


def check_comparable(name: str, config: Config) -> None:
    """Refuse a run, or what is to become one, that classifies nothing; raises RunError."""
    if config.model == "captioner":
        raise RunError(f"{name} writes captions: it can be scored and shown, but not compared")
    if config.model == "translator":
        raise RunError(f"{name} translates: score, compare, glimpses, report and translate are for it, others are not")


def check_given_once(runs: Sequence[Run]) -> None:
    """Refuse a run that is among others twice; raises RunError."""
    if twice := [run for run in runs if sum(run.folder.samefile(other.folder) for other in runs) > 1]:
        raise RunError(f"each run must be given once, got {twice[0]} more often")


def check_same_images(configs: dict[str, Config]) -> None:
    """Refuse configs, by name, whose data are not the same images or sentences; raises RunError."""
    (first, reference), *others = configs.items()
    for name, config in others:
        differ = [
            f"{key} {one} and {other}"
            for key, one, other in different(images_of(reference.data), images_of(config.data), "data.")
        ]
        if differ:
            what = "sentences" if reference.data.kind in TRANSLATED else "images"
            raise RunError(
                f"{first} and {name} cannot be compared: they do not have the same {what} ({'; '.join(differ)})"
            )


def _load_model_for(run: Run, data: Splits) -> Model:
    """Load the best weights of a run, if the data is what it was trained on."""
    model, image_shape, class_names = _load_model(run)
    then, now = (image_shape, class_names), (list(data.test.image_shape), list(data.test.class_names))
    if then != now:
        parts = [f"images of {then[0]} and {len(then[1])} classes then, {now[0]} and {len(now[1])} now"]
        parts += [f"class {one} then, {other} now" for one, other in zip(then[1], now[1], strict=False) if one != other]
        raise RunError(f"the data of {run} is not what it was trained on: {'; '.join(parts[:5])}")
    return model


def _load_model(run: Run) -> tuple[Model, list[int], list[str]]:
    about = run.read_json("meta.json")
    try:
        image_shape, class_names = list(about["image_shape"]), list(about["class_names"])
        model = make_model(run.config, image_shape=tuple(image_shape), num_classes=len(class_names))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
    run.load_weights(model)
    return model.eval(), image_shape, class_names
