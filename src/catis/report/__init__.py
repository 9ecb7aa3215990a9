"""One kit for everything that is shown: tables, charts as SVG, self-contained pages, one colour per method."""
