"""Log actions and their values: files, paths, deletion vectors, partition values, timestamps."""
