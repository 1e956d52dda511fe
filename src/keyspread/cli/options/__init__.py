"""The options of the commands: each option's name, help and parser is written once, here."""
