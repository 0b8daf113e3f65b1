"""Commands on a lake and on its commit owner, which `serve` serves."""
