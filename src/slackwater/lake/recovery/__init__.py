"""Lakes whose owner's state is lost or set back: what their tables tell, and what is made anew of it."""
