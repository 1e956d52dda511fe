"""The commands of `keyspread`, one file each."""
