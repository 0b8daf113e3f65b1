"""An owner's state that was lost, or set back, made anew; owners of before are fenced off."""
