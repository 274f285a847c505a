/**
 * A disk that is full: nothing is acknowledged that is not durable, the log says so once a second with the cause,
 * and when there is room again the server goes on. The disk is a small tmpfs in a mount namespace of the test's own,
 * which ends with the process that made it.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { bearer, http, newPlayer, unique, until } from "../client.mjs";
import { startServer, throngOnly, within } from "../server.mjs";
import { inParallel } from "./rig.mjs";

/** Whoever is not root makes a user namespace too, if the machine allows it. */
const UNSHARE = process.getuid() === 0 ? ["unshare", "-m"] : ["unshare", "-r", "-m"];
const DISK_BYTES = 48 << 20;
const MODULES = fileURLToPath(new URL("../modules", import.meta.url));

const mayMount = () =>
  spawnSync(UNSHARE[0], [...UNSHARE.slice(1), "mount", "-t", "tmpfs", "none", tmpdir()]).status === 0;
const withDisk = throngOnly.skip
  ? throngOnly
  : mayMount()
    ? {}
    : { skip: "this user may not mount a tmpfs in a namespace of its own (unshare, mount)" };

/** A small disk; `path` is where servers of `prefix` see it, `outside` where the test does. */
async function smallDisk() {
  const path = await mkdtemp(join(tmpdir(), "throng-disk-"));
  const mount = 'mount -t tmpfs -o size="$1" none "$0" && echo mounted && exec cat';
  const [program, ...args] = [...UNSHARE, "sh", "-c", mount, path, String(DISK_BYTES)];
  const holder = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  await within(once(holder.stdout, "data"), 5_000, () => "no disk");
  const user = process.getuid() === 0 ? [] : ["-U", "--preserve-credentials"];
  return {
    path,
    outside: `/proc/${holder.pid}/root${path}`,
    prefix: ["nsenter", "-t", String(holder.pid), "-m", ...user],
    async remove() {
      holder.stdin.end();
      await once(holder, "exit");
      await rm(path, { recursive: true });
    },
  };
}

/** Leaves no byte. */
async function fill(file) {
  const full = await writeFile(file, Buffer.alloc(DISK_BYTES)).catch((error) => error);
  assert.equal(full?.code, "ENOSPC");
}

test("a full disk acknowledges nothing, is said once a second, and is over when there is room", withDisk, async () => {
  const disk = await smallDisk();
  const start = () =>
    startServer({ prefix: disk.prefix, dataDir: disk.path, options: { "runtime.path": MODULES } });
  let server = await start();
  try {
    const { session } = await newPlayer(server);
    const value = JSON.stringify({ text: "x".repeat(4_000) });
    const acknowledged = [];
    const write = async () => {
      const key = unique();
      const body = JSON.stringify({ objects: [{ collection: "c", key, value }] });
      const answer = await http(server, "PUT", "/v2/storage", { headers: bearer(session), body });
      if (answer.status === 200) acknowledged.push(key);
      return answer;
    };
    assert.equal((await write()).status, 200);
    // Of a function the whole answer is an error, although its own call went well.
    const call = () =>
      http(server, "POST", "/v2/rpc/e2e_slow?unwrap", {
        headers: bearer(session),
        body: JSON.stringify({ ms: 0, writes: true }),
      });
    const rows = async () => {
      const listed = await http(server, "POST", "/v2/rpc/e2e_count_slow?unwrap", { headers: bearer(session) });
      assert.equal(listed.status, 200, listed.text);
      return listed.json.count;
    };
    assert.equal((await call()).status, 200);

    await fill(join(disk.outside, "fill"));
    const began = Date.now();
    const answers = await inParallel(2_000, 4, write);
    const refused = answers.filter(({ status }) => status !== 200);
    // The log of the database may have had room left in its file.
    assert.ok(refused.length > 1_000, `${refused.length} of ${answers.length} refused`);
    assert.ok(refused.every(({ status, json }) => status === 500 && json.code === 13), refused[0].text);
    const calls = await inParallel(200, 4, call);
    assert.ok(calls.every(({ status, json }) => status === 500 && json.code === 13), calls[0].text);
    assert.equal(await rows(), 1);
    assert.notEqual((await newPlayer(server).catch((error) => error)).status, 200);
    // What is there can be read.
    const account = await http(server, "GET", "/v2/account", { headers: bearer(session) });
    assert.equal(account.status, 200, account.text);
    const seconds = (Date.now() - began) / 1_000;
    const lines = server.log.filter((line) => line.includes("the disk with the database is full"));
    assert.ok(lines.length >= 1 && lines.length <= seconds + 2, `${lines.length} lines in ${seconds} s`);
    assert.ok(lines.every((line) => line.includes("full:") && line.includes("said once a second")), lines[0]);
    const errors = server.log.filter((line) => /"level":"(error|warn)"/i.test(line));
    assert.ok(errors.length <= 4 * (seconds + 2), `${errors.length} lines:\n${errors.slice(0, 8).join("\n")}`);

    await rm(join(disk.outside, "fill"));
    await until(async () => (await write()).status === 200);
    await newPlayer(server);
    assert.equal((await call()).status, 200);
    await server.kill();
    server = await start();
    assert.equal(await rows(), 2);
    const read = (keys) =>
      http(server, "POST", "/v2/storage", {
        headers: bearer(session),
        body: JSON.stringify({
          object_ids: keys.map((key) => ({ collection: "c", key, user_id: session.user_id })),
        }),
      });
    for (let at = 0; at < acknowledged.length; at += 100) {
      const keys = acknowledged.slice(at, at + 100);
      const { json } = await read(keys);
      assert.equal(json.objects?.length, keys.length, "an acknowledged object is gone");
    }
    await server.stop({ keepData: true });
  } finally {
    await server.kill();
    await disk.remove();
  }
});
