"""When a reduced Vision Transformer will collapse, and of what: pure functions, each with an accumulator."""
