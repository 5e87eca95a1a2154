/** The bytes that text of 91 digits stands for, thirteen bits for two of them: all of ASCII that is printed, less what would end a text. */
function digits(text) {
  // They are written where the digits stood, of which there are more.
  const bytes = new TextEncoder().encode(text).map((code) => code - 32 - (code > 34) - (code > 38) - (code > 60) - (code > 92));
  let [bits, n, at] = [0, 0, 0];
  for (let k = 0; k < bytes.length; k += 2) {
    // Bits that are written already leave by the top.
    bits = (bits << 13) | (bytes[k] * 91 + bytes[k + 1]);
    for (n += 13; n >= 8; n -= 8) bytes[at++] = bits >> (n - 8);
  }
  return bytes.slice(0, at);
}
