"""HTML output: escaped elements, one theme in light and dark, number formats, redaction of secrets."""
