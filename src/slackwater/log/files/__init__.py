"""The other files of a log directory: actions in JSON, compactions, version checksums, and what is deleted of them."""
