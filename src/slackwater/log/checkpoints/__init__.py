"""Checkpoints: what they say, how they are written, the sidecars they point to, and the hint to the last one."""
