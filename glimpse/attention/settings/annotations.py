"""Settings of the attention to annotations: of a feature map, of words, or to one that stands for all."""

from typing import Literal

from glimpse.attention.settings.base import ATTENTIONS, AnnotationAttentionSettings


class WindowedSettings(AnnotationAttentionSettings):
    """attention: annotations, all of them or those in a window."""

    window: int | None = None
    """Look only so many annotations to either side of a point that the state predicts; null: anywhere."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require(self.window is None or self.window >= 1, "window", "null or at least 1")


@ATTENTIONS.register("feature_map")
class FeatureMapSettings(WindowedSettings):
    """attention: the cells of the map of features that an image encoder makes."""

    kind: Literal["feature_map"] = "feature_map"
    """The cells of the map of features that an image encoder makes."""


class SentenceAttentionSettings(AnnotationAttentionSettings):
    """attention: to a sentence."""


@ATTENTIONS.register("words")
class WordsSettings(WindowedSettings, SentenceAttentionSettings):
    """attention: the words of the sentence."""

    kind: Literal["words"] = "words"
    """The words of the sentence."""


@ATTENTIONS.register("final_state")
class FinalStateSettings(SentenceAttentionSettings):
    """attention: none; one annotation stands for the whole sentence, as in plain sequence-to-sequence models."""

    has_choice = False
    kind: Literal["final_state"] = "final_state"
    """No attention: one annotation stands for the whole sentence, as in plain sequence-to-sequence models."""
