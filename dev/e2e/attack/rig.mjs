/**
 * What the attack tests share: a server with its metrics port open, a well-behaved neighbour in a process of its
 * own, and looks at the server's counters and memory.
 *
 * A case says what it does to the server (`harm`), and `besideNeighbour` runs it while the neighbour plays on: the
 * longest wait of the neighbour is asserted, less what the machine itself stood still in it (machine.mjs). Every case
 * is bounded in time and count, sends to loopback only, and ends what it started. Not here: what an attack looks like
 * (the `*.test.mjs` beside this file).
 *
 * Environment: THRONG_BIN and THRONG_DRIVER, as in ../server.mjs. `cargo xtask attack` sets them, to a release build.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { constants, setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { startServer, within } from "../server.mjs";
import { summary, watchMachine } from "./machine.mjs";

/** The longest that a neighbour may wait for any one answer while somebody misbehaves. */
export const NEIGHBOUR_MS_MAX = 250;
/** How long starting or ending a neighbour may take; it logs in and opens a socket first. */
const NEIGHBOUR_START_MS_MAX = 10_000;
/**
 * How long one case may take unless it says otherwise: many times what it takes where nobody else computes. It ends
 * what hangs, and is no bound of a server's.
 */
export const CASE_MS_MAX = 120_000;

/**
 * Attackers come over a network; here they share the server's processors, with whatever else runs on the machine.
 * So server and neighbour go first, as far as the user may say so (only root may; `nice` then warns and goes on).
 */
const FIRST = ["nice", "-n", "-15"];

/** A server under attack: as `startServer`, with `counters()`, `residentBytes()` and `rawConnection()`. */
export async function startVictim({ options = {}, ...rest } = {}) {
  const metricsPort = await freePort();
  const server = await startServer({
    prefix: FIRST,
    options: { "metrics.prometheus_port": metricsPort, ...options },
    ...rest,
  });
  return Object.assign(server, {
    metricsPort,
    counters: () => counters(metricsPort),
    residentBytes: () => residentBytes(server.child.pid),
    rawConnection: (port) => rawConnection(server, port),
  });
}

/**
 * Where free ports are looked for: below those that the kernel gives to whoever names none (from 32,768 on, see
 * `ip_local_port_range` in ip(7)), of which a connection takes one between the look and the server's start.
 */
const FREE_PORTS = { first: 20_000, count: 12_000 };
const FREE_PORT_TRIES = 100;

/** A port that was free a moment ago, and is given to nobody who does not name it. */
export async function freePort() {
  let cause;
  for (let tries = 0; tries < FREE_PORT_TRIES; tries++) {
    const port = FREE_PORTS.first + Math.floor(Math.random() * FREE_PORTS.count);
    const listener = createServer().listen(port, "127.0.0.1");
    try {
      await once(listener, "listening");
    } catch (error) {
      cause = error; // Mostly somebody has it.
      continue;
    }
    listener.close();
    await once(listener, "close");
    return port;
  }
  throw new Error(`none of ${FREE_PORT_TRIES} ports from ${FREE_PORTS.first} on is free`, { cause });
}

/** All metrics by name without the prefix; the samples of several threads or labels are added up. */
export async function counters(metricsPort) {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  const sums = new Map();
  for (const line of (await response.text()).split("\n")) {
    const [, name, value] = /^nakama_(\w+)(?:\{[^}]*\})? (\S+)$/.exec(line) ?? [];
    if (name) sums.set(name, (sums.get(name) ?? 0) + Number(value));
  }
  return {
    has: (name) => sums.has(name),
    /** The sum over all samples of a name; a name that is not exported is the test's mistake. */
    of(name) {
      assert.ok(sums.has(name), `no metric ${name} among ${[...sums.keys()].join(" ")}`);
      return sums.get(name);
    },
  };
}

/** Resident memory of a process, bytes. */
async function residentBytes(pid) {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
}

/** An open TCP connection that nobody reads until the test does; errors are the test's to notice by `close`. */
async function rawConnection(server, port = server.port) {
  const socket = connect({ host: server.host, port: Number(port), noDelay: true });
  socket.on("error", () => {});
  await within(once(socket, "connect"), CASE_MS_MAX, () => "the server does not accept");
  return socket;
}

/**
 * Runs `harm` while a neighbour plays, and asserts that no answer took the neighbour `ms` or longer. Gives what
 * `harm` gives and the neighbour's report by kind, each as `summary` of machine.mjs gives it.
 * `kinds`: what the neighbour does in turns, of `rpc`, `read` and `wait` (an RPC that needs the database, one that waits
 * for a room: both are run by callers), `wait_or_end` (the same, which others may end by using up its VM's memory),
 * `authenticate`, `register`, `socket`, `list`, `grpc`.
 */
export async function besideNeighbour(
  server,
  harm,
  { kinds = ["rpc", "authenticate", "socket"], ms = NEIGHBOUR_MS_MAX, caseMs = CASE_MS_MAX } = {},
) {
  await watchMachine();
  const neighbour = await startNeighbour(server, kinds);
  let result;
  let report;
  try {
    result = await within(harm(), caseMs, () => `the attack took more than ${caseMs} ms`);
  } finally {
    report = await neighbour.stop();
  }
  const worst = kinds.map((kind) => `${report[kind].worst_ms} ms for ${kind}`).join(", ");
  const stalled = Math.max(...kinds.map((kind) => report[kind].stalled_ms));
  console.log(`the neighbour waited at most ${worst}${stalled ? `, and up to ${stalled} ms for the machine` : ""}`);
  for (const kind of kinds) {
    const { count, worst_ms } = report[kind];
    assert.ok(count > 0, `the neighbour got no answer to ${kind}`);
    assert.ok(worst_ms < ms, `the neighbour waited ${worst_ms} ms for ${kind}: ${JSON.stringify(report)}`);
  }
  return { result, report };
}

async function startNeighbour(server, kinds) {
  const program = fileURLToPath(new URL("neighbour.mjs", import.meta.url));
  const { host, port, grpcPort, serverKey } = server;
  const argument = JSON.stringify({ host, port, grpcPort, serverKey, kinds });
  const child = spawn(process.execPath, [program, argument], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  goFirst(child.pid);
  const lines = linesOf(child);
  await within(lines.next(), NEIGHBOUR_START_MS_MAX, () => "the neighbour does not start");
  return {
    async stop() {
      child.stdin.end();
      const { value } = await within(lines.next(), NEIGHBOUR_START_MS_MAX, () => {
        kill();
        return `the neighbour still waits for an answer\n${server.logTail()}`;
      });
      process.off("exit", kill);
      const waits = Object.entries(JSON.parse(value ?? "{}"));
      return Object.fromEntries(waits.map(([kind, list]) => [kind, summary(list)]));
    },
  };
}

/**
 * Puts a process before others of the machine, as far as the user may say so: this one, of attackers whose load is the
 * case. Where others compute they would else ask too seldom to be in anybody's way.
 */
export function goFirst(pid = process.pid) {
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGHEST);
  } catch {
    // Only root may; then it waits for its turn like everybody.
  }
}

async function* linesOf(child) {
  let rest = "";
  for await (const chunk of child.stdout) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

/** A burst of at most `count` calls of `work`, `width` at a time; gives their results in order. */
export async function inParallel(count, width, work) {
  const results = new Array(count);
  let next = 0;
  const lane = async () => {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
  return results;
}
