"""What people look at: the plots' style and the page that shows all figures and verdicts."""
