"""The commit owner: see the modules of this package, `api` first."""
