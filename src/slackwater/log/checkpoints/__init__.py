"""Writers of checkpoints and of their sidecars."""
