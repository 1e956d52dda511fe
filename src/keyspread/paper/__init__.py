"""The paper, reproduced: simulations, a deployment, figures with verdicts, a report."""
