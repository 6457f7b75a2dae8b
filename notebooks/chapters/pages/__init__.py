"""Two pages that stand alone, in which a model is trained, or a training is dragged."""
