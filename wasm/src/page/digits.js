/** The bytes that text of 91 digits stands for, thirteen bits for two of them: all of ASCII that is printed, less what would end a text. */
function digits(text) {
  const worth = new Uint8Array(127);
  for (let code = 32, n = 0; code < 127; code += 1) if (![34, 38, 60, 92].includes(code)) worth[code] = n++;
  const bytes = new Uint8Array(Math.floor((text.length * 13) / 16));
  let [bits, n, at] = [0, 0, 0];
  for (let k = 0; k < text.length; k += 2) {
    // Bits that are written already leave by the top.
    bits = (bits << 13) | (worth[text.charCodeAt(k)] * 91 + worth[text.charCodeAt(k + 1)]);
    for (n += 13; n >= 8; n -= 8) bytes[at++] = bits >> (n - 8);
  }
  return bytes;
}
