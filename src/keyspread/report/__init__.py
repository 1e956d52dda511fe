"""Plots and the HTML report: the style of all plots, and the page with all figures and verdicts."""
