// Unpacks the module: LZMA, the format of `xz --format=lzma` with its size in the header, smaller than gzip. Nothing else is
// packed in it, so what this is given is always whole.

// Where the probabilities of each decision begin.
const [IS_MATCH, IS_REP, IS_REP_0, IS_REP_1, IS_REP_2, IS_LONG, SLOT, FAR, ALIGN, LENGTH, REP_LENGTH, LITERAL] = [
  0, 192, 204, 216, 228, 240, 432, 688, 803, 819, 1333, 1847,
];

/** The bytes that text stands for, five for six of its own: three are twenty bits, either three digits or a digit and a letter of two bytes. */
const fives = (text) => {
  const six = new TextEncoder().encode(text);
  const bytes = new Uint8Array((six.length / 6) * 5);
  // All of ASCII that is printed, less what would end the element; letters begin behind it.
  const digit = (k) => six[k] - 32 - (six[k] > 60);
  const letter = (k) => 830584 + 188 * (((six[k] & 31) << 6) + (six[k + 1] & 63) - 160);
  const twenty = (k) => {
    if (six[k] > 127) return letter(k) + 94 + digit(k + 2);
    if (six[k + 1] > 127) return letter(k + 1) + digit(k);
    return (digit(k) * 94 + digit(k + 1)) * 94 + digit(k + 2);
  };
  for (let [k, at] = [0, 0]; k < six.length; k += 6, at += 5) {
    const [high, low] = [twenty(k), twenty(k + 3)];
    bytes[at] = high >> 12;
    bytes[at + 1] = high >> 4;
    bytes[at + 2] = (high << 4) | (low >> 16);
    bytes[at + 3] = low >> 8;
    bytes[at + 4] = low;
  }
  return bytes;
};

/** What gives the bytes that were packed, all or so many of the first; it goes on where it stopped. */
const unlzma = (packed) => {
  const [lc, lp, pb] = [packed[0] % 9, Math.floor(packed[0] / 9) % 5, Math.floor(packed[0] / 45)];
  const out = new Uint8Array(new DataView(packed.buffer, packed.byteOffset).getUint32(5, true));
  const probs = new Uint16Array(LITERAL + (0x300 << (lc + lp))).fill(1024);
  // Range and code, in an array that holds 32 bits without a sign: as variables they would be boxed at every step.
  const coder = new Uint32Array([0xffffffff, new DataView(packed.buffer, packed.byteOffset).getUint32(14)]);
  let at = 18;
  const refill = () => {
    coder[0] <<= 8;
    coder[1] = (coder[1] << 8) | packed[at++];
  };

  /** The next bit, whose probability stands at `k`. */
  const bit = (k) => {
    const p = probs[k];
    const bound = (coder[0] >>> 11) * p;
    const is = coder[1] < bound ? 0 : 1;
    if (is) {
      coder[0] -= bound;
      coder[1] -= bound;
      probs[k] = p - (p >> 5);
    } else {
      coder[0] = bound;
      probs[k] = p + ((2048 - p) >> 5);
    }
    if (coder[0] < 0x1000000) refill();
    return is;
  };
  /** A number of `n` bits, the highest first, each with a probability for what came before it. */
  const tree = (k, n) => {
    let m = 1;
    for (let i = 0; i < n; i += 1) m = (m << 1) | bit(k + m);
    return m - (1 << n);
  };
  /** The same with the lowest bit first. */
  const reversed = (k, n) => {
    let [m, number] = [1, 0];
    for (let i = 0; i < n; i += 1) {
      const is = bit(k + m);
      m = (m << 1) | is;
      number |= is << i;
    }
    return number;
  };
  /** `n` bits that are as likely as not. */
  const plain = (n) => {
    let number = 0;
    for (let i = 0; i < n; i += 1) {
      coder[0] >>>= 1;
      const is = coder[1] >= coder[0] ? 1 : 0;
      if (is) coder[1] -= coder[0];
      number = (number << 1) | is;
      if (coder[0] < 0x1000000) refill();
    }
    return number;
  };
  /** How many bytes beyond two are the same as before. */
  const length = (k, place) => {
    if (!bit(k)) return tree(k + 2 + (place << 3), 3);
    if (!bit(k + 1)) return 8 + tree(k + 130 + (place << 3), 3);
    return 16 + tree(k + 258, 8);
  };

  let left = [0, 0, 0, 0, 0, 0];
  return (most = out.length) => {
    const wanted = Math.min(most, out.length);
    // As variables of this function, since those of the one around it are slower.
    let [n, state, back0, back1, back2, back3] = left;
    while (n < wanted) {
      const place = n & ((1 << pb) - 1);
      if (!bit(IS_MATCH + (state << 4) + place)) {
        const before = n ? out[n - 1] : 0;
        const k = LITERAL + 0x300 * (((n & ((1 << lp) - 1)) << lc) + (before >> (8 - lc)));
        let symbol = 1;
        if (state >= 7) {
          let like = out[n - back0 - 1];
          while (symbol < 0x100) {
            const is = (like >> 7) & 1;
            like <<= 1;
            const found = bit(k + ((1 + is) << 8) + symbol);
            symbol = (symbol << 1) | found;
            if (found !== is) break;
          }
        }
        while (symbol < 0x100) symbol = (symbol << 1) | bit(k + symbol);
        out[n] = symbol;
        n += 1;
        state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
        continue;
      }
      let more;
      if (bit(IS_REP + state)) {
        if (!bit(IS_REP_0 + state)) {
          if (!bit(IS_LONG + (state << 4) + place)) {
            out[n] = out[n - back0 - 1];
            n += 1;
            state = state < 7 ? 9 : 11;
            continue;
          }
        } else {
          let back = back1;
          if (bit(IS_REP_1 + state)) {
            back = back2;
            if (bit(IS_REP_2 + state)) {
              back = back3;
              back3 = back2;
            }
            back2 = back1;
          }
          back1 = back0;
          back0 = back;
        }
        more = length(REP_LENGTH, place);
        state = state < 7 ? 8 : 11;
      } else {
        [back3, back2, back1] = [back2, back1, back0];
        more = length(LENGTH, place);
        state = state < 7 ? 7 : 10;
        const slot = tree(SLOT + (Math.min(more, 3) << 6), 6);
        const bits = (slot >> 1) - 1;
        if (slot < 4) back0 = slot;
        else {
          back0 = (2 | (slot & 1)) << bits;
          if (slot < 14) back0 += reversed(FAR + back0 - slot, bits);
          else back0 += (plain(bits - 4) << 4) + reversed(ALIGN, 4);
        }
      }
      for (more += 2; more > 0 && n < out.length; more -= 1) {
        out[n] = out[n - back0 - 1];
        n += 1;
      }
    }
    left = [n, state, back0, back1, back2, back3];
    return out.subarray(0, wanted);
  };
};
