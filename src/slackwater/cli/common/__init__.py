"""Arguments, output and progress that commands share."""
