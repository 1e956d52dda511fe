"""Results that draw themselves: one `Picture` per result, as SVG or HTML without scripts, or as text. No engine."""
