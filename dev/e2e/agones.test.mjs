/**
 * Servers that are made for Agones, with the client that Agones publishes for Node and with REST by hand, run
 * unmodified under `throng host` from the same YAML that Kubernetes is given. Each makes every call there is
 * (agones/server.mjs, agones/rest.mjs); what is done from outside is done here.
 */
import { after, before, test } from "node:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** Where a user without rights reaches the programs, also behind walls that have a /tmp of their own. */
let programs;
before(async () => {
  if (options.skip) return;
  const parent = isRoot ? "/opt" : tmpdir();
  await mkdir(parent, { recursive: true });
  programs = await mkdtemp(join(parent, "throng-agones-"));
  spawnSync("chmod", ["755", programs]);
  await cp(join(HERE, "agones"), programs, { recursive: true });
  await cp(join(HERE, "node_modules"), join(programs, "node_modules"), { recursive: true });
});
after(() => programs && rm(programs, { recursive: true }));

const yaml = (name, wall, program) => `
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
          command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(program)}]
`;

async function run(name, wall, program, check) {
  const folder = await mkdtemp(join(tmpdir(), "throng-agones-"));
  const file = join(folder, "gameserver.yaml");
  await writeFile(file, yaml(name, wall, program));
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
  for (const [name, program] of [["node", "server.mjs"], ["rest", "rest.mjs"]]) {
    test(`a server that speaks the SDK by ${name}, wall ${wall}`, options, async () => {
      await run(name, wall, join(programs, program), async ({ ask, until, said, one }) => {
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
