"""What a reduced model did to the patches of images: as data, block by block, and as pictures."""
