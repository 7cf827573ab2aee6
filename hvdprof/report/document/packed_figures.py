"""plotly and figures as one compressed text, which the browser unpacks after the page is shown."""

import base64
import gzip
import json
from collections.abc import Sequence

_UNPACK = """(async () => {
  const rooms = () => document.querySelectorAll(".figure [id^=figure-]");
  const say = (text) => rooms().forEach((room) => { room.textContent = text; });
  if (typeof DecompressionStream === "undefined") {
    say("This browser cannot unpack figures: Chrome 80, Firefox 113, Safari 16.4 or newer can.");
    return;
  }
  const text = document.getElementById("packed-figures").textContent;
  const alphabet = ALPHABET;
  const worth = new Uint8Array(128);
  [...alphabet].forEach((letter, at) => { worth[letter.charCodeAt(0)] = at; });
  const bytes = new Uint8Array(text.length / 5 * 4);
  const view = new DataView(bytes.buffer);
  for (let at = 0, to = 0; at < text.length; to += 4) {
    let number = 0;
    const end = at + 5;
    for (; at < end; at += 1) { number = 85 * number + worth[text.charCodeAt(at)]; }
    view.setUint32(to, number);
  }
  const packed = new Blob([bytes.subarray(0, LENGTH)]).stream();
  const code = await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.textContent = code;
  document.head.append(script);
  performance.mark("packed-figures-drawn");
  document.documentElement.dataset.drawn = "true";
})();"""


def packed_script(scripts: Sequence[str]) -> str:
    """Two elements of a page: the scripts as one compressed text, and what runs them in order.

    The same scripts give the same text.

    Args:
        scripts: Sources in JavaScript; none of them may need an element that comes later.
    """
    packed = gzip.compress("\n;\n".join(scripts).encode(), 9, mtime=0)
    whole = packed + bytes(-len(packed) % 4)
    # "<" alone could begin another element, and is what the alphabet lacks a comma for.
    text = base64.b85encode(whole).decode("ascii").replace("<", ",")
    unpack = _UNPACK.replace("ALPHABET", json.dumps(_alphabet()).replace("<", ","))
    unpack = unpack.replace("LENGTH", str(len(packed)))
    return (
        f'<script type="text/plain" id="packed-figures">{text}</script>\n<script>{unpack}</script>'
    )


def _alphabet() -> str:
    """The digits of base64.b85encode: what encodes 0 to 84 is five letters, the last one it."""
    return "".join(base64.b85encode(bytes([0, 0, 0, at])).decode("ascii")[-1] for at in range(85))
