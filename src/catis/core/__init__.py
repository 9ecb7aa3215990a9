"""Plans, the executor, schedules and what a method sees. Knows nothing of timm or transformers."""
