"""Settings of attention to annotations: cells of a feature map, words, or one annotation of the whole sentence."""

from typing import Literal

from glimpse.attention.settings.base import ATTENTIONS, AnnotationAttentionSettings


class WindowedSettings(AnnotationAttentionSettings):
    """attention: annotations, all or those in a window."""

    window: int | None = None
    """Local attention: radius, in annotations, of the window around a predicted point; null: global attention."""

    def check(self) -> None:
        """Check the ranges."""
        super().check()
        self.require(self.window is None or self.window >= 1, "window", "null or at least 1")


@ATTENTIONS.register("feature_map")
class FeatureMapSettings(WindowedSettings):
    """attention: the cells of an image encoder's feature map."""

    kind: Literal["feature_map"] = "feature_map"
    """The cells of an image encoder's feature map."""


class SentenceAttentionSettings(AnnotationAttentionSettings):
    """attention: the annotations of a sentence."""


@ATTENTIONS.register("words")
class WordsSettings(WindowedSettings, SentenceAttentionSettings):
    """attention: the words of the sentence."""

    kind: Literal["words"] = "words"
    """The words of the sentence."""


@ATTENTIONS.register("final_state")
class FinalStateSettings(SentenceAttentionSettings):
    """attention: none; the decoder reads the encoder's final state, as in plain sequence-to-sequence models."""

    has_choice = False
    kind: Literal["final_state"] = "final_state"
    """No attention: the decoder reads the encoder's final state, as in plain sequence-to-sequence models."""
