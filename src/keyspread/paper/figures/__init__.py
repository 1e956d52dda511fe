"""One file per figure: parameters → runs → table → plot → verdicts."""
