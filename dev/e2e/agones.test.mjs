/**
 * Servers that are made for Agones, with the clients that Agones publishes for Node, Rust and Go and with REST by hand,
 * run unmodified under `throng host` from the same YAML that Kubernetes is given. Each makes every call there is
 * (agones/server.mjs, agones/rust, agones/go, agones/rest.mjs); what is done from outside is done here.
 *
 * That for Rust is built here (`cargo xtask ci` has done so before: a whole file has two minutes), where `protoc` is,
 * which `.ci/run` installs. That for Go is tried only if THRONG_AGONES names a checkout of github.com/agones-dev/agones: Go's module proxy does
 * not give the module `agones.dev/agones`.
 */
import { after, before, test } from "node:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import assert from "node:assert/strict";
import { REPOSITORY, isExternal } from "./server.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const BIN = process.env.THRONG_BIN ?? join(REPOSITORY, "target/debug/throng");
const PATIENCE_MS = 60_000;
const isRoot = process.getuid?.() === 0;
/** The host knows nothing of drivers, so that once is enough; and it needs Linux. */
const options = { skip: isExternal || process.env.THRONG_DRIVER === "uring" || process.platform !== "linux" };

/** A server's program: how it is called, and how it is built in a folder, if it has to be. */
const node = (file) => ({ command: (folder) => [process.execPath, join(folder, file)] });
const SERVERS = {
  node: node("server.mjs"),
  rest: node("rest.mjs"),
  rust: {
    command: (folder) => [join(folder, "agones-rust")],
    build: buildRust,
    skip: spawnSync("protoc", ["--version"]).status !== 0 && "no protoc: install protobuf-compiler and libprotobuf-dev",
  },
  go: {
    command: (folder) => [join(folder, "agones-go")],
    build: buildGo,
    skip: !process.env.THRONG_AGONES && "THRONG_AGONES names no checkout of Agones",
  },
};

function must(program, args, cwd) {
  const { status, error, stderr } = spawnSync(program, args, { cwd, encoding: "utf8" });
  assert.equal(status, 0, `${program} ${args.join(" ")}: ${error ?? stderr}`);
}

async function buildRust(folder) {
  const target = join(process.env.CARGO_TARGET_DIR ?? join(REPOSITORY, "target"), "agones");
  must("cargo", ["build", "--quiet", "--locked", "--target-dir", target], join(HERE, "agones/rust"));
  await cp(join(target, "debug/agones-rust"), join(folder, "agones-rust"));
}

async function buildGo(folder) {
  const source = await mkdtemp(join(tmpdir(), "throng-agones-"));
  await cp(join(HERE, "agones/go"), source, { recursive: true });
  const agones = "agones.dev/agones";
  const replace = `replace ${agones} => ${resolve(process.env.THRONG_AGONES)}`;
  await writeFile(join(source, "go.mod"), `module server\n\ngo 1.26\n\nrequire ${agones} v0.0.0\n\n${replace}\n`);
  must("go", ["build", "-mod=mod", "-o", join(folder, "agones-go"), "."], source);
  await rm(source, { recursive: true });
}

/** Where a user without rights reaches the programs, also behind walls that have a /tmp of their own. */
let programs;
before(async () => {
  if (options.skip) return;
  const parent = isRoot ? "/opt" : tmpdir();
  await mkdir(parent, { recursive: true });
  programs = await mkdtemp(join(parent, "throng-agones-"));
  spawnSync("chmod", ["755", programs]);
  for (const file of ["server.mjs", "rest.mjs"]) await cp(join(HERE, "agones", file), join(programs, file));
  for (const { build, skip } of Object.values(SERVERS)) if (build && !skip) await build(programs);
  await cp(join(HERE, "node_modules"), join(programs, "node_modules"), { recursive: true });
});
after(() => programs && rm(programs, { recursive: true }));

const yaml = (name, wall, command) => `
apiVersion: agones.dev/v1
kind: GameServer
metadata:
  name: ${name}
  annotations: { throng.dev/wall: ${wall} }
spec:
  ports: [{ name: default, portPolicy: Passthrough, protocol: UDP }]
  health: { initialDelaySeconds: 5, periodSeconds: 2, failureThreshold: 3 }
  counters: { rooms: { count: 1, capacity: 10 } }
  lists: { players: { capacity: 10, values: [p0] } }
  players: { initialCapacity: 1 }
  template:
    spec:
      containers:
        - name: game
          image: example.com/${name}:1
          command: ${JSON.stringify(command)}
`;

async function run(name, wall, command, check) {
  const folder = await mkdtemp(join(tmpdir(), "throng-agones-"));
  const file = join(folder, "gameserver.yaml");
  await writeFile(file, yaml(name, wall, command));
  const daemon = spawn(BIN, ["host", "run", "--folder", join(folder, "host"), file]);
  let said = "";
  for (const stream of [daemon.stdout, daemon.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (said += text));
  }
  const ended = once(daemon, "close");
  const ask = (...args) => {
    const { stdout, stderr } = spawnSync(BIN, ["host", ...args, "--folder", join(folder, "host")], { encoding: "utf8" });
    return stdout + stderr;
  };
  const until = async (look, what) => {
    for (const start = Date.now(); Date.now() - start < PATIENCE_MS; await sleep(50)) {
      if (look()) return;
    }
    assert.fail(`never ${what}:\n${said}\n${ask("logs", name)}\n${ask("ps")}`);
  };
  try {
    await check({ ask, until, said: () => said, one: () => JSON.parse(ask("ps", "--json")).servers[0] });
  } finally {
    daemon.kill("SIGINT");
    const [code] = await ended;
    assert.equal(code, 0, said);
    await rm(folder, { recursive: true });
  }
}

for (const wall of isRoot ? ["network", "process"] : ["process"]) {
  for (const [name, { command, skip }] of Object.entries(SERVERS)) {
    const speaks = { skip: options.skip || skip };
    test(`a server that speaks the SDK by ${name}, wall ${wall}`, speaks, async () => {
      await run(name, wall, command(programs), async ({ ask, until, said, one }) => {
        await until(() => said().includes(`${name}: ready at `), "ready");
        assert.match(said(), /image: example\.com\/\w+:1 is not run: the program is /);
        const { sdk, state } = one();
        assert.deepEqual([state, sdk.state, sdk.labels["agones.dev/sdk-mode"]], ["ready", "Ready", "ctf"]);
        assert.ok(sdk.counters.rooms.count > 1, JSON.stringify(sdk));
        const given = ask("allocate", name, "--label", "map=dm1", "--annotation", "session=players a, b");
        assert.match(given, new RegExp(`^${name} [0-9.]+:[0-9]+\n$`));
        await until(() => ask("logs", name).includes("conformance: reserved"), "reserved");
        await until(() => one().state === "stopped" && one().pid === null, "stopped");
        assert.equal(one().what, "ended by its own Shutdown()");
        const log = ask("logs", name);
        for (const step of ["written", "ready", "allocated", "reserved", "told to end"]) {
          assert.ok(log.includes(`conformance: ${step}\n`), log);
        }
      });
    });
  }
}
