/** The bytes that text of 85 digits stands for, four for five of them. */
function digits(text) {
  const all = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%)*+,-./:;?@[]^_{|}~";
  const worth = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, all.indexOf(String.fromCharCode(code))));
  const view = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let k = 0; 5 * k < text.length; k += 1) {
    let number = 0;
    for (let i = 5 * k; i < 5 * k + 5; i += 1) number = number * 85 + worth[text.charCodeAt(i)];
    view.setUint32(4 * k, number);
  }
  return new Uint8Array(view.buffer);
}
