"""Commands on a lake and its commit owner, including `serve`."""
