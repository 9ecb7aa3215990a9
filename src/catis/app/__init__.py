"""A page in the browser: drop an image, move a slider, see what a reduced model does to it (`catis app`)."""
