"""Checkpoints: reading and writing of checkpoints, sidecars and `_last_checkpoint`."""
