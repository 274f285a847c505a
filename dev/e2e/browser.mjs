/**
 * A headless Chromium for tests of pages, spoken to in its own DevTools protocol over `ws`: opens a page, runs
 * expressions in it, presses keys, takes pictures, and hands over what the page complained about.
 *
 * Not done here: waiting for anything but what the browser answers; finding elements.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import WebSocket from "ws";

/** What Debian and others call it. */
const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The browser's program; undefined where there is none. */
export const chromium = NAMES.find((name) => {
  try {
    execFileSync("sh", ["-c", `command -v ${name}`]);
    return true;
  } catch {
    return false;
  }
});

/** Starts a browser with one page at `url`. */
export async function openPage(url, { width = 1280, height = 800 } = {}) {
  const home = await mkdtemp(join(tmpdir(), "throng-browser-"));
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
  flags.push("--remote-debugging-port=0", `--user-data-dir=${home}`, `--window-size=${width},${height}`, "about:blank");
  const child = spawn(chromium, flags, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let address;
  for await (const line of createInterface({ input: child.stderr })) {
    address = /DevTools listening on (ws:\S+)/.exec(line)?.[1];
    if (address) break;
  }
  child.stderr.resume();
  if (!address) throw new Error("the browser has ended");
  const socket = new WebSocket(address, { perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  let loaded;
  const isLoaded = new Promise((resolve) => (loaded = resolve));
  const asked = new Map();
  const complaints = [];
  socket.on("message", (text) => {
    const { id, result, error, method, params } = JSON.parse(text);
    if (method === "Runtime.exceptionThrown") complaints.push(params.exceptionDetails.text);
    if (method === "Page.loadEventFired") loaded();
    if (method === "Log.entryAdded" && params.entry.level === "error") complaints.push(params.entry.text);
    if (error) asked.get(id)?.reject(new Error(error.message));
    else asked.get(id)?.resolve(result);
    asked.delete(id);
  });
  let last = 0;
  const ask = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      last += 1;
      asked.set(last, { resolve, reject });
      socket.send(JSON.stringify({ id: last, method, params, sessionId }));
    });
  const { targetInfos } = await ask("Target.getTargets");
  const { targetId } = targetInfos.find(({ type }) => type === "page");
  const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
  const here = (method, params) => ask(method, params, sessionId);
  await here("Runtime.enable");
  await here("Log.enable");
  await here("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  await here("Page.enable");
  await here("Page.navigate", { url });
  await isLoaded; // Before, an expression would run in a page without its elements.
  return {
    complaints,
    /** The value of an expression in the page, of a promise what it gives. */
    async run(expression) {
      const params = { expression, awaitPromise: true, returnByValue: true };
      const { result, exceptionDetails } = await here("Runtime.evaluate", params);
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    /** Holds a key of this code down, or lets it go. */
    key: (code, isDown) => here("Input.dispatchKeyEvent", { type: isDown ? "keyDown" : "keyUp", code, key: code }),
    /** The bytes of a PNG. */
    picture: async () => Buffer.from((await here("Page.captureScreenshot", { format: "png" })).data, "base64"),
    async close() {
      socket.close();
      child.kill();
      await ended;
      await rm(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
