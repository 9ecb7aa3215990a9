"""Adapters to model libraries: each finds the seams of a model's blocks and calls the model's own sub-modules."""
