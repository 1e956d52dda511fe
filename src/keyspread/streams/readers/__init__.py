"""Read streams from files.

A path becomes a stream in these steps, each in its own module:

1. `paths` lists the files that the path means.
2. `files` opens each file, unpacks gzip and keeps count of bytes and lines. `read_stream` is here.
3. `formats` finds the format of the file.
4. `lines` cuts a text file into blocks of whole records; `parquet` reads batches of rows.
5. One module per format parses a block: `fixed_columns` (tsv, wikibench), `csv_records`, `json_lines`, `tweets`.
   They share `columns` (is the column there?) and `times` (what is a time?).
6. `messages` collects the parsed messages and counts the malformed lines; `key_texts` keeps the text of every key.

`file_stream` is the recipe of a stream that is read later, perhaps on another machine.
"""
