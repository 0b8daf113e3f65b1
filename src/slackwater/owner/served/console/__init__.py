"""Web pages of a served owner: the read-only console, and the reference of its interface."""
