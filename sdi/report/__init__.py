"""A run as one HTML file: its facts, trajectories, heatmaps, examples and tables, drawn by Vega-Lite, without network.

result, store -> `collect` (numbers) and `examples` (what the user's `show` says) -> `page` (one file) -> `write`.
"""
