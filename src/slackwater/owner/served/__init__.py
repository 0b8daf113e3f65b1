"""The commit owner over HTTP: `app` and `server` serve any CommitOwner, `client` is one that asks such a server."""
