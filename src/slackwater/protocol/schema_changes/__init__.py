"""Changes of a schema: columns added, renamed, dropped, widened, merged, replaced."""
