/**
 * Servers of `throng host` that flood the Agones SDK, each in another way, all at one time: what does a server beside them
 * see, and who asks the daemon? Bounded to as many looks as below; takes root, for the walls.
 */
import { after, before, test } from "node:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { constants, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import assert from "node:assert/strict";
import { REPOSITORY, isExternal } from "../server.mjs";
import { CASE_MS_MAX, NEIGHBOUR_MS_MAX } from "./rig.mjs";

const BIN = process.env.THRONG_BIN ?? join(REPOSITORY, "target/debug/throng");
const PROGRAMS = fileURLToPath(new URL("host", import.meta.url));
/** The ways of host/flood.mjs. */
const WAYS = 8;
const LOOKS = 40;
const LOOK_REST_MS = 50;
const MEMORY_BYTES_MAX = 128 << 20;
/** The host knows nothing of drivers, so that once is enough. */
const isHere = process.platform === "linux" && process.getuid() === 0 && process.env.THRONG_DRIVER !== "uring";
const skip = isExternal || !isHere;

let folder;
let programs;
let daemon;
let said = "";
before(async () => {
  if (skip) return;
  folder = await mkdtemp(join(tmpdir(), "throng-flood-"));
  await mkdir("/opt", { recursive: true });
  programs = await mkdtemp("/opt/throng-flood-");
  await cp(PROGRAMS, programs, { recursive: true });
  await run("chmod", ["755", programs]);
  const command = (file, more = "") => `["${process.execPath}", "${join(programs, file)}"${more}]`;
  const fleet = `
[[server]]
name = "good"
command = ${command("neighbour.mjs")}
ready = { sdk = true }
wall = "cgroup"
cpu.weight = 10000

[[server]]
name = "bad"
count = ${WAYS}
command = ${command("flood.mjs", ', "{index}"')}
wall = "cgroup"
cpu.weight = 1
agones.lists.players = { capacity = 1000 }
agones.health.disabled = true
`;
  await writeFile(join(folder, "fleet.toml"), fleet);
  daemon = spawn(BIN, ["host", "run", "--folder", join(folder, "host"), join(folder, "fleet.toml")]);
  for (const stream of [daemon.stdout, daemon.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (said += text));
  }
});
after(async () => {
  if (skip) return;
  const ended = once(daemon, "close");
  daemon.kill("SIGINT");
  await ended;
  await rm(folder, { recursive: true });
  await rm(programs, { recursive: true });
});

/** Runs a program before ordinary ones, as who asks a daemon on a machine of his own would have it. */
async function run(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  setPriority(child.pid, constants.priority.PRIORITY_HIGHEST);
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
  const [code] = await once(child, "close");
  assert.equal(code, 0, `${program} ${args.join(" ")}: ${out}`);
  return out;
}
const ask = (...args) => run(BIN, ["host", ...args, "--folder", join(folder, "host")]);
const servers = async () => JSON.parse(await ask("ps", "--json")).servers;
const report = async () => JSON.parse((await ask("logs", "good", "-n", "1")).trim());

async function until(isSo, what) {
  for (const start = Date.now(); Date.now() - start < CASE_MS_MAX; await sleep(100)) {
    if (await isSo()) return;
  }
  assert.fail(`never ${what}:\n${said}\n${await ask("ps")}`);
}

test("floods of the Agones SDK harm neither a neighbour nor who asks the daemon", { skip }, async () => {
  await until(() => said.includes("good: ready"), "ready");
  const bad = async () => (await servers()).filter((it) => it.fleet === "bad");
  await until(async () => (await bad()).every(({ sdk }) => sdk?.refused > 20), "flooded");
  let worst = 0;
  for (let index = 0; index < LOOKS; index++) {
    const since = performance.now();
    await servers();
    worst = Math.max(worst, performance.now() - since);
    await sleep(LOOK_REST_MS);
  }
  const { rest, grpc } = await report();
  const status = await readFile(`/proc/${daemon.pid}/status`, "utf8");
  const memory = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) << 10;
  console.log(`ps waited at most ${worst.toFixed(1)} ms, the neighbour ${rest.worst_ms.toFixed(1)} ms for REST of ${rest.count}`);
  console.log(`calls and ${grpc.worst_ms.toFixed(1)} ms for gRPC; the daemon has ${(memory / (1 << 20)).toFixed(0)} MiB`);
  assert.ok(worst < NEIGHBOUR_MS_MAX, `ps: ${worst} ms`);
  assert.ok(rest.worst_ms < NEIGHBOUR_MS_MAX && grpc.worst_ms < NEIGHBOUR_MS_MAX, JSON.stringify({ rest, grpc }));
  assert.ok(rest.count > LOOKS && grpc.count > LOOKS, JSON.stringify({ rest, grpc }));
  assert.ok(memory < MEMORY_BYTES_MAX, `${memory} bytes`);
  const all = await servers();
  const good = all.find((it) => it.name === "good");
  assert.deepEqual([good.state, good.restarts, good.sdk.waited, good.sdk.refused], ["ready", 0, 0, 0]);
  // Who asked for too much is told apart from who did not, also to people. (Whose sessions are ended waits for nothing.)
  const waited = all.filter((it) => it.sdk.waited > 0).map((it) => it.name);
  for (const name of ["bad-1", "bad-2", "bad-3", "bad-4"]) assert.ok(waited.includes(name), `${name}: ${waited}`);
  const text = await ask("ps");
  assert.match(text, /bad-1 .*SDK: [0-9]+ connections or watches refused, [0-9]+ times too fast/);
  assert.doesNotMatch(text, /good .*SDK/);
});
