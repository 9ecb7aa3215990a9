"""Images: corruptions, folders, readers."""
