/**
 * What a match costs when nobody plays it: a thousand of them, in the resident memory of the process.
 *
 * Not here: what greedy matches may take (guests.test.mjs), what idle sockets cost (`throng load ccu`).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { http } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { startVictim } from "./rig.mjs";

/** What SPEC.md promises. */
const MATCH_KB_MAX = 100;
const MATCHES = 1_000;
/** One call may make 100 (`match.created_per_call_max`). */
const MATCHES_PER_CALL = 50;

let server;
before(async () => {
  if (!throngOnly.skip) server = await startVictim();
});
after(() => server?.stop());

async function make(count) {
  const path = `/v2/rpc/many_empty_matches?http_key=${server.httpKey}&unwrap`;
  const { status, text } = await http(server, "POST", path, { body: String(count) });
  assert.equal(status, 200, text);
}

test(`${MATCHES} empty matches take less than ${MATCH_KB_MAX} KB each`, throngOnly, async (context) => {
  // What the first match of every room needs once.
  await make(MATCHES_PER_CALL);
  const [resident, counted] = [await server.residentBytes(), await server.counters()];
  for (let made = 0; made < MATCHES; made += MATCHES_PER_CALL) await make(MATCHES_PER_CALL);
  const grown = (await server.residentBytes()) - resident;
  const scripts = (await server.counters()).of("match_memory_bytes") - counted.of("match_memory_bytes");
  const each = (bytes) => Math.round(bytes / MATCHES / 100) / 10;
  context.diagnostic(`${each(grown)} KB resident for each match, ${each(scripts)} KB of it in Lua's state`);
  assert.ok(grown > scripts / 2, `${grown} bytes for ${scripts} of scripts`);
  assert.ok(grown < MATCHES * MATCH_KB_MAX * 1000, `${each(grown)} KB for each match`);
});
