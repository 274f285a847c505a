/**
 * Starts and stops the server under test.
 *
 * Two ways: by default the binary `$THRONG_BIN` (else the workspace's debug build) is started in a fresh data
 * directory on a port of the kernel's choice, with the driver `$THRONG_DRIVER` (uring, poll; unset = auto).
 * If `$NAKAMA_URL` is set (such as http://127.0.0.1:7350, keys in `$NAKAMA_SERVER_KEY`, `$NAKAMA_HTTP_KEY`),
 * that running server is used instead: so the same list is checked against Nakama. What only throng
 * promises is skipped there, see `throngOnly`.
 *
 * Not done here: building the binary; anything about the protocol (client.mjs).
 */
import { execFileSync, spawn } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
export const REPOSITORY = resolve(HERE, "../..");

/** How long a start or a stop may take before the test fails; a debug build on a busy machine is slow, and compiles guests. */
const START_MS_MAX = 150_000;
const STOP_MS_MAX = 20_000;
/** The tail of the log that is kept for failure messages. */
const LOG_LINES_MAX = 400;

/** The address of a server that already runs, or undefined. */
const external = process.env.NAKAMA_URL ? new URL(process.env.NAKAMA_URL) : undefined;

/** Options for node's `test` of what Nakama does not do (or cannot do without a restart). */
export const throngOnly = external ? { skip: "only throng promises this" } : {};
/** True if the tests run against a server that somebody else started. */
export const isExternal = external !== undefined;

export class Server {
  constructor(fields) {
    Object.assign(this, fields);
  }

  get url() {
    return `http://${this.host}:${this.port}`;
  }

  /** Ends the process politely and checks that it left with 0; removes the data unless told otherwise. */
  async stop({ keepData = false } = {}) {
    if (!this.child) return;
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill("SIGTERM");
    const { code, signal } = await within(this.exited, STOP_MS_MAX, () => {
      this.child.kill("SIGKILL");
      return `the server did not stop ${STOP_MS_MAX} ms after SIGTERM\n${this.logTail()}`;
    });
    if (!keepData) await this.removeData();
    if (code !== 0) {
      throw new Error(`the server left with code ${code}, signal ${signal}\n${this.logTail()}`);
    }
  }

  /** Ends the process like a power cut would. The data stays for the next start. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }

  async removeData() {
    await rm(this.dataDir, { recursive: true, force: true });
  }

  logTail() {
    return this.log.join("\n");
  }

  /**
   * The lines of the log from now on that match, as they come: for whoever looks for one line where others are many,
   * which the tail does not keep.
   */
  heard(pattern) {
    const lines = [];
    this.listeners.push((line) => pattern.test(line) && lines.push(line));
    return lines;
  }
}

/**
 * The server for a test file: the external one, else a fresh one of its own.
 * `options` are further settings such as `{"session.token_expiry_sec": 1}`; `dataDir` reuses the data of
 * a server that was stopped or killed before; `prefix` are words in front of the command that replace themselves
 * by it, such as `nice -n 5`.
 */
export async function startServer({ options = {}, dataDir, prefix = [] } = {}) {
  const keys = {
    serverKey: process.env.NAKAMA_SERVER_KEY ?? "defaultkey",
    httpKey: process.env.NAKAMA_HTTP_KEY ?? "defaulthttpkey",
  };
  if (external) {
    const grpcPort = Number(external.port) - 1; // As Nakama has it.
    return new Server({ host: external.hostname, port: external.port, grpcPort, log: [], listeners: [], ...keys });
  }
  const directory = dataDir ?? (await newDataDir());
  const log = [];
  /** Each is given each line. */
  const listeners = [];
  const [program, ...args] = [...prefix, binary(), ...commandLine(directory, options)];
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.once("exit", () => child.kill("SIGKILL")); // A test that dies leaves no server behind.
  const exited = new Promise((done) => {
    child.once("error", (error) => done({ code: -1, signal: String(error) }));
    child.once("exit", (code, signal) => done({ code, signal }));
  });
  const port = await within(
    Promise.race([
      listeningPort(child, log, listeners),
      exited.then(({ code, signal }) => {
        throw new Error(`the server left at once: code ${code}, ${signal}\n${log.join("\n")}`);
      }),
    ]),
    START_MS_MAX,
    () => {
      child.kill("SIGKILL");
      return `no "listening on" line within ${START_MS_MAX} ms\n${log.join("\n")}`;
    },
  );
  const found = { host: "127.0.0.1", port, grpcPort: grpcPort(log) };
  return new Server({ ...found, child, exited, log, listeners, dataDir: directory, ...keys });
}

export function binary() {
  const path = process.env.THRONG_BIN ?? join(REPOSITORY, "target/debug/throng");
  if (!existsSync(path)) {
    throw new Error(`no server at ${path}: build it with cargo, or set THRONG_BIN or NAKAMA_URL`);
  }
  return path;
}

/** The server's own table of calls and messages. */
export const apiTable = () => JSON.parse(execFileSync(binary(), ["calls", "--json"], { encoding: "utf8" }));

function commandLine(directory, options) {
  const args = ["serve", "--data_dir", directory];
  const settings = {
    "socket.address": "127.0.0.1",
    "socket.port": 0,
    "logger.format": "json",
    ...(process.env.THRONG_DRIVER ? { "engine.driver": process.env.THRONG_DRIVER } : {}),
    ...options,
  };
  for (const [name, value] of Object.entries(settings)) args.push(`--${name}`, String(value));
  return args;
}

/** A data directory with the modules of the tests, the examples and the load scenarios. */
async function newDataDir() {
  const directory = await mkdtemp(join(tmpdir(), "throng-e2e-"));
  const modules = join(directory, "modules");
  // Of the examples what the README copies: the game that is there in each language is for servers of its own.
  const isModule = (path) => path.endsWith("examples") || path.endsWith(".lua");
  await cp(join(REPOSITORY, "examples"), modules, { recursive: true, filter: isModule });
  for (const folder of ["dev/e2e/modules", "scenarios/modules"]) {
    await cp(join(REPOSITORY, folder), modules, { recursive: true });
  }
  return directory;
}

function listeningPort(child, log, listeners) {
  return new Promise((found) => {
    for (const stream of [child.stdout, child.stderr]) {
      let rest = "";
      stream.setEncoding("utf8").on("data", (text) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          log.push(line);
          if (log.length > LOG_LINES_MAX) log.shift();
          for (const listener of listeners) listener(line);
          const port = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1];
          if (port) found(port);
        }
      });
    }
  });
}

/** The port of gRPC, which the log names before the other; none if it is switched off. */
function grpcPort(log) {
  const line = log.find((line) => line.includes("gRPC on "));
  return line && Number(/gRPC on 127\.0\.0\.1:(\d+)/.exec(line)[1]);
}

/** `promise`, or an error with the text of `late()` once the time is up. */
export async function within(promise, ms, late) {
  let timer;
  const alarm = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(late())), ms);
  });
  try {
    return await Promise.race([promise, alarm]);
  } finally {
    clearTimeout(timer);
  }
}
