"""Read streams from files: `paths` lists the files, `formats` parses them, `times` parses times, `files` joins all."""
