"""Tables and pictures of what a model does."""
