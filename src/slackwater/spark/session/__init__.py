"""What differs between sessions: classic and Connect, settings, names, types, storage that is shared."""
