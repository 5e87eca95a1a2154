// The policy of the pages: whatever got into one, it could load nothing, run nothing and send nothing.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as harness from "./harness.mjs";

let files, chromium;

before(async () => {
  files = harness.scratch();
  chromium = await harness.browser();
});
after(async () => {
  await chromium?.close();
  files?.remove();
});

/** Tries everything that a policy can refuse; gives the directives that refused, and whether anything ran. */
async function attacked() {
  const refused = new Set();
  document.addEventListener("securitypolicyviolation", (event) => refused.add(event.effectiveDirective));
  const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
  add("script", { textContent: "window.ran = 'inline script'" });
  add("script", { src: "https://example.org/x.js" });
  add("style", { textContent: "body { outline: 1px solid }" });
  add("img", { src: "https://example.org/x.png" });
  add("iframe", { src: "https://example.org/" });
  add("object", { data: "https://example.org/x" });
  add("base", { href: "https://example.org/" });
  add("div", { innerHTML: "<b onclick=\"window.ran = 'handler'\">x</b>" });
  document.querySelector("div:last-of-type b").click();
  await fetch("https://example.org/").catch(() => {});
  await fetch("data:,x").catch(() => {});
  try {
    new WebSocket("wss://example.org/");
  } catch {
    // a browser may throw instead of telling
  }
  // In a task of its own: what the test drives the page with is let through at once.
  await new Promise((wake) => setTimeout(wake));
  setTimeout("window.ran = 'code from a string'");
  try {
    window.ran = new Function("return 'code from a string'")();
  } catch {
    // this is what has to happen
  }
  const form = Object.assign(document.createElement("form"), { action: "https://example.org/" });
  document.body.append(form);
  form.submit();
  await new Promise((wake) => setTimeout(wake, 500));
  // The form's is told last, and late by a machine that has other work.
  for (let k = 0; k < 50 && !refused.has("form-action"); k += 1) await new Promise((wake) => setTimeout(wake, 100));
  return { refused: [...refused].sort(), ran: window.ran ?? null, base: document.baseURI };
}

async function holds(path) {
  const visit = await chromium.open(path);
  await harness.ready(visit.page);
  assert.deepEqual(visit.errors, [], "the page itself keeps its policy");
  const found = await visit.page.evaluate(attacked);
  for (const directive of ["base-uri", "connect-src", "form-action", "frame-src", "img-src", "object-src", "script-src", "script-src-attr", "script-src-elem", "style-src-elem"]) {
    assert.ok(found.refused.includes(directive), `${directive} in ${found.refused}`);
  }
  assert.equal(found.ran, null);
  assert.ok(found.base.startsWith("file:"), found.base);
  visit.errors.length = 0; // those that the attempts made
  await visit.close(); // no request went out
}

test("a page of the viewer refuses whatever did not come with it", async () => {
  const program = join(harness.ROOT, "native/programs/strategy-b.txt");
  await holds(await harness.viewed(files, "policy.html", program));
});

test("the page of the tour does too", async () => {
  await harness.spanlift("tour", "-o", files.folder);
  await holds(join(files.folder, "tour.html"));
});
