/** The bytes that text of 91 digits stands for, thirteen bits for two of them: all of ASCII that is printed, less what would end a text. */
function digits(text) {
  const worth = (at) => {
    const code = text.charCodeAt(at);
    return code - 32 - (code > 34) - (code > 38) - (code > 60) - (code > 92);
  };
  const bytes = new Uint8Array((text.length * 13) / 16);
  let [bits, n, at] = [0, 0, 0];
  for (let k = 0; k < text.length; k += 2) {
    // Bits that are written already leave by the top.
    bits = (bits << 13) | (worth(k) * 91 + worth(k + 1));
    for (n += 13; n >= 8; n -= 8) bytes[at++] = bits >> (n - 8);
  }
  return bytes;
}
