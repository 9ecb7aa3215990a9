"""`python -m catis` is the same as `catis`."""

from catis.cli import main

if __name__ == "__main__":
    main()
