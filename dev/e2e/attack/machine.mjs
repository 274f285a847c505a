/**
 * What the machine itself kept from everybody while somebody waited, so that a server answers for its own time only:
 * on a machine that is shared, a processor may stand still for longer than any bound of these tests.
 *
 * `watchMachine` starts a watcher for each processor (watcher.mjs), once for a file of tests; `summary` takes from each
 * wait what stood still in it. Only root may put a watcher before all others: without, nothing is taken from any wait.
 * Not here: bounds.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("watcher.mjs", import.meta.url));

/** `[began, ended]` of each time that a processor stood still, milliseconds of the monotonic clock. */
const stalls = [];
let watched;

/** Resolves when every processor that this process may run on is watched. */
export function watchMachine() {
  watched ??= processors().then((all) => Promise.all(all.map(watch)));
  return watched;
}

async function watch(processor) {
  const command = ["-f", "1", "taskset", "-c", String(processor), process.execPath, PROGRAM];
  const child = spawn("chrt", command, { stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout });
  const begun = Promise.race([once(lines, "line"), once(lines, "close"), once(child, "error")]);
  lines.on("line", (line) => {
    if (line !== "ready") stalls.push(line.split(" ").map(Number));
  });
  // Nobody waits for a watcher to end.
  child.unref();
  child.stdout.unref();
  await begun;
}

/** The processors of `Cpus_allowed_list` (proc_pid_status(5)), as in `0-1,4`. */
async function processors() {
  const status = await readFile("/proc/self/status", "utf8");
  const [, list] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status);
  return list.split(",").flatMap((range) => {
    const [first, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

/** How long some processor stood still between two moments; `inOrder`: the stalls by their beginnings. */
function stoodStill(inOrder, began, ended) {
  let still = 0;
  let from = began;
  for (const [stopped, woke] of inOrder) {
    const until = Math.min(woke, ended);
    const since = Math.max(stopped, from);
    if (until > since) {
      still += until - since;
      from = until;
    }
  }
  return still;
}

/**
 * `{count, worst_ms, p99_ms, p50_ms, stalled_ms}` of waits `[began, waited]`, less what the machine stood still in
 * them; `stalled_ms` is the most that was taken from one.
 */
export function summary(waits) {
  const inOrder = stalls.toSorted(([one], [other]) => one - other);
  const still = waits.map(([began, waited]) => stoodStill(inOrder, began, began + waited));
  const own = waits.map(([, waited], at) => waited - still[at]).sort((one, other) => one - other);
  const tenths = (ms = 0) => Math.round(ms * 10) / 10;
  return {
    count: own.length,
    worst_ms: Math.round(own.at(-1) ?? 0),
    p99_ms: tenths(own[Math.floor(own.length * 0.99)]),
    p50_ms: tenths(own[own.length >> 1]),
    stalled_ms: Math.round(Math.max(0, ...still)),
  };
}
