"""What was done when, and how files are laid out, as data and as pictures: SVG, PNG and pages of HTML."""
