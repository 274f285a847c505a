/**
 * SQL of scripts that takes time, memory, disk or the write lock, with a neighbour beside who registers devices:
 * every statement is stopped by the setting that bounds it, and nothing of it has happened. What is the server's own
 * cannot be changed.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

/** What the server may hold when nobody asks for anything, and what a statement may add to that for a moment. */
const RESIDENT_BYTES_MAX = 600 << 20;
const KINDS = { kinds: ["rpc", "register", "authenticate"] };
/** Numbers from 1 to `count`. */
const numbers = (count) =>
  `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT ${count})`;

let server;
let session;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim();
  ({ session } = await newPlayer(server));
});
after(() => server?.stop());

const sql = async (asked, on = server, by = session) => {
  const answer = await http(on, "POST", "/v2/rpc/e2e_sql?unwrap", {
    headers: bearer(by),
    body: JSON.stringify(asked),
  });
  return { status: answer.status, text: answer.text };
};

async function isStoppedBy(setting, asked, times = 6) {
  // Each attacker is a stranger: behind whom was quick so far others may be queued.
  const { session: by } = await newPlayer(server);
  let residentBytes = 0;
  const watch = setInterval(async () => {
    residentBytes = Math.max(residentBytes, await server.residentBytes().catch(() => 0));
  }, 20);
  // What is refused at once leaves the neighbour no time to be asked.
  const harm = () =>
    Promise.all([inParallel(times, 3, () => sql(asked, server, by)), new Promise((rested) => setTimeout(rested, 500))]);
  try {
    const { result } = await besideNeighbour(server, harm, KINDS);
    for (const { status, text } of result[0]) {
      assert.ok(status >= 400 && text.includes(setting), `${status} ${text}`);
    }
  } finally {
    clearInterval(watch);
  }
  assert.ok(residentBytes < RESIDENT_BYTES_MAX, `${residentBytes} bytes resident`);
}

test("a query that never ends", throngOnly, async () => {
  await isStoppedBy("runtime.sql_budget_ms", { query: `${numbers(1e15)} SELECT SUM(x) FROM c` });
  assert.ok((await server.counters()).of("sql_out_of_time") >= 6);
});

test("a value of gigabytes, and an answer of many", throngOnly, async () => {
  await isStoppedBy("runtime.sql_value_max_bytes", { query: "SELECT hex(zeroblob(4e8))" });
  await isStoppedBy("runtime.sql_answer_max_bytes", {
    query: `${numbers(1000)} SELECT zeroblob(1000000) FROM c`,
  });
  await isStoppedBy("runtime.sql_rows_max", { query: `${numbers(1e6)} SELECT x FROM c` });
  assert.ok((await server.counters()).of("sql_over_limit") >= 18);
});

test("a hoard in temporary storage", throngOnly, async () => {
  await isStoppedBy("temporary tables", { exec: "CREATE TEMP TABLE hoard (x)" });
  await isStoppedBy("runtime.sql_", {
    query: `${numbers(5000)} SELECT COUNT(*) FROM (SELECT randomblob(900000) AS r FROM c ORDER BY r)`,
  });
});

test("a write of gigabytes, and writers that hold the lock", throngOnly, async () => {
  assert.equal((await sql({ exec: "CREATE TABLE hoard (x)" })).status, 200);
  await isStoppedBy("runtime.sql_", {
    exec: `INSERT INTO hoard ${numbers(3000)} SELECT randomblob(1000000) FROM c`,
  });
  await isStoppedBy(
    "runtime.sql_",
    { exec: `INSERT INTO hoard ${numbers(1e15)} SELECT x FROM c` },
    20,
  );
  const counted = await sql({ query: "SELECT 1 FROM hoard" });
  assert.equal(JSON.parse(counted.text).rows, 0);
  const log = await stat(join(server.dataDir, "throng.db-wal"));
  assert.ok(log.size < 256 << 20, `${log.size} bytes of log`);
});

test("the server's own tables and transactions", throngOnly, async () => {
  for (const exec of ["DELETE FROM users", "DROP TABLE storage", "COMMIT", "ROLLBACK", "SAVEPOINT job"]) {
    const { status, text } = await sql({ exec });
    assert.ok(status >= 400 && text.includes("bad statement"), `${exec}: ${status} ${text}`);
  }
  assert.ok((await server.counters()).of("sql_refused") >= 5);
  assert.equal((await sql({ query: "SELECT 1 FROM users LIMIT 1" })).status, 200);
});

test("a database that is deleted while the server runs acknowledges nothing", throngOnly, async () => {
  const other = await startVictim();
  try {
    const { session: by } = await newPlayer(other);
    assert.equal((await sql({ exec: "CREATE TABLE t (x)" }, other, by)).status, 200);
    await rm(join(other.dataDir, "throng.db"));
    await assert.rejects(newPlayer(other));
    const { status, text } = await sql({ exec: "INSERT INTO t VALUES (1)" }, other, by);
    assert.ok(status >= 400 && text.includes("database error"), `${status} ${text}`);
    assert.ok((await other.counters()).of("db_file_missing") > 0);
    await within(
      (async () => {
        while (!other.logTail().includes("was deleted or replaced")) {
          await new Promise((rested) => setTimeout(rested, 20));
        }
      })(),
      5_000,
      () => other.logTail(),
    );
  } finally {
    await other.stop();
  }
});
