"""Release the Lua in lua/ as it lies: python docs/hashes.py

For after a change of a script. Until then a changed script is foreign, as anybody's is, and runs in the sandbox only.
"""

from __future__ import annotations

from emqkit.scripts.released import HASHES, listing

if __name__ == "__main__":
    HASHES.write_text(listing(), encoding="ascii")
    print(f"{HASHES.name}: {listing().count(chr(10))} texts")
