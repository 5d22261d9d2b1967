"""A sweep's report: `tables` makes rows of text, `shown` prints them, `pages` writes Markdown with
its plots, which `plots` draws as SVG."""
