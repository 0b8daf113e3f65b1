"""Visualization of histories and file layouts: data, SVG, PNG and HTML pages."""
