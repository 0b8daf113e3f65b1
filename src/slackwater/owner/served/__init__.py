"""Commit owner over HTTP: `app` and `server` serve any CommitOwner, `client` has the client."""
