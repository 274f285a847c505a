/**
 * docs/limits.md against a running server: every counter that the page names is served by `/metrics`. That every
 * row names one or says why not, and every bound has a row, is checked by `cargo xtask tidy`.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { startVictim } from "./attack/rig.mjs";
import { startServer, throngOnly } from "./server.mjs";
import { basic, clientOf, http, unique, until } from "./client.mjs";

const PAGE = new URL("../../docs/limits.md", import.meta.url);

/** The names in the last column of all tables. */
async function named() {
  const rows = (await readFile(PAGE, "utf8")).split("\n").filter((line) => line.startsWith("| "));
  const cells = rows.map((row) => row.split(" | ").at(-1));
  return [...new Set(cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name)))];
}

test("every counter of docs/limits.md is exported", throngOnly, async () => {
  const server = await startVictim();
  try {
    const names = await named();
    assert.ok(names.length > 50, `only ${names.length} counters on the page`);
    const counters = await server.counters();
    const missing = names.filter((name) => !counters.has(name));
    assert.deepEqual(missing, []);
  } finally {
    await server.stop();
  }
});

test("memory of scripts and matches is told", throngOnly, async () => {
  const server = await startVictim();
  try {
    const before = await server.counters();
    assert.equal(before.of("match_memory_bytes"), 0);
    const create = `/v2/rpc/e2e_create_match?http_key=${server.httpKey}&unwrap`;
    for (let count = 0; count < 10; count += 1) {
      assert.equal((await http(server, "POST", create, { body: "{}" })).status, 200);
    }
    const after = await server.counters();
    const matches = after.of("match_memory_bytes");
    assert.ok(matches > 10 * 10_000, `${matches} bytes of ten matches`);
    const grown = after.of("scripts_memory_bytes") - before.of("scripts_memory_bytes");
    assert.ok(before.of("scripts_memory_bytes") > 0 && grown > matches / 2, `${grown} bytes more in all`);
    assert.equal(after.of("scripts_rebuilt"), 0);
  } finally {
    await server.stop();
  }
});

test("a lockout tells the seconds left, and the log whose it is", throngOnly, async () => {
  const server = await startServer({ options: { "limit.exempt_addresses": "10.0.0.0/8" } });
  try {
    const email = `${unique()}@example.com`;
    const session = await clientOf(server).authenticateEmail(email, "right password", true);
    const login = (password) =>
      http(server, "POST", "/v2/account/authenticate/email", {
        headers: basic(server.serverKey),
        body: JSON.stringify({ email, password }),
      });
    for (let tries = 0; tries < 5; tries += 1) assert.equal((await login("wrong password")).status, 401);
    const locked = await login("right password");
    assert.equal(locked.status, 429);
    const after_s = Number(locked.headers.get("retry-after"));
    assert.ok(after_s > 50 && after_s <= 60, `${after_s} s`);
    const who = `a login of user ${session.user_id} from address 127.0.0.1 is refused`;
    await until(() => server.logTail().includes(who));
    const line = server.logTail().split("\n").find((it) => it.includes(who));
    assert.equal(line.split("limit.password_attempts_per_account").length, 2, line);
    assert.ok(line.includes("limit.password_lockout_account_sec 60"), line);
    assert.ok(!line.includes("right password") && !line.includes(email), line);
  } finally {
    await server.stop();
  }
});
