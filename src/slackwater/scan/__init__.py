"""What a read of one version needs: the files that may match, their deletion vectors, their lifetimes."""
